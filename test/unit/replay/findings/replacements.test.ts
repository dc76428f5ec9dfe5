// Pods that replace old ones during a rollout. Would catch a missing pod without a cause, and a rollout that is reported as stuck because of
// the revision that it replaces.
import { expect, it } from "vitest";
import { verdictText } from "../../../../cli/explain/verdict-text.ts";
import type { Placed } from "../../../support/incident.ts";
import { at, deployment, oldPods, pod, replicaSet, verdictOn } from "../../../support/incident.ts";

const message = 'configmap "config-1" not found';
const failing = (name: string, seconds: number): Placed =>
  pod({ metadata: { creationTimestamp: at(seconds) }, state: { waiting: { reason: "CreateContainerConfigError", message } } }, name);
const newPod = pod({ state: { waiting: { reason: "PodInitializing" } } });
const ready = pod({
  status: { phase: "Running", conditions: [{ type: "Ready", status: "True", lastTransitionTime: at(-100) }] },
  web: { ready: true, started: true },
});
/** The time of an image change, which is in the field manager. */
const changedAt = (seconds: number): Placed => {
  const fieldsV1 = { "f:spec": { "f:template": { "f:spec": { "f:containers": { 'k:{"name":"web"}': { "f:image": {} } } } } } };
  return deployment({ metadata: { managedFields: [{ manager: "kubectl-rollout", operation: "Update", time: at(seconds), fieldsV1 }] } });
};
/** The ReplicaSet of the current revision is older than the other, and no field manager has the time of the rollback. */
const rolledBack: readonly Placed[] = [deployment({ metadata: { managedFields: [] } }), youngerSet(replicaSet("web-a"))];

function youngerSet([resource, fields]: Placed): Placed {
  return [resource, { ...fields, metadata: { ...(fields["metadata"] as object), creationTimestamp: at(-100) } }];
}

it("reports why the replacement of an old pod does not start", () => {
  const verdict = verdictOn(newPod, failing("web-a-1", -60));
  expect(verdict).toMatchObject({ health: "degraded", effect: { wanted: 3, available: 2 } });
  const text = verdictText(verdict).replaceAll(/\s+/g, " ");
  expect(text).toContain(
    "Cause the replacement of an old pod fails: container web cannot start: ConfigMap config-1 does not exist (certain)",
  );
  expect(text).toContain("describe pod/web-a-1");
  expect(text).not.toContain("rollout undo");
});

it("the cause of a new pod precedes it, and the rollout is stuck", () => {
  const verdict = verdictOn(failing("web-b-1", -60), failing("web-a-1", -60));
  expect(verdict.health).toBe("stuck");
  expect(verdict.findings.map(({ isEarlier }) => isEarlier).slice(0, 2)).toEqual([undefined, true]);
});

it.each<{ readonly name: string; readonly objects: readonly Placed[] }>([
  { name: "created before the rollout, which may repair it", objects: [newPod, failing("web-a-1", -3_000)] },
  { name: "created before a rollback", objects: [newPod, failing("web-a-1", -60), changedAt(-30)] },
  { name: "that may be older than a rollback of unknown time", objects: [newPod, failing("web-a-1", -60), ...rolledBack] },
  { name: "while enough pods are ready", objects: [ready, failing("web-a-1", -60)] },
  {
    name: "of a ReplicaSet that is scaled to zero",
    objects: [newPod, failing("web-a-1", -60), replicaSet("web-a", { spec: { replicas: 0 } })],
  },
])("reports no cause for an old pod $name", ({ objects }) => {
  const { findings, health } = verdictOn(...oldPods, ...objects);
  expect(findings.filter(({ level }) => level === "cause")).toEqual([]);
  expect(health).toBe("progressing");
});
