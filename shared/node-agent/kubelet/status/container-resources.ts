/** Computes the allocated and actual container resources in the pod status (node-agent §13.1). */
import { canonicalQuantity } from "@deltaloop/kube/quantity";
import type { ContainerStatus } from "../../ports/cri-types.ts";
import type { ContainerResources } from "../../ports/node-store.ts";
import { amountOf } from "../types/pod-requests.ts";
import { bytesQuantity } from "../types/node-options.ts";
import type { ObservedContainer } from "../types/observed-pod.ts";
import type { ContainerSpec, ContainerStatusEntry } from "../types/pod.ts";
import { SHARES_MIN } from "../container-manager/cpu-limits.ts";

/**
 * Minimum values. At or below them, the kernel's units cannot distinguish different amounts. Source: pkg/kubelet/cm/helpers_linux.go
 * MinShares, MinMilliCPULimit.
 */
const MILLI_CPU_LIMIT_MIN = 10;
const SHARES_PER_CPU = 1024;
const MILLI_PER_CPU = 1000;

type Amounts = Readonly<Record<string, string>>;

/**
 * Returns the allocated resources. For a running container, CPU and memory are the runtime's values, or else the previously reported
 * ones. Lists that are not allocated are omitted.
 *
 *     allocated cpu 200m; runtime 102 shares → allocatedResources cpu 200m, resources.requests cpu 100m
 *     allocated cpu 1m; runtime 2 shares     → cpu 1m in both
 *
 * Source: pkg/kubelet/kubelet_pods.go convertContainerStatusResources; kuberuntime_container_linux.go toKubeContainerResources.
 */
export function statusResources(
  container: ContainerSpec,
  observed: ObservedContainer,
  previous: ContainerStatusEntry | undefined,
): Pick<ContainerStatusEntry, "allocatedResources" | "resources"> {
  const allocated = canonical(container.resources ?? {});
  const { requests } = allocated;
  const isRunning = observed.state === "CONTAINER_RUNNING";
  return {
    ...(requests !== undefined && Object.keys(requests).length > 0 && { allocatedResources: requests }),
    resources: isRunning ? actual(allocated, observed, previous) : allocated,
  };
}

function actual(
  allocated: ContainerResources,
  observed: ObservedContainer,
  previous: ContainerStatusEntry | undefined,
): ContainerResources {
  const isSame = previous?.state?.running !== undefined && (previous.containerID ?? "").endsWith(`://${observed.id}`);
  const reported = isSame ? previous.resources : undefined;
  const { limits, requests, ...others } = allocated;
  const cpuLimit = milliQuantity(cpuLimitOf(observed.resources), amountOf(limits ?? {}, "cpu"), MILLI_CPU_LIMIT_MIN);
  const cpuRequest = milliQuantity(cpuRequestOf(observed.resources), amountOf(requests ?? {}, "cpu"), SHARES_MIN);
  const memoryLimit = observed.resources?.memoryLimitInBytes ?? 0;
  const memoryRequest = amountOf(observed.actuated?.requests ?? {}, "memory") ?? 0;
  return {
    ...others,
    ...(limits && {
      limits: {
        ...limits,
        ...pick("cpu", cpuLimit, reported?.limits),
        ...pick("memory", memoryLimit > 0 ? bytesQuantity(memoryLimit) : undefined, reported?.limits),
      },
    }),
    ...(requests && {
      requests: {
        ...requests,
        ...pick("cpu", cpuRequest, reported?.requests),
        ...pick(
          "memory",
          memoryRequest > 0 ? canonicalQuantity(observed.actuated?.requests?.["memory"] ?? "") : undefined,
          reported?.requests,
        ),
      },
    }),
  };
}

/** Means that the allocated amount is reported, because the kernel's value is too imprecise. */
const KEEP = "";

function milliQuantity(milli: number | undefined, allocatedMilli = 0, milliMin: number): string | undefined {
  if (milli === undefined) return undefined;
  return milli > milliMin || allocatedMilli > milliMin ? canonicalQuantity(`${milli}m`) : KEEP;
}

function pick(name: string, amount: string | undefined, reported: Amounts | undefined): Amounts {
  if (amount === KEEP) return {};
  const value = amount ?? reported?.[name];
  return value === undefined ? {} : { [name]: value };
}

function cpuRequestOf({ cpuShares = 0 }: NonNullable<ContainerStatus["resources"]> = {}): number | undefined {
  return cpuShares < SHARES_MIN ? undefined : Math.ceil((cpuShares * MILLI_PER_CPU) / SHARES_PER_CPU);
}

function cpuLimitOf({ cpuQuota = 0, cpuPeriod = 0 }: NonNullable<ContainerStatus["resources"]> = {}): number | undefined {
  if (cpuQuota <= 0 || cpuPeriod <= 0) return undefined;
  return Math.trunc((cpuQuota * MILLI_PER_CPU) / cpuPeriod);
}

/** Converts quantities to the API server's canonical form, so that values that are read back equal the values that were sent. */
function canonical({ requests, limits }: ContainerResources): ContainerResources {
  const all = (amounts: Amounts): Record<string, string> =>
    Object.fromEntries(Object.entries(amounts).map(([name, text]) => [name, canonicalQuantity(text) ?? text]));
  return { ...(limits && { limits: all(limits) }), ...(requests && { requests: all(requests) }) };
}
