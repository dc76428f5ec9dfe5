/** Computes requests and limits of a pod and its QoS class (node-agent §7.6, §13.4). */
import { numericQuantity, parseQuantity, quantityNanos } from "@deltaloop/kube/quantity";
import { initContainersOf, isSidecar, type ContainerSpec, type NodePod } from "./pod.ts";

/** Amounts by resource name, in units of 10⁻⁹. */
export type Requests = ReadonlyMap<string, bigint>;

const NOTHING: Requests = new Map();
const POD_LEVEL_RESOURCES = /^(?:cpu|memory|hugepages-.+)$/u;

/**
 * Returns the pod's requests: the sum over regular containers and sidecars, or the request of the largest init container plus its
 * preceding sidecars, whichever is larger, plus the overhead. Pod-level `spec.resources` replace this result.
 *
 *     init 2, sidecar 1, init 3, containers 1 + 1 → max(2, 1 + 3, 1 + 1 + 1) = 4
 *
 * Source: component-helpers resource/helpers.go PodRequests.
 */
export function podRequests({ spec, ...pod }: NodePod): Requests {
  let running = spec.containers.map(({ resources }) => amounts(resources?.requests)).reduce(plus, NOTHING);
  let sidecars = NOTHING;
  let starting = NOTHING;
  for (const container of initContainersOf({ spec, ...pod })) {
    const own = amounts(container.resources?.requests);
    starting = larger(starting, plus(own, sidecars));
    if (!isSidecar(container)) continue;
    sidecars = plus(sidecars, own);
    running = plus(running, own);
  }
  const ofPod = [...amounts(spec.resources?.requests)].filter(([name]) => POD_LEVEL_RESOURCES.test(name));
  return plus(new Map([...larger(running, starting), ...ofPod]), amounts(spec.overhead));
}

/**
 * Returns the pod's limits, computed as in podRequests. Overhead only increases existing limits. A result does not imply that every
 * container has a limit. Source: component-helpers resource/helpers.go PodLimits.
 */
export function podLimits({ spec, ...pod }: NodePod): Requests {
  const { overhead, resources: _ofPod, ...rest } = spec;
  const counting = ({ resources, ...container }: ContainerSpec): ContainerSpec => ({
    ...container,
    resources: { requests: resources?.limits ?? {} },
  });
  const [containers, initContainers] = [spec.containers.map(counting), initContainersOf({ spec, ...pod }).map(counting)];
  const limits = podRequests({ ...pod, spec: { ...rest, containers, initContainers } });
  return plus(limits, new Map([...amounts(overhead)].filter(([name]) => (limits.get(name) ?? 0n) > 0n)));
}

/** Returns the amount in whole units, rounded up; `cpu` in millicores. */
export function wholeAmount(requests: Requests, name: string): number {
  const unit = name === "cpu" ? 1_000_000n : 1_000_000_000n;
  return Number(((requests.get(name) ?? 0n) + unit - 1n) / unit);
}

function amounts(list: Readonly<Record<string, string>> | undefined): Requests {
  return new Map(
    Object.entries(list ?? {}).map(([name, text]) => {
      const quantity = parseQuantity(String(text));
      return [name, quantity === undefined ? 0n : quantityNanos(quantity)];
    }),
  );
}

function plus(a: Requests, b: Requests): Requests {
  return combine(a, b, (x, y) => x + y);
}

function larger(a: Requests, b: Requests): Requests {
  return combine(a, b, (x, y) => (x > y ? x : y));
}

function combine(a: Requests, b: Requests, how: (x: bigint, y: bigint) => bigint): Requests {
  return new Map([...new Set([...a.keys(), ...b.keys()])].map((name) => [name, how(a.get(name) ?? 0n, b.get(name) ?? 0n)]));
}

export type QosClass = "Guaranteed" | "Burstable" | "BestEffort";

const COUNTED = ["cpu", "memory"] as const;
type Quantities = Readonly<Record<string, string>> | undefined;

/**
 * Returns the QoS class that the API server has set, or else computes it from the spec. The class of a pod never changes.
 *
 *     no requests or limits in any container                    → BestEffort
 *     cpu and memory limited in every container, requests equal → Guaranteed
 *     anything else                                             → Burstable
 *
 * Includes init containers; ephemeral containers have no resources. Source: pkg/apis/core/v1/helper/qos/qos.go GetPodQOS, ComputePodQOS.
 * Differs from upstream: ignores pod-level resources, because pods with them stay Pending (unsupported-features.ts); compares each
 * container instead of sums, which is equivalent unless requests exceed limits.
 */
export function qosClass(pod: NodePod): QosClass {
  const written = pod.status?.qosClass;
  if (isQosClass(written)) return written;
  const containers = [...pod.spec.containers, ...initContainersOf(pod)];
  if (containers.every((container) => COUNTED.every((name) => asks(container, name).length === 0))) return "BestEffort";
  return containers.every(isGuaranteed) ? "Guaranteed" : "Burstable";
}

/** An unset request equals the limit, as in the API's defaults. */
function isGuaranteed({ resources }: ContainerSpec): boolean {
  return COUNTED.every((name) => {
    const limit = amount(resources?.limits, name);
    return limit !== undefined && (amount(resources?.requests, name) ?? limit) === limit;
  });
}

function asks({ resources }: ContainerSpec, name: string): readonly string[] {
  return [amount(resources?.requests, name), amount(resources?.limits, name)].filter((value) => value !== undefined);
}

/** The amount in units of 10⁻⁹; undefined unless it is positive. */
function amount(quantities: Quantities, name: string): string | undefined {
  const nanos = numericQuantity(quantities?.[name] ?? "");
  return nanos === undefined || nanos === "0" || nanos.startsWith("-") ? undefined : nanos;
}

function isQosClass(text: string | undefined): text is QosClass {
  return text === "Guaranteed" || text === "Burstable" || text === "BestEffort";
}

/** Powers of 1024. */
const BYTE_UNITS = ["B", "KB", "MB", "GB", "TB", "PB"] as const;

/** Returns CPU in millicores and other amounts in whole units, rounded up; undefined if absent. */
export function amountOf(quantities: Readonly<Record<string, string>>, name: string): number | undefined {
  const quantity = parseQuantity(quantities[name] ?? "");
  if (quantity === undefined) return undefined;
  const nanos = quantityNanos(quantity);
  return wholeAmount(new Map([[name, nanos]]), name);
}

/** Converts `2Mi` to `2MB`, the notation of cgroups. Source: pkg/apis/core/v1/helper/helpers.go HugePageUnitSizeFromByteSize. */
export function pageSizeName(quantity: string): string {
  const bytes = amountOf({ size: quantity }, "size") ?? 0;
  const power = BYTE_UNITS.findLastIndex((_unit, index) => bytes >= 1024 ** index && bytes % 1024 ** index === 0);
  return `${bytes / 1024 ** Math.max(power, 0)}${BYTE_UNITS[Math.max(power, 0)]}`;
}
