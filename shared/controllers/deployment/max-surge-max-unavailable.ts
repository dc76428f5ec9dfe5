/** Bounds of a rolling update above and below the wanted number of pods (deployment §9). */
import type { CachedDeployment } from "@deltaloop/kube/objects";
import type { Decision } from "../kit/reason.ts";
import { atoi } from "./atoi.ts";
import type { DeploymentReason } from "./reasons.ts";
import { replicasOf } from "./replica-sets.ts";

/** An int-or-string as in `strategy.rollingUpdate`. */
export type IntOrPercent = number | string;

/** Both numbers, resolved; `error` explains why they are 0 if a value could not be read. */
export interface Fenceposts {
  readonly surge: number;
  readonly unavailable: number;
  readonly error?: string;
}

/**
 * Resolves both values against the wanted number of pods: surge rounds up, unavailable rounds down. If both are 0, one pod may be
 * unavailable, because otherwise the rollout could not proceed.
 *
 *     25% and 25% of 10 → surge 3, unavailable 2      1% and 1% of 10 → surge 1, unavailable 0
 *     0 and 25% of 2    → surge 0, unavailable 1 (floor(0.5) = 0, so it is raised)
 *
 * Source: deployment/util ResolveFenceposts.
 */
export function resolveFenceposts(
  maxSurge: IntOrPercent | undefined,
  maxUnavailable: IntOrPercent | undefined,
  replicas: number,
): Fenceposts {
  const surge = scaledValue(maxSurge ?? 0, replicas, Math.ceil);
  if (typeof surge === "string") return { surge: 0, unavailable: 0, error: surge };
  const unavailable = scaledValue(maxUnavailable ?? 0, replicas, Math.floor);
  if (typeof unavailable === "string") return { surge: 0, unavailable: 0, error: unavailable };
  return surge === 0 && unavailable === 0 ? { surge: 0, unavailable: 1 } : { surge, unavailable };
}

/**
 * The value in pods, or upstream's error text.
 *
 *     scaledValue("39%", 10, Math.ceil) → 4      scaledValue("39%", 10, Math.floor) → 3      scaledValue("oops", …) → an error
 *
 * Source: apimachinery pkg/util/intstr GetScaledValueFromIntOrPercent.
 */
export function scaledValue(value: IntOrPercent | undefined, replicas: number, round: (value: number) => number): number | string {
  if (value === undefined) return "nil value for IntOrString";
  if (typeof value === "number") return value;
  if (!value.endsWith("%")) return "invalid value for IntOrString: invalid type: string is not a percentage";
  const percent = atoi(value.slice(0, -1));
  if (typeof percent === "string") return `invalid value for IntOrString: invalid value ${JSON.stringify(value)}: ${percent}`;
  return round((Number(percent) * replicas) / 100);
}

export function isRollingUpdate(d: CachedDeployment): boolean {
  return d.spec.strategy?.type === "RollingUpdate";
}

/** Pods that may exist above `spec.replicas`. 25% of 10 → 3. Source: deployment/util MaxSurge. */
export function surgeOf(d: CachedDeployment): Decision<number, DeploymentReason> {
  const surge = isRollingUpdate(d) ? fencepostsOf(d).surge : 0;
  return { decided: surge, why: whyPods(d, "maxSurge", surge) };
}

export function maxSurge(d: CachedDeployment): number {
  return surgeOf(d).decided;
}

/** Number of pods that may be unavailable. 50% of 5 → 2; 10 of 5 → 5. Source: deployment/util MaxUnavailable. */
export function unavailableOf(d: CachedDeployment): Decision<number, DeploymentReason> {
  if (!isRollingUpdate(d) || replicasOf(d) === 0) return { decided: 0, why: [] };
  const unavailable = Math.min(fencepostsOf(d).unavailable, replicasOf(d));
  return { decided: unavailable, why: whyPods(d, "maxUnavailable", unavailable) };
}

/**
 * Explains a resolved value that differs from the configured value: a percentage, a value raised to 1, or a value above `spec.replicas`.
 */
export function whyPods(d: CachedDeployment, field: "maxSurge" | "maxUnavailable", pods: number): readonly DeploymentReason[] {
  const given = d.spec.strategy?.rollingUpdate?.[field] ?? 0;
  if (!isRollingUpdate(d) || given === pods) return [];
  const isRaised = pods > 0 && scaledValue(given, replicasOf(d), Math.floor) === 0 && field === "maxUnavailable";
  return [{ rule: "in pods", facts: { field, given, replicas: replicasOf(d), pods, isRaised } }];
}

function fencepostsOf(d: CachedDeployment): Fenceposts {
  const rollingUpdate = d.spec.strategy?.rollingUpdate;
  return resolveFenceposts(rollingUpdate?.maxSurge, rollingUpdate?.maxUnavailable, replicasOf(d));
}
