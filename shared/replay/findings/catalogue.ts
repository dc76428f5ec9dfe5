/** All rules, and the order of findings: causes before waits, waits before effects. */
import { admission } from "./admission.ts";
import { collision } from "./collision.ts";
import { containerConfig } from "./container-config.ts";
import { containerExit } from "./container-exit.ts";
import { deadline } from "./deadline.ts";
import { eviction } from "./eviction.ts";
import type { Finding, Rule, Target, Words } from "./finding.ts";
import { image } from "./image.ts";
import { initContainer } from "./init-container.ts";
import { liveness } from "./liveness.ts";
import { minReady } from "./min-ready.ts";
import { noRollout } from "./no-rollout.ts";
import { noRoom } from "./no-room.ts";
import { node } from "./node.ts";
import { notObserved } from "./not-observed.ts";
import { otherWorkload } from "./other-workload.ts";
import { overlap } from "./overlap.ts";
import { paused } from "./paused.ts";
import { quota } from "./quota.ts";
import { readiness } from "./readiness.ts";
import { replicaWriters } from "./replica-writers.ts";
import { scheduling } from "./scheduling.ts";
import { terminating } from "./terminating.ts";
import { replacementsOf } from "../incident/view.ts";
import type { View } from "../incident/view.ts";
import { volume } from "./volume.ts";

/** Why a pod does not start or does not become ready. */
const START_RULES: readonly Rule[] = [
  ...[scheduling, volume],
  ...[image, containerConfig, liveness, containerExit, initContainer, readiness],
];
const RULES: readonly Rule[] = [
  ...[notObserved, quota, admission, node, terminating],
  ...START_RULES,
  ...[eviction, replicaWriters, paused, overlap, collision],
  ...[minReady, noRoom, otherWorkload, noRollout, deadline],
];
const WORDS = Object.assign({}, ...RULES.map(({ words }) => words)) as Rule["words"]; // the keys are the kinds of the rules
/** Kinds of findings that cannot be observed in a single state. */
export const NEEDS_HISTORY: readonly string[] = RULES.flatMap(({ needsHistory = [] }) => needsHistory);
const LEVELS: readonly Finding["level"][] = ["cause", "wait", "effect"];

/** Added to the rank of findings about earlier revisions, so that those about the current one come first. */
const EARLIER_RANK = 100;

export function findingsOf(view: View): readonly Finding[] {
  const earlier = { ...view, pods: replacementsOf(view), oldPods: [], terminating: [] };
  return [
    ...RULES.flatMap((rule) => rule.find(view)),
    ...START_RULES.flatMap((rule) => rule.find(earlier)).map((each) => ({
      ...each,
      rank: each.rank + EARLIER_RANK,
      isEarlier: true as const,
    })),
  ].toSorted((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level) || a.rank - b.rank);
}

export function wordsOf({ kind, facts }: Finding, target: Target): Words {
  return WORDS[kind]?.(facts, target) ?? { cause: kind };
}
