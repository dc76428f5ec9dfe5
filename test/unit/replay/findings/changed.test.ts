// What changed before the cause. Would catch: advice to undo a rollout that had been complete, and a deletion of pods or a new neighbour that
// is not shown.
import { describe, expect, it } from "vitest";
import type { Placed } from "../../../support/incident.ts";
import { at, deployment, pod, recordedAt, textOf, waiting } from "../../../support/incident.ts";

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
