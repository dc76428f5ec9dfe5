/** In-place resizes of running containers (node-agent §6.11). */
import type { ContainerResources, PodAllocation } from "../../ports/node-store.ts";
import { amountOf } from "../types/pod-requests.ts";
import { newestOf, type ObservedContainer, type ObservedPod } from "../types/observed-pod.ts";
import type { ContainerSpec } from "../types/pod.ts";

export type ResizedResource = "cpu" | "memory";

/** One runtime call; `resources` contains all new values, including unchanged ones. */
export interface ContainerUpdate {
  readonly id: string;
  readonly name: string;
  readonly resource: ResizedResource;
  readonly resources: ContainerResources;
  readonly change: "decrease" | "increase";
  /** A memory limit that is new or lower. It must exceed the current usage. */
  readonly lowersMemoryLimitTo?: number;
}

export type ResizeStep =
  | { readonly kill: { readonly id: string; readonly name: string; readonly message: string } }
  | { readonly updates: readonly ContainerUpdate[] };

const RESIZED: readonly ResizedResource[] = ["memory", "cpu"];
const LISTS = ["limits", "requests"] as const;

/**
 * Compares the desired resources with the actuated ones, by resize policy:
 *
 *     cpu 100m → 200m                                → one update of cpu
 *     cpu 100m → 200m, memory 64Mi → 32Mi            → memory first, still with 100m, then cpu
 *     memory 64Mi → 128Mi, RestartContainer          → kill; it restarts with the new resources
 *     actuated resources unknown                     → update, whatever the policy
 *
 * Source: pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodResizeAction. Differs from upstream, which assumes that unknown
 * actuated resources equal the allocated ones.
 */
export function resizeStep(container: ContainerSpec, running: ObservedContainer): ResizeStep {
  const { id, name, actuated } = running;
  const desired = container.resources ?? {};
  const changed = RESIZED.filter((resource) => LISTS.some((list) => amount(desired, list, resource) !== amount(actuated, list, resource)));
  const restarts = changed.some((resource) =>
    (container.resizePolicy ?? []).some(
      ({ resourceName, restartPolicy }) => resourceName === resource && restartPolicy === "RestartContainer",
    ),
  );
  if (restarts && actuated !== undefined) return { kill: { id, name, message: `Container ${name} resize requires restart` } };
  const updates = changed.flatMap((resource) => {
    // The change is an increase or a decrease of the limit if the limit changes, otherwise of the request.
    const list = LISTS.find((one) => amount(desired, one, resource) !== amount(actuated, one, resource)) ?? "requests";
    const change = amount(desired, list, resource) > amount(actuated, list, resource) ? "increase" : "decrease";
    const [limit, was] = [amount(desired, "limits", "memory"), amount(actuated, "limits", "memory")];
    const lowers = resource === "memory" && limit > 0 && (was === 0 || limit < was);
    // The CPU is updated last, so the memory already has the desired value.
    const resources = resource === "cpu" ? desired : withCpuOf(desired, actuated ?? desired);
    return [{ id, name, resource, resources, change, ...(lowers && { lowersMemoryLimitTo: limit }) } as const];
  });
  return { updates };
}

/** Memory before CPU. For each of them, decreases come first, in reverse order, and then increases. */
export function inUpdateOrder(updates: readonly ContainerUpdate[]): readonly ContainerUpdate[] {
  return RESIZED.flatMap((resource) => {
    const own = updates.filter((update) => update.resource === resource);
    const of = (change: ContainerUpdate["change"]): readonly ContainerUpdate[] => own.filter((update) => update.change === change);
    return [...of("decrease").toReversed(), ...of("increase")];
  });
}

/**
 * Whether a running container does not have its allocated resources yet. Unknown actuated resources do not count. Source:
 * kuberuntime_manager.go isContainerResourceResizeInProgress.
 */
export function isResizeInProgress({ containers }: PodAllocation, observed: ObservedPod): boolean {
  return Object.entries(containers).some(([name, { allocated, actuated }]) => {
    if (actuated === undefined || newestOf(observed, name)?.state !== "CONTAINER_RUNNING") return false;
    return RESIZED.some((resource) => LISTS.some((list) => amount(allocated, list, resource) !== amount(actuated, list, resource)));
  });
}

/** 0 if absent. */
function amount(resources: ContainerResources | undefined, list: (typeof LISTS)[number], resource: ResizedResource): number {
  return amountOf(resources?.[list] ?? {}, resource) ?? 0;
}

function withCpuOf(resources: ContainerResources, { requests, limits }: ContainerResources): ContainerResources {
  const mixed = (own: Readonly<Record<string, string>> = {}, other: Readonly<Record<string, string>> = {}): Record<string, string> => {
    const { cpu: _, ...rest } = own;
    return other["cpu"] === undefined ? rest : { ...rest, cpu: other["cpu"] };
  };
  return { requests: mixed(resources.requests, requests), limits: mixed(resources.limits, limits) };
}
