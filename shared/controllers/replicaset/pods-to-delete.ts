/** Chooses the pods to delete when there are too many (replicaset §8). */
import { compareText } from "@deltaloop/base";
import type { CachedPod, CachedReplicaSet } from "@deltaloop/kube/objects";
import { isActive, isReady, parseTime } from "@deltaloop/kube/objects";
import { compileSelector, matches } from "@deltaloop/kube/selectors";
import type { ReplicaReason, VictimRule } from "./reasons.ts";

export interface Victims {
  readonly victims: readonly CachedPod[];
  /** One reason per victim, then those of the pods that stay; empty if all pods are deleted. */
  readonly why: readonly ReplicaReason[];
}

/**
 * The `count` pods to delete. If all are deleted, in the given order; otherwise by upstream's ranking (RULES), which prefers nodes with
 * more related pods. `related`: the pods of this owner and its siblings.
 *
 * Source: pkg/controller/replicaset/replica_set.go getPodsToDelete, getPodsRankedByRelatedPodsOnSameNode.
 */
export function getPodsToDelete(
  pods: readonly CachedPod[],
  related: readonly CachedPod[],
  { count, nowMs }: { readonly count: number; readonly nowMs: number },
): Victims {
  if (count >= pods.length) return { victims: pods, why: [] };
  const onNode = new Map<string, number>();
  for (const { nodeName = "" } of related.filter(isActive)) onNode.set(nodeName, (onNode.get(nodeName) ?? 0) + 1);
  const rank = (pod: CachedPod): number => onNode.get(pod.nodeName ?? "") ?? 0;
  // The order below is not transitive in its time buckets; sorting by uid first makes the result independent of input order.
  const sorted = pods.toSorted(byUid).toSorted((a, b) => comparePods(a, b, { rankA: rank(a), rankB: rank(b), nowMs }));
  const victims = sorted.slice(0, count);
  const survivors = sorted.slice(count);
  const why = victims.flatMap((pod) => whyFirst(pod, survivors, { rank, nowMs }));
  const named = why.at(-1)?.facts.survivor;
  const others = survivors.filter(({ name }) => name !== named);
  return { victims, why: [...why, ...whyStaying(others, victims.at(-1), { rank, nowMs })] };
}

interface Ranking {
  readonly rank: (pod: CachedPod) => number;
  readonly nowMs: number;
}

/**
 * The reason why `pod` is deleted: the rule that orders it before the first pod that stays. Empty if the order of these two is reversed,
 * which is possible because the order is not transitive.
 */
function whyFirst(pod: CachedPod, survivors: readonly CachedPod[], ranking: Ranking): readonly GoesFirst[] {
  for (const other of survivors) {
    const rule = ruleBetween(pod, other, ranking);
    if (rule === undefined) continue;
    return [{ rule: "goes first", about: pod.name, facts: { ...compared(rule, pod, other, ranking), survivor: other.name } }];
  }
  return [];
}

type GoesFirst = Extract<ReplicaReason, { rule: "goes first" }>;

/** Compares the surviving pods with the last victim: one reason for each ranking rule that orders the victim before them. */
function whyStaying(survivors: readonly CachedPod[], victim: CachedPod | undefined, ranking: Ranking): readonly ReplicaReason[] {
  if (victim === undefined) return [];
  const spared = Map.groupBy(survivors, (pod) => ruleBetween(victim, pod, ranking));
  return [...spared].flatMap(([rule, [first, ...more]]) => {
    if (rule === undefined || first === undefined) return [];
    const facts = { ...compared(rule, first, victim, ranking), victim: victim.name, pods: 1 + more.length };
    return [{ rule: "stays" as const, about: first.name, facts }];
  });
}

/** Returns the rule that orders two pods, if any. */
function ruleBetween(pod: CachedPod, other: CachedPod, { rank, nowMs }: Ranking): Rule | undefined {
  const at = { rankA: rank(pod), rankB: rank(other), nowMs };
  const rule = RULES.find(({ compare }) => compare(pod, other, at) !== 0);
  return rule !== undefined && rule.compare(pod, other, at) < 0 ? rule : undefined;
}

