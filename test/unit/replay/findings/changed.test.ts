// What changed before the cause. Would catch: advice to undo a rollout that had been complete, and a deletion of pods or a new neighbour that
// is not shown.
import { describe, expect, it } from "vitest";
import type { Fields, Placed } from "../../../support/incident.ts";
import { at, deployment, pod, recordedAt, replicaSet, textOf, waiting } from "../../../support/incident.ts";

const crash = pod({
  state: waiting("CrashLoopBackOff"),
  web: { restartCount: 3, lastState: { terminated: { reason: "Error", exitCode: 1, finishedAt: at(-30) } } },
});
/** The Deployment as recorded after each change; its rollout is complete since `completeAt`. */
function version(
  generation: number,
  { seconds, image = "app:v2", completeAt, replicas = 3 }: { seconds: number; image?: string; completeAt?: number; replicas?: number },
): Placed {
  const status = completeAt === undefined ? "ReplicaSetUpdated" : "NewReplicaSetAvailable";
  const conditions = [{ type: "Progressing", status: "True", reason: status, lastUpdateTime: at(completeAt ?? seconds) }];
  const annotations = { "deployment.kubernetes.io/revision": image.slice("app:v".length) };
  const metadata = { generation, resourceVersion: String(seconds + 5_000), annotations, managedFields: [] };
  const containers = [{ name: "web", image, resources: { requests: { cpu: "100m" }, limits: { memory: "64Mi" } } }];
  const spec = { replicas, template: { metadata: { labels: { app: "web" } }, spec: { containers } } };
  return recordedAt(seconds, deployment({ metadata, spec, status: { observedGeneration: generation, conditions } }));
}

describe("a change of a rollout that had been complete", () => {
  const first = version(1, { seconds: -200, image: "app:v1", completeAt: -250 });

  it("is marked as such, unlike the change that made the failing revision", () => {
    const second = [version(2, { seconds: -120 }), version(2, { seconds: -110, completeAt: -111 })];
    const text = textOf(first, ...second, version(3, { seconds: -60, image: "app:v3" }), crash);
    expect(text).toContain("web.image app:v2 → app:v3 at 10:09:00Z (client not recorded)");
    expect(text).toContain("web.image app:v1 → app:v2 at 10:08:00Z (client not recorded; revision 2, completed)");
    expect(text).not.toContain("nothing");
  });

  it("is listed after the statement that nothing changed since", () => {
    const text = textOf(first, version(2, { seconds: -120 }), version(2, { seconds: -110, completeAt: -111 }), crash);
    expect(text).toContain("Changed nothing since revision 2 was complete at 10:08:09Z web.image app:v1 → app:v2 at 10:08:00Z");
  });

  it("is listed without that statement after a change of replicas", () => {
    const complete = { completeAt: -111 };
    const text = textOf(first, version(2, { seconds: -120 }), version(2, { seconds: -110, ...complete }), crash);
    const scaled = textOf(
      ...[first, version(2, { seconds: -120 }), version(2, { seconds: -110, ...complete })],
      ...[version(3, { seconds: -50, replicas: 4, ...complete }), crash],
    );
    expect(text).toContain("nothing since");
    expect(scaled).toContain("replicas 3 → 4 at 10:09:10Z (client not recorded) web.image");
    expect(scaled).not.toContain("nothing since");
  });

  it("is not marked before the controller has observed it", () => {
    const unobserved = version(2, { seconds: -120, completeAt: -250 });
    const fields = { ...unobserved[1], status: { ...(unobserved[1]["status"] as object), observedGeneration: 1 } };
    expect(textOf(first, [unobserved[0], fields, -120], crash)).toContain("at 10:08:00Z (client not recorded) Effect");
  });
});

