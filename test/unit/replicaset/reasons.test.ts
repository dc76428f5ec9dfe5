// Reasons of the ReplicaSet controller's decisions.
import fc from "fast-check";
import { expect, it } from "vitest";
import { nextAvailabilityCheck } from "../../../shared/controllers/replicaset/availability.ts";
import { manageReplicas } from "../../../shared/controllers/replicaset/manage-replicas.ts";
import { getPodsToDelete } from "../../../shared/controllers/replicaset/pods-to-delete.ts";
import { expectChangesExplained } from "../../support/perturbed.ts";
import { ago, NOW_MS, OWNER, pod, rs } from "./builders.ts";

it("the reasons for the number of pods contain each input that changes the decision", () => {
  expectChangesExplained(
    {
      replicas: { values: fc.nat(9), facts: ["replicas"] },
      pods: { values: fc.nat(9), facts: ["pods"] },
      pending: { values: fc.nat(2), facts: ["pending"] },
      burst: { values: fc.integer({ min: 1, max: 6 }), facts: ["burst"] },
    },
    ({ replicas, pods, pending, burst }) => {
      const claimed = Array.from({ length: pods }, (_, i) => pod({ name: `p${i}`, uid: `u${i}` }));
      const options = { related: [], nowMs: NOW_MS, burstReplicas: burst };
      const { writes, why } = manageReplicas({ rs: rs({ replicas }), owner: OWNER, pending, unanswered: [] }, claimed, options);
      return { decision: writes.map((write) => (write.kind === "CreatePods" ? write.count : write.kind)), why };
    },
  );
});

it("[replicaset P15] the reason for the choice of a pod contains each input that changes it", () => {
  const facts = ["its", "others", "by", "survivor"];
  // Makes the usual value likely, because later rules decide only if earlier ones do not apply.
  const mostly = <T>(usual: T, ...others: readonly T[]): fc.Arbitrary<T> =>
    fc.constantFrom(...Array.from({ length: 8 }, () => usual), ...others);
  expectChangesExplained(
    {
      nodeName: { values: mostly("n1", ""), facts },
      phase: { values: mostly("Running", "Pending", "Unknown"), facts },
      ready: { values: mostly<string | boolean>(ago(60), false, ago(90_000)), facts },
      deletionCost: { values: mostly("0", "-1", "7"), facts },
      crowd: { values: mostly(0, 1, 2), facts },
      restarts: { values: mostly(1, 0, 2), facts },
      sidecarRestarts: { values: mostly(1, 0, 2), facts },
      creationTimestamp: { values: mostly(ago(60), ago(1), ago(90_000)), facts },
    },
    ({ crowd, ...fields }) => {
      const one = pod({ name: "one", uid: "b", ...fields });
      const other = pod({
        name: "other",
        uid: "a",
        nodeName: "n2",
        ready: ago(60),
        creationTimestamp: ago(60),
        restarts: 1,
        sidecarRestarts: 1,
      });
      const related = Array.from({ length: crowd }, (_, i) => pod({ uid: `r${i}`, nodeName: "n1" }));
      const { victims, why } = getPodsToDelete([one, other], [one, other, ...related], { count: 1, nowMs: NOW_MS });
      expect(why.map(({ about }) => about)).toEqual(victims.map(({ name }) => name));
      return { decision: victims.map(({ name }) => name), why };
    },
  );
});

it("the reason for a requeue contains each input that changes it", () => {
  expectChangesExplained(
    {
      minReadySeconds: { values: fc.constantFrom(0, 10, 30), facts: ["minReadySeconds"] },
      readySince: { values: fc.nat(20), facts: ["afterMs"] },
      available: { values: fc.nat(1), facts: ["available"] },
    },
    ({ minReadySeconds, readySince, available }) => {
      const status = { readyReplicas: 1, availableReplicas: available };
      const at = { claimed: [pod({ ready: ago(readySince) })], statusNowMs: NOW_MS, nowMs: NOW_MS };
      const { next, why } = nextAvailabilityCheck(rs({ minReadySeconds }), status, at);
      return { decision: next, why };
    },
  );
});

it.each([
  { by: "no node", one: { nodeName: "" }, its: "no node", others: "n2" },
  { by: "phase", one: { phase: "Pending" }, its: "Pending", others: "Running" },
  { by: "not ready", one: { ready: false }, its: "not ready", others: "ready" },
  { by: "deletion cost", one: { deletionCost: "-5" }, its: "-5", others: "0" },
  { by: "ready since", one: { ready: ago(1) }, its: ago(1), others: ago(60) },
  { by: "ready about as long", one: { ready: ago(61) }, its: ago(61), others: ago(60) },
  { by: "restarts", one: { restarts: 3 }, its: "3", others: "1" },
  { by: "sidecar restarts", one: { sidecarRestarts: 2 }, its: "2", others: "0" },
  { by: "created", one: { creationTimestamp: ago(1) }, its: ago(1), others: ago(60) },
  { by: "about as old", one: { creationTimestamp: ago(61) }, its: ago(61), others: ago(60) },
  { by: "uid", one: {}, its: "a", others: "b" },
])("gives $by as the rule that ranks one pod before the other", ({ by, one, its, others }) => {
  const equal = { ready: ago(60), restarts: 1, creationTimestamp: ago(60) };
  const pods = [pod({ ...equal, name: "other", uid: "b", nodeName: "n2" }), pod({ ...equal, name: "one", uid: "a", ...one })];
  const { why } = getPodsToDelete(pods, pods, { count: 1, nowMs: NOW_MS });
  expect(why).toEqual([{ rule: "goes first", about: "one", facts: { by, its, others, survivor: "other" } }]);
});

it("gives the rule that distinguishes a pod from the remaining ones, and their number", () => {
  const pods = [
    pod({ name: "goes", uid: "a", nodeName: "n1", ready: ago(10), creationTimestamp: ago(10) }),
    pod({ name: "next", uid: "b", nodeName: "n1", ready: ago(10), creationTimestamp: ago(10) }),
    pod({ name: "older", uid: "c", nodeName: "n1", ready: ago(3600), creationTimestamp: ago(3600) }),
    pod({ name: "old", uid: "d", nodeName: "n1", ready: ago(3601), creationTimestamp: ago(3600) }),
    pod({ name: "alone", uid: "e", nodeName: "n2", ready: ago(10), creationTimestamp: ago(10) }),
  ];
  const { victims, why } = getPodsToDelete(pods, pods, { count: 1, nowMs: NOW_MS });
  expect(victims.map(({ name }) => name)).toEqual(["goes"]);
  expect(why).toEqual([
    { rule: "goes first", about: "goes", facts: { by: "uid", its: "a", others: "b", survivor: "next" } },
    { rule: "stays", about: "older", facts: { by: "ready since", its: ago(3600), others: ago(10), victim: "goes", pods: 2 } },
    { rule: "stays", about: "alone", facts: { by: "pods on its node", its: "1", others: "4", victim: "goes", pods: 1 } },
  ]);
});
