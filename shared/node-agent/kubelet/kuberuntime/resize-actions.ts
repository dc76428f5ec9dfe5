/** What a running container needs so that it has what is allocated to it (node-agent §6.11). */
import type { ContainerResources, PodAllocation } from "../../ports/node-store.ts";
import { amountOf } from "../types/pod-requests.ts";
import type { ObservedContainer, ObservedPod } from "../types/observed-pod.ts";
import { newestOf } from "../types/observed-pod.ts";
import type { ContainerSpec } from "../types/pod.ts";

export type ResizedResource = "cpu" | "memory";

/** One call of the runtime; `resources` is all that the container has afterwards. */
export interface ContainerUpdate {
  readonly id: string;
  readonly name: string;
  readonly resource: ResizedResource;
  readonly resources: ContainerResources;
  readonly change: "decrease" | "increase";
  /** A limit that is new or below the one before must be above what is used. */
  readonly lowersMemoryLimitTo?: number;
}

export type ResizeStep =
  | { readonly kill: { readonly id: string; readonly name: string; readonly message: string } }
  | { readonly updates: readonly ContainerUpdate[] };

const RESIZED: readonly ResizedResource[] = ["memory", "cpu"];
const LISTS = ["limits", "requests"] as const;

/**
 * By what the container was last set to, and its resize policy:
 *
 *     cpu 100m → 200m                                → one update of cpu
 *     cpu 100m → 200m, memory 64Mi → 32Mi            → memory first, with 100m still, then cpu
 *     memory 64Mi → 128Mi, RestartContainer          → kill, to be started again with all of it
 *     nobody wrote down what it has                  → update, whatever the policy
 *
 * Source: pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodResizeAction. Differs from upstream where nobody wrote it down, as
 * after an upgrade: there a container of policy RestartContainer is restarted.
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
    // By its limit if that changes, else by its request.
    const list = LISTS.find((one) => amount(desired, one, resource) !== amount(actuated, one, resource)) ?? "requests";
    const change = amount(desired, list, resource) > amount(actuated, list, resource) ? "increase" : "decrease";
    const [limit, was] = [amount(desired, "limits", "memory"), amount(actuated, "limits", "memory")];
    const lowers = resource === "memory" && limit > 0 && (was === 0 || limit < was);
    // CPU comes last: by then memory is as desired.
    const resources = resource === "cpu" ? desired : withCpuOf(desired, actuated ?? desired);
    return [{ id, name, resource, resources, change, ...(lowers && { lowersMemoryLimitTo: limit }) } as const];
  });
  return { updates };
}

/** Memory before CPU; of each what is taken, the last container's first, before what is given. */
export function inUpdateOrder(updates: readonly ContainerUpdate[]): readonly ContainerUpdate[] {
  return RESIZED.flatMap((resource) => {
    const own = updates.filter((update) => update.resource === resource);
    const of = (change: ContainerUpdate["change"]): readonly ContainerUpdate[] => own.filter((update) => update.change === change);
    return [...of("decrease").toReversed(), ...of("increase")];
  });
}

/**
 * Something that runs does not have what is allocated to it. What nobody wrote down is not told: it is set without a word.
 *
 * Source: kuberuntime_manager.go isContainerResourceResizeInProgress.
 */
export function isResizeInProgress({ containers }: PodAllocation, observed: ObservedPod): boolean {
  return Object.entries(containers).some(([name, { allocated, actuated }]) => {
    if (actuated === undefined || newestOf(observed, name)?.state !== "CONTAINER_RUNNING") return false;
    return RESIZED.some((resource) => LISTS.some((list) => amount(allocated, list, resource) !== amount(actuated, list, resource)));
  });
}

/** What is not said counts as 0. */
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
