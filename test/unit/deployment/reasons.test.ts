// Reasons of the Deployment controller's decisions.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { CachedDeployment } from "../../../shared/kube/objects/cached.ts";
import { cleanupDeployment } from "../../../shared/controllers/deployment/history.ts";
import { followUpMs, progressRecheckMs, rolloutStatus } from "../../../shared/controllers/deployment/progress.ts";
import { oldPodsRunning } from "../../../shared/controllers/deployment/recreate.ts";
import type { ReplicaSetSplit } from "../../../shared/controllers/deployment/replica-sets.ts";
import {
  cleanupUnhealthyReplicas,
  newRSNewReplicas,
  reconcileNewReplicaSet,
  scaleDownOldReplicaSets,
  shrinkBudget,
} from "../../../shared/controllers/deployment/rolling.ts";
import { scale, scalingEvent } from "../../../shared/controllers/deployment/scale.ts";
import { expectChangesExplained, type Decided } from "../../support/perturbed.ts";
import { condition, deployment, NOW_MS, pod, replicaSet } from "./builders.ts";

const few = fc.nat(12);

/** Returns the written sizes without the accompanying annotations. */
const sizes = (steps: readonly { readonly write: { readonly name: string; readonly replicas?: number } }[]): unknown =>
  steps.map(({ write }) => [write.name, write.replicas]);

interface Rollout {
  readonly replicas: number;
  readonly surge: number;
  readonly unavailable: number;
  readonly newSize: number;
  readonly newAvailable: number;
  readonly oldSize: number;
  readonly oldAvailable: number;
  readonly olderSize: number;
  readonly olderAvailable: number;
}

const ROLLOUT = {
  replicas: { values: few, facts: ["replicas"] },
  surge: { values: fc.nat(4), facts: ["maxSurge"] },
  unavailable: { values: fc.nat(4), facts: ["maxUnavailable"] },
  newSize: { values: few, facts: ["size", "total", "newUnavailable"] },
  newAvailable: { values: few, facts: ["newUnavailable", "available"] },
  oldSize: { values: few, facts: ["size", "total"] },
  oldAvailable: { values: few, facts: ["available"] },
  olderSize: { values: few, facts: ["size", "total"] },
  olderAvailable: { values: few, facts: ["available"] },
};

function rollout(world: Rollout): { readonly d: CachedDeployment; readonly split: ReplicaSetSplit & { readonly newRS: object } } {
  const d = deployment({ replicas: world.replicas, surge: world.surge, unavailable: world.unavailable });
  const newRS = replicaSet("new", { size: world.newSize, available: world.newAvailable, age: 2 });
  const old = replicaSet("old", { size: world.oldSize, available: world.oldAvailable, age: 1, template: "v0" });
  const older = replicaSet("older", { size: world.olderSize, available: world.olderAvailable, template: "v-1" });
  return { d, split: { newRS, oldRSs: [older, old] } };
}

