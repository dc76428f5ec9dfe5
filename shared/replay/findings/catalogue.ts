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
import { overlap } from "./overlap.ts";
import { paused } from "./paused.ts";
import { quota } from "./quota.ts";
import { readiness } from "./readiness.ts";
import { replicaWriters } from "./replica-writers.ts";
import { scheduling } from "./scheduling.ts";
import { terminating } from "./terminating.ts";
import type { View } from "../incident/view.ts";
import { volume } from "./volume.ts";

const RULES: readonly Rule[] = [
  ...[notObserved, quota, admission, node, scheduling, volume, terminating],
  ...[image, containerConfig, liveness, containerExit, initContainer, readiness],
  ...[eviction, replicaWriters, paused, overlap, collision],
  ...[minReady, noRoom, noRollout, deadline],
];
const WORDS = Object.assign({}, ...RULES.map(({ words }) => words)) as Rule["words"]; // the keys are the kinds of the rules
/** Kinds of findings that cannot be observed in a single state. */
export const NEEDS_HISTORY: readonly string[] = RULES.flatMap(({ needsHistory = [] }) => needsHistory);
const LEVELS: readonly Finding["level"][] = ["cause", "wait", "effect"];

export function findingsOf(view: View): readonly Finding[] {
  return RULES.flatMap((rule) => rule.find(view)).toSorted((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level) || a.rank - b.rank);
}

export function wordsOf({ kind, facts }: Finding, target: Target): Words {
  return WORDS[kind]?.(facts, target) ?? { cause: kind };
}