function compared(
  { by, shown }: Rule,
  pod: CachedPod,
  other: CachedPod,
  { rank }: Ranking,
): Readonly<Record<"its" | "others", string> & { by: VictimRule }> {
  return { by, its: shown(pod, rank(pod)), others: shown(other, rank(other)) };
}

interface Compared {
  /** Related pods on its node. */
  readonly rankA: number;
  readonly rankB: number;
  readonly nowMs: number;
}

interface Rule {
  readonly by: VictimRule;
  readonly compare: (a: CachedPod, b: CachedPod, at: Compared) => number;
  /** The compared value, as shown to users. */
  readonly shown: (pod: CachedPod, rank: number) => string;
}

/** The first rule that distinguishes two pods decides. Source: pkg/controller/controller_utils.go ActivePodsWithRanks.Less. */
const RULES: readonly Rule[] = [
  { by: "no node", compare: (a, b) => Number(isAssigned(a)) - Number(isAssigned(b)), shown: ({ nodeName = "" }) => nodeName || "no node" },
  { by: "phase", compare: (a, b) => phaseOrder(a) - phaseOrder(b), shown: ({ phase = "Unknown" }) => phase },
  { by: "not ready", compare: (a, b) => Number(isReady(a)) - Number(isReady(b)), shown: (pod) => (isReady(pod) ? "ready" : "not ready") },
  { by: "deletion cost", compare: (a, b) => deletionCost(a) - deletionCost(b), shown: (pod) => String(deletionCost(pod)) },
  { by: "pods on its node", compare: (_a, _b, { rankA, rankB }) => rankB - rankA, shown: (_pod, rank) => String(rank) },
  {
    by: "ready since",
    compare: (a, b, { nowMs }) => (areReady(a, b) ? compareTimes(a.ready?.since, b.ready?.since, nowMs) : 0),
    shown: readySince,
  },
  {
    by: "ready about as long",
    compare: (a, b) => (areReady(a, b) && !isSameTime(a.ready?.since, b.ready?.since) ? byUid(a, b) : 0),
    shown: readySince,
  },
  { by: "restarts", compare: (a, b) => (b.restarts ?? 0) - (a.restarts ?? 0), shown: ({ restarts = 0 }) => String(restarts) },
  {
    by: "sidecar restarts",
    compare: (a, b) => (b.sidecarRestarts ?? 0) - (a.sidecarRestarts ?? 0),
    shown: ({ sidecarRestarts = 0 }) => String(sidecarRestarts),
  },
  { by: "created", compare: (a, b, { nowMs }) => compareTimes(a.creationTimestamp, b.creationTimestamp, nowMs), shown: created },
  {
    by: "about as old",
    compare: (a, b) => (isSameTime(a.creationTimestamp, b.creationTimestamp) ? 0 : byUid(a, b)),
    shown: created,
  },
  { by: "uid", compare: (a, b) => byUid(a, b), shown: ({ uid }) => uid },
];

/**
 * Negative if `a` is deleted first. The first rule that distinguishes them decides.
 *
 * Source: pkg/controller/controller_utils.go ActivePodsWithRanks.Less. Differs from upstream: ties are broken by the lower uid, then
 * the lower name, so that two workers choose the same victims.
 */
export function comparePods(a: CachedPod, b: CachedPod, at: Compared): number {
  for (const { compare } of RULES) {
    const order = compare(a, b, at);
    if (order !== 0) return order;
  }
  return 0;
}

function isAssigned(pod: CachedPod): boolean {
  return pod.nodeName !== undefined && pod.nodeName !== "";
}

const PHASE_ORDER: ReadonlyMap<string, number> = new Map([
  ["Pending", 0],
  ["Unknown", 1],
  ["Running", 2],
]);

function phaseOrder(pod: CachedPod): number {
  return PHASE_ORDER.get(pod.phase ?? "") ?? 0;
}

