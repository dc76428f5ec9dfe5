/** What a pod does that is not available yet. */
import type { ContainerStatus } from "../evidence/pod-evidence.ts";
import type { SeenPod } from "./seen.ts";
import { containersOf, timeOf } from "./view.ts";

/** `init container migrate runs since 05:33:10Z`; undefined if the capture lacks the pod's containers. */
export function podActivity(pod: SeenPod): string | undefined {
  if (pod.isReady) return `ready since ${clock(pod.readySinceMs)}`;
  const scheduled = pod.status.conditions.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status === "False") return "not scheduled";
  const containers = containersOf([pod]);
  const before = containers.find(({ kind, status }) =>
    kind === "init container" ? status.state.terminated?.exitCode !== 0 : kind === "sidecar" && status.started !== true,
  );
  const first = before ?? containers.find(({ kind, status }) => kind === "container" && !status.ready);
  if (first === undefined) return undefined;
  const isUnready = first.kind === "container" && first.status.state.running !== undefined;
  return `${first.kind} ${first.spec.name} ${stateText(first.status)}${isUnready ? ", not ready" : ""}`;
}

function stateText({ state: { running, terminated, waiting } }: ContainerStatus): string {
  if (running !== undefined) return `runs since ${clock(timeOf(running.startedAt))}`;
  if (terminated !== undefined) return `exited with code ${terminated.exitCode}`;
  return `waits${waiting?.reason === undefined ? "" : ` (${waiting.reason})`}`;
}

function clock(ms: number | undefined): string {
  return ms === undefined ? "an unknown time" : `${new Date(ms).toISOString().slice(11, 19)}Z`;
}