describe("pods that were deleted before the cause", () => {
  const names = ["web-a-1", "web-a-2", "web-a-3"];
  const of = (name: string, more: Fields = {}, status: Fields = {}): Placed => pod({ metadata: more, status }, name);
  const deleted = (seconds: number, some = names, status: Fields = {}): readonly Placed[] =>
    some.map((name) => recordedAt(seconds, of(name, { deletionTimestamp: at(seconds + 300), deletionGracePeriodSeconds: 300 }, status)));
  const before = names.map((name) => recordedAt(-200, of(name)));
  const set = (generation: number, replicas: number, seconds: number): Placed => {
    const [resource, { metadata, spec, ...rest }] = replicaSet("web-a");
    return [resource, { metadata: { ...(metadata as object), generation }, spec: { ...(spec as object), replicas }, ...rest }, seconds];
  };

  it("are counted", () => {
    expect(textOf(...before, ...deleted(-40), crash)).toContain("3 pods deleted at 10:09:20Z (not by its ReplicaSet) Effect");
  });

  it("are named if only one was deleted; several are counted, from the first time to the last", () => {
    expect(textOf(...before, ...deleted(-40, ["web-a-2"]), crash)).toContain("pod/web-a-2 deleted at 10:09:20Z (not by its ReplicaSet)");
    const twice = [...deleted(-50, ["web-a-1"]), ...deleted(-40, ["web-a-2"])];
    expect(textOf(...before, ...twice, crash)).toContain("2 pods deleted from 10:09:10Z to 10:09:20Z");
  });

  it.each<{ readonly name: string; readonly objects: readonly Placed[] }>([
    { name: "after a scale-down of their ReplicaSet", objects: [set(1, 3, -190), set(2, 0, -45), ...deleted(-40)] },
    { name: "in a scale-down that is recorded later", objects: [set(1, 3, -190), ...deleted(-40), set(2, 0, -40)] },
    { name: "after the cause", objects: deleted(-10) },
    { name: "long before the cause", objects: deleted(-170) },
    {
      name: "by an eviction",
      objects: deleted(-40, names, { conditions: [{ type: "DisruptionTarget", status: "True", reason: "EvictionByEvictionAPI" }] }),
    },
    { name: "when they had failed", objects: deleted(-40, names, { phase: "Failed" }) },
  ])("are not shown if they were deleted $name", ({ objects }) => {
    expect(textOf(...before, ...objects, crash)).not.toContain("(not by its ReplicaSet)");
  });
});

describe("another workload that got more pods before the cause, beside a change of the workload itself", () => {
  const other = (seconds: number, replicas: number, createdAt: number, generation = replicas): Placed => {
    const metadata = { namespace: "shop", name: "api", uid: "uid-api-d", resourceVersion: "5", generation };
    const spec = { replicas, selector: { matchLabels: { app: "api" } }, template: {} };
    return ["deployments", { metadata: { ...metadata, creationTimestamp: at(createdAt) }, spec }, seconds];
  };
  const message = 'pods "web-b-x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3';
  const condition = { type: "ReplicaFailure", status: "True", reason: "FailedCreate", message, lastTransitionTime: at(-20) };
  const quota = replicaSet("web-b", { status: { replicas: 0, conditions: [condition] } });
  const unschedulable = pod({
    status: { conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable", lastTransitionTime: at(-20) }] },
  });
  const scaled = (seconds: number, from: number, to: number): readonly Placed[] => [
    other(-2_000, from, -2_000),
    other(seconds, to, -2_000),
  ];
  const scaleUp =
    "web.image app:v1 → app:v2 at 10:05:00Z (field manager kubectl-set) also in the namespace: deployment/api: replicas 2 → 4";

  it("is shown for a quota, even if that was long before", () => {
    expect(textOf(...scaled(-1_000, 2, 4), quota)).toContain(`${scaleUp} at 09:53:20Z`);
    expect(textOf(...scaled(-1_000, 2, 4), quota)).not.toContain("nothing");
  });

  it("is shown for a pod that cannot be scheduled, within two minutes", () => {
    expect(textOf(...scaled(-60, 2, 4), unschedulable)).toContain(`${scaleUp} at 10:09:00Z`);
    expect(textOf(other(-60, 2, -60), unschedulable)).toContain("also in the namespace: deployment/api was created at 10:09:00Z");
    expect(textOf(...scaled(-200, 2, 4), unschedulable)).not.toContain("also in the namespace");
  });

  it.each<{ readonly name: string; readonly objects: readonly Placed[] }>([
    {
      name: "a scale-down",
      objects: [other(-2_000, 4, -2_000, 1), other(-60, 2, -2_000, 2), unschedulable],
    },
    { name: "a container that exits", objects: [...scaled(-60, 2, 4), crash] },
  ])("is not shown for $name", ({ objects }) => {
    expect(textOf(...objects)).not.toContain("also in the namespace");
  });
});