/**
 * An int32 as upstream parses it: no plus sign, no leading zeros; other texts count as 0.
 * Source: pkg/apis/core/helper GetDeletionCostFromPodAnnotations.
 */
export function deletionCost({ deletionCost: text = "" }: CachedPod): number {
  if (!/^(-[0-9]+|0|[1-9][0-9]*)$/.test(text)) return 0;
  const cost = Number(text);
  return cost >= -(2 ** 31) && cost < 2 ** 31 ? cost : 0;
}

/**
 * Younger first, with ages compared by order of magnitude. The next rule, the lower uid, decides between equal ages. Otherwise all of the
 * youngest pods of a rollout would be deleted, and these often share a zone. Pods without a time are deleted first.
 *
 * Source: controller_utils.go afterOrZero, logarithmicRankDiff.
 */
function compareTimes(timeA: string | undefined, timeB: string | undefined, nowMs: number): number {
  const [msA, msB] = [parseTime(timeA), parseTime(timeB)];
  if (msA === msB) return 0;
  if (msA === undefined) return -1;
  if (msB === undefined) return 1;
  return ageBucket(nowMs - msA) - ageBucket(nowMs - msB);
}

function isSameTime(a: string | undefined, b: string | undefined): boolean {
  return parseTime(a) === parseTime(b);
}

function areReady(a: CachedPod, b: CachedPod): boolean {
  return isReady(a) && isReady(b);
}

function readySince({ ready }: CachedPod): string {
  return ready?.since ?? "unknown";
}

function created({ creationTimestamp = "unknown" }: CachedPod): string {
  return creationTimestamp;
}

/** 2 h → 42, 5 h and 8 h → 44: truncated log2 of the age in nanoseconds; -1 for a time in the future. */
export function ageBucket(ageMs: number): number {
  return ageMs > 0 ? Math.trunc(Math.log2(ageMs * 1e6)) : -1;
}

function byUid(a: CachedPod, b: CachedPod): number {
  return compareText(a.uid, b.uid) || compareText(a.name, b.name);
}

/**
 * Of `pods`, those that match the selector of a sibling (a ReplicaSet with the same controller owner, this one included).
 * A sibling without a valid selector is skipped.
 *
 * Source: replica_set.go getIndirectlyRelatedPods. Differs from upstream: `pods` are those in the siblings' slices and the
 * namespace's orphans, so a matching pod of another controller does not count.
 */
export function relatedPods(siblings: readonly CachedReplicaSet[], pods: readonly CachedPod[]): readonly CachedPod[] {
  const selectors = siblings.flatMap(({ spec }) => {
    const selector = compileSelector(spec.selector);
    return selector.kind === "Invalid" ? [] : [selector];
  });
  const byUids = new Map(pods.map((pod) => [pod.uid, pod]));
  return [...byUids.values()].filter((pod) => selectors.some((selector) => matches(selector, pod.labels)));
}

/**
 * Age of each ready pod to delete, divided by that of the youngest ready pod and rounded down: 8 h and 5 h → 1, 8 h and 2 h → 4. Empty if
 * the youngest was created in this millisecond.
 *
 * Source: replica_set.go reportSortingDeletionAgeRatioMetric. Differs from upstream, which divides by an age of 0 and panics.
 */
export function deletionAgeRatios(pods: readonly CachedPod[], victims: ReadonlySet<string>, nowMs: number): readonly number[] {
  const ready = pods.flatMap((pod) => {
    const createdMs = parseTime(pod.creationTimestamp);
    return isReady(pod) && createdMs !== undefined ? [{ uid: pod.uid, ageMs: nowMs - createdMs }] : [];
  });
  const youngestMs = ready.reduce((least, { ageMs }) => Math.min(least, ageMs), Infinity);
  return youngestMs <= 0 ? [] : ready.filter(({ uid }) => victims.has(uid)).map(({ ageMs }) => Math.trunc(ageMs / youngestMs));
}
