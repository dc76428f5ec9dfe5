/** Findings about waiting controllers: the condition, the rule of the specification, and the deadline. */
import { deadlineMsOf } from "../findings/deadline.ts";
import type { Finding } from "../findings/finding.ts";
import { refusedPods } from "../incident/refused-pods.ts";
import { podActivity } from "../incident/pod-activity.ts";
import { availablePods, isChanged, podName } from "../incident/view.ts";
import type { View } from "../incident/view.ts";

export interface Wait {
  readonly kind: "available" | "deadline" | "retry" | "minReadySeconds" | "evicted" | "ended" | "resume";
  readonly words: string;
  /** The action after the wait. */
  readonly outcome?: string;
  /** Section of the specifications. */
  readonly rule?: string;
  readonly untilMs?: number | undefined;
}

/** Longest back-off of a ReplicaSet's retries. Source: client-go util/workqueue DefaultControllerRateLimiter. */
const RETRY_MS_MAX = 1_000_000;
/** Source: the tolerationSeconds that admission adds for not-ready and unreachable nodes. */
const EVICTION_MS = 300_000;

/** What the first new pod does that is not available, unless the cause tells it. */
function newPodText(view: View, [cause]: readonly Finding[]): string {
  const available = availablePods(view, view.pods);
  const pod = view.pods.find((each) => !available.includes(each));
  const text = pod && podActivity(pod);
  const isTold = pod !== undefined && cause?.level === "cause" && cause.objects.includes(podName(pod));
  return pod === undefined || text === undefined || isTold ? "" : `; ${podName(pod)}: ${text}`;
}

export function waitsOf(view: View, findings: readonly Finding[]): readonly Wait[] {
  const { owner, current } = view;
  const has = (...kinds: readonly string[]): Finding | undefined => findings.find(({ kind }) => kinds.includes(kind));
  const waits: Wait[] = [];
  if (owner === undefined || current === undefined) return waits;
  const noRoom = has("no room");
  if (noRoom !== undefined)
    waits.push({
      kind: "available",
      words: `a new pod to be available before an old one goes (maxUnavailable ${noRoom.facts["maxUnavailable"]}, maxSurge ${noRoom.facts["maxSurge"]})${newPodText(view, findings)}`,
      rule: "deployment §11",
    });
  const refused = refusedPods(view);
  if (refused !== undefined)
    waits.push({
      kind: "retry",
      words: "the next attempt to create pods",
      outcome: "each failure doubles the pause, to at most 16m40s; a change of the ReplicaSet, such as an annotation, retries at once",
      rule: "replicaset §7",
      ...(refused.lastMs !== undefined && { untilMs: refused.lastMs + RETRY_MS_MAX }),
    });
  const ready = has("waits for minReadySeconds");
  if (ready?.since !== undefined)
    waits.push({
      kind: "minReadySeconds",
      words: `minReadySeconds ${ready.facts["seconds"]} to pass`,
      rule: "replicaset §9",
      untilMs: ready.since + Number(ready.facts["seconds"]) * 1_000,
    });
  const ends = view.terminating.map(({ deletionMs = 0 }) => deletionMs);
  if (owner.strategy.type === "Recreate" && ends.length > 0 && isChanged(view))
    waits.push({
      kind: "ended",
      words: `${ends.length} terminating pod${ends.length === 1 ? "" : "s"} to end, killed`,
      outcome: "then new ones are created (strategy Recreate)",
      rule: "deployment §12",
      untilMs: Math.max(...ends),
    });
  const silent = has("node silent", "node not ready");
  if (silent?.since !== undefined)
    waits.push({
      kind: "evicted",
      words: "the eviction of the node's pods",
      outcome: "then they are replaced",
      untilMs: silent.since + EVICTION_MS,
    });
  if (has("paused")?.level === "cause") waits.push({ kind: "resume", words: "the Deployment to be resumed", rule: "deployment §13.5" });
  const deadlineMs = deadlineMsOf(view);
  if (deadlineMs !== undefined)
    waits.push({
      kind: "deadline",
      words: "progress",
      outcome: `then it reports ProgressDeadlineExceeded (progressDeadlineSeconds ${owner.progressDeadlineSeconds})`,
      rule: "deployment §13.3",
      untilMs: deadlineMs,
    });
  return waits;
}