describe("the reasons contain each input that changes the decision to", () => {
  it("grow the new ReplicaSet", () => {
    const { replicas, surge, newSize, oldSize, olderSize } = ROLLOUT;
    expectChangesExplained({ replicas, surge, newSize, oldSize, olderSize }, (some) => {
      const { d, split } = rollout({ unavailable: 1, newAvailable: 0, oldAvailable: 0, olderAvailable: 0, ...some });
      const { decided, why } = reconcileNewReplicaSet(d, replicaSet("new", { size: some.newSize }), split.oldRSs);
      return { decision: sizes(decided ? [decided] : []), why };
    });
  });

  it("create a ReplicaSet", () => {
    const { replicas, surge, oldSize, olderSize } = ROLLOUT;
    expectChangesExplained({ replicas, surge, oldSize, olderSize }, (some) => {
      const { d, split } = rollout({ unavailable: 1, newSize: 0, newAvailable: 0, oldAvailable: 0, olderAvailable: 0, ...some });
      const { decided: decision, why } = newRSNewReplicas(d, 0, split.oldRSs);
      return { decision, why };
    });
  });

  it("scale down old ReplicaSets with unavailable pods", () => {
    // Unavailable pods of the new ReplicaSet have no effect.
    const { surge: _, newSize: _size, ...inputs } = ROLLOUT;
    expectChangesExplained(inputs, (some): Decided => {
      const { d, split } = rollout({ surge: 1, newSize: 6, ...some });
      const budget = shrinkBudget(d, split);
      if (budget.decided <= 0) return { decision: "none", why: budget.why };
      const { steps, guard, why } = cleanupUnhealthyReplicas(d, split.oldRSs, budget.decided);
      return { decision: [sizes(steps), guard], why: [...budget.why, ...why] };
    });
  });

  it("scale down old ReplicaSets with available pods", () => {
    const { surge: _, newSize: _size, ...inputs } = ROLLOUT;
    expectChangesExplained(inputs, (some) => {
      const { d, split } = rollout({ surge: 1, newSize: 3, ...some });
      const { decided, why } = scaleDownOldReplicaSets(d, split);
      return { decision: sizes(decided), why };
    });
  });

  it("scale proportionally", () => {
    const { replicas, surge, newSize, oldSize } = ROLLOUT;
    expectChangesExplained(
      { replicas, surge, newSize, oldSize, remembered: { values: few, facts: ["remembered"] } },
      ({ remembered, ...some }) => {
        const d = deployment({ replicas: some.replicas, surge: some.surge, unavailable: 1 });
        const at = { desired: remembered, max: remembered + some.surge };
        const newRS = replicaSet("new", { ...at, size: some.newSize, age: 1 });
        const old = replicaSet("old", { ...at, size: some.oldSize, template: "v0" });
        const event = scalingEvent(d, [old, newRS]);
        if (!event.decided) return { decision: "none", why: event.why };
        const { decided, why } = scale(d, { newRS, oldRSs: [old] });
        return { decision: sizes(decided), why: [...event.why, ...why] };
      },
    );
  });

  it("delete old ReplicaSets", () => {
    expectChangesExplained(
      {
        limit: { values: fc.nat(4), facts: ["limit"] },
        wanted: { values: fc.nat(1), facts: ["is"] },
        populated: { values: fc.nat(1), facts: ["is"] },
        seen: { values: fc.nat(1), facts: ["is"] },
        others: { values: fc.nat(3), facts: ["old"] },
      },
      ({ limit, wanted, populated, seen, others }) => {
        const status = { replicas: populated, observedGeneration: 1 + seen };
        const first = replicaSet("first", { size: wanted, status, generation: 2, revision: "1" });
        const rest = Array.from({ length: others }, (_, i) => replicaSet(`rs${i}`, { revision: String(i + 2), age: i + 1 }));
        const { decided, why } = cleanupDeployment(deployment({ historyLimit: limit }), [first, ...rest]);
        return { decision: decided.map(({ name }) => name), why };
      },
    );
  });

  it("write the rollout status, or to requeue", () => {
    const values = fc.nat(2);
    expectChangesExplained(
      {
        replicas: { values, facts: ["replicas"] },
        unavailable: { values, facts: ["maxUnavailable"] },
        newSize: { values, facts: ["updated", "total"] },
        newAvailable: { values, facts: ["available"] },
        oldSize: { values, facts: ["total"] },
        deadline: { values: fc.constantFrom(undefined, 60, 600), facts: ["deadlineSeconds"] },
        sinceS: { values: fc.constantFrom(0, 59, 61, 700), facts: ["since"] },
      },
      ({ deadline, sinceS, ...some }) => {
        const updated = new Date(NOW_MS - sinceS * 1000).toISOString().replace(".000", "");
        const d = deployment({
          ...{ replicas: some.replicas, unavailable: some.unavailable, surge: 1 },
          ...(deadline !== undefined && { deadline }),
          status: {
            observedGeneration: 1,
            conditions: [condition("Progressing", "True", "ReplicaSetUpdated", { updated, since: updated })],
          },
        });
        const reported = (size: number, available: number): object => ({
          replicas: size,
          availableReplicas: available,
          observedGeneration: 1,
        });
        const newRS = replicaSet("new", { size: some.newSize, status: reported(some.newSize, some.newAvailable), age: 1 });
        const old = replicaSet("old", { size: some.oldSize, status: reported(some.oldSize, 0), template: "v0" });
        const { decided, why } = rolloutStatus(d, { newRS, oldRSs: [old] }, NOW_MS);
        const next = progressRecheckMs(d, decided, NOW_MS);
        const reasons = (decided.conditions ?? []).map(({ type, status, reason }) => [type, status, reason]);
        return { decision: [reasons, next.decided], why: [...why, ...next.why] };
      },
    );
  });
});

it("reports the pod that blocks Recreate", () => {
  const split = { newRS: undefined, oldRSs: [replicaSet("old", { template: "v0" })] };
  expect(oldPodsRunning(split, [pod("p", { rs: "old", phase: "Running" })])).toEqual({
    rule: "old pods live",
    about: "p",
    facts: { by: "pod", shows: "Running" },
  });
});

it("gives the reason for an immediate requeue", () => {
  const complete = { observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1 };
  const old = replicaSet("old", { template: "v0" });
  expect(followUpMs(deployment({ historyLimit: 0, status: complete }), [old], NOW_MS).why).toEqual([
    { rule: "history at once", facts: {} },
  ]);
});
