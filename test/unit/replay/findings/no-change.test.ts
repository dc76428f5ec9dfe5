// A workload that no request changed. Would catch: a change that is denied, and a circumstance that is not one.
import { describe, expect, it } from "vitest";
import type { Placed } from "../../../support/incident.ts";
import { at, deployment, pod, recordedAt, textOf, waiting, withoutPrevious } from "../../../support/incident.ts";

describe("a workload without a recorded change", () => {
  const crash = pod({
    state: waiting("CrashLoopBackOff"),
    web: { restartCount: 3, lastState: { terminated: { reason: "Error", exitCode: 1, finishedAt: at(-30) } } },
  });
  /** The only ReplicaSet, and the first record. */
  const from = (seconds: number): readonly Placed[] => [recordedAt(seconds, withoutPrevious("replicasets")), crash];
  const other = (seconds: number, createdAt: number, { namespace = "shop", replicas = 2 } = {}): Placed => {
    const metadata = {
      ...{ namespace, name: "other", uid: "uid-other-d", resourceVersion: "5", generation: replicas, creationTimestamp: at(createdAt) },
      managedFields: [{ manager: "helm", operation: "Update", time: at(createdAt), fieldsV1: { "f:spec": { "f:strategy": {} } } }],
    };
    return ["deployments", { metadata, spec: { replicas, selector: { matchLabels: { app: "other" } }, template: {} } }, seconds];
  };
  const nothing = "Changed nothing in this workload since 09:36:40Z";

  it("is reported as unchanged since the begin of the capture, or since its creation", () => {
    expect(textOf(...from(-2_000))).toContain(`${nothing} Effect`);
    expect(textOf(...from(-3_500))).toContain("Changed nothing in this workload since its creation at 09:20:00Z Effect");
  });

  it("is not reported as unchanged after a change of a field that captures do not show", () => {
    const restarted = [2, 3].map((generation) => recordedAt(generation - 100, deployment({ metadata: { generation } })));
    expect(textOf(...from(-2_000), ...restarted)).not.toContain("Changed");
  });

  it.each<{ readonly name: string; readonly objects: readonly Placed[]; readonly words: string }>([
    { name: "created", objects: [other(-90, -90)], words: "deployment/other was created at 10:08:30Z (field manager helm)" },
    {
      name: "scaled",
      objects: [other(-1_000, -1_000), other(-50, -1_000, { replicas: 4 })],
      words: "deployment/other: replicas 2 → 4 at 10:09:10Z (client not recorded)",
    },
  ])("is printed with another workload of the namespace that was $name shortly before the cause", ({ objects, words }) => {
    expect(textOf(...from(-2_000), ...objects)).toContain(`${nothing} also in the namespace: ${words}`);
  });

  it.each<{ readonly name: string; readonly objects: readonly Placed[] }>([
    { name: "in another namespace", objects: [other(-90, -90, { namespace: "bank" })] },
    { name: "long before the cause", objects: [other(-160, -160)] },
    { name: "after the cause", objects: [other(-20, -20)] },
  ])("is printed without a workload that was created $name", ({ objects }) => {
    expect(textOf(...from(-2_000), ...objects)).toContain(`${nothing} Effect`);
  });
});
