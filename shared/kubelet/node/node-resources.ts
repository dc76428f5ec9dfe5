/** What a node has and gives to pods, as quantities (node-agent §14.3). */
import { canonicalQuantity } from "../../api/quantity-text.ts";
import type { NodeResources } from "../node-options.ts";

type Quantities = Readonly<Record<string, string>>;

/** Hard eviction default `memory.available`: 100Mi. Source: pkg/kubelet/eviction/defaults_linux.go. */
const MEMORY_RESERVED_BYTES = 100 * 1024 * 1024;
/** Hard eviction default `nodefs.available`: 10 %. Upstream keeps a percentage in 32 bits, which shows in the last digits. */
const EPHEMERAL_STORAGE_RESERVED = Math.fround(0.1);

/**
 * Capacity less what hard eviction keeps free; nothing is reserved for kubelet or system.
 *
 *     memory 16Gi → 16284Mi        ephemeral-storage 61255492Ki → 56453061334
 *
 * Source: pkg/kubelet/cm/node_container_manager_linux.go GetNodeAllocatableReservation, eviction/helpers.go.
 */
export function allocatableOf(capacity: NodeResources): NodeResources {
  const { memoryBytes, ephemeralStorageBytes } = capacity;
  return {
    ...capacity,
    memoryBytes: Math.max(0, memoryBytes - MEMORY_RESERVED_BYTES),
    ephemeralStorageBytes: Math.max(0, ephemeralStorageBytes - Math.trunc(ephemeralStorageBytes * EPHEMERAL_STORAGE_RESERVED)),
  };
}

/** As `status.capacity` and `status.allocatable` have them. */
export function resourceQuantities({ cpuMilli, memoryBytes, ephemeralStorageBytes, pods }: NodeResources): Quantities {
  return {
    cpu: canonicalQuantity(`${cpuMilli}m`) ?? "0",
    "ephemeral-storage": bytesQuantity(ephemeralStorageBytes),
    memory: bytesQuantity(memoryBytes),
    pods: canonicalQuantity(`${pods}`) ?? "0",
  };
}

/** Without any of these no pod can be placed: the node is not Ready. Source: nodestatus/setters.go ReadyCondition. */
export function missingCapacity({ cpuMilli, memoryBytes, ephemeralStorageBytes, pods }: NodeResources): readonly string[] {
  const amounts = { cpu: cpuMilli, memory: memoryBytes, pods, "ephemeral-storage": ephemeralStorageBytes };
  return Object.entries(amounts).flatMap(([resource, amount]) => (amount > 0 ? [] : [resource]));
}

/** `8388608Ki` as `8Gi`; what is not whole in Ki stays a plain number. */
function bytesQuantity(bytes: number): string {
  return (bytes % 1024 === 0 && canonicalQuantity(`${bytes / 1024}Ki`)) || String(bytes);
}
