// Behaviour that depends on the cluster's release: template hashes across an upgrade, and changes between releases.
import { describe, expect, it } from "vitest";

import { podTemplateHash, podTemplateHashState } from "../../../shared/kube/pod-template/pod-template-hash.ts";
import { REVISION } from "../../../shared/controllers/deployment/revision.ts";
import type { PodTemplateSpec } from "../../../shared/kube/objects/wire.ts";
import { SyncHarness } from "../../harness/sync/sync.ts";
import { knownRelease } from "../../support/known-release.ts";
import { refusal } from "../../support/scripted-api.ts";
import { liveDeployment, liveReplicaSet, podTemplate } from "./live-objects.ts";

function nameOn(release: string, harness: SyncHarness): string {
  const template = harness.live("deployments", "web").spec?.["template"] as PodTemplateSpec;
  return `web-${podTemplateHash(podTemplateHashState(template, knownRelease(release)))}`;
}

async function roll(harness: SyncHarness, image: string): Promise<void> {
  await harness.change("deployments", "web", (d) => ({ ...d, spec: { ...d.spec, template: podTemplate(image) } }));
  await harness.stream();
}

async function syncs(harness: SyncHarness, times: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    await harness.handle();
    await harness.settle((rs) => Number(rs.spec?.["replicas"] ?? 0));
  }
}

describe("an upgrade of the cluster", () => {
  it.each(["1.35", "1.36", "1.37"])("names a new ReplicaSet by the hash of %s", async (release) => {
    const harness = await SyncHarness.of([liveDeployment(2)]);
    await harness.publish(release);
    await syncs(harness, 3);
    expect(harness.names("replicasets")).toEqual([nameOn(release, harness)]);
  });

  it("creates no second ReplicaSet in the middle of a rollout, and uses the new release's hash for the next one", async () => {
    const harness = await SyncHarness.of([liveDeployment(4)]);
    await harness.publish("1.36");
    await syncs(harness, 3);
    await roll(harness, "v2");
    await syncs(harness, 1);
    const before = harness.names("replicasets");
    expect(before).toHaveLength(2);
    expect(before).toContain(nameOn("1.36", harness));

    await harness.publish("1.37");
    await syncs(harness, 10);
    expect(harness.names("replicasets")).toEqual(before);
    expect(harness.live("deployments", "web").status).toMatchObject({ updatedReplicas: 4, replicas: 4 });

    await roll(harness, "v3");
    await syncs(harness, 10);
    expect(harness.names("replicasets")).toHaveLength(3);
    expect(harness.names("replicasets")).toContain(nameOn("1.37", harness));
    expect(harness.logged).toEqual([]);
  });
});

describe("behaviour of the release", () => {
  it.each([
    { release: "1.34", counts: false },
    { release: "1.35", counts: true },
  ])("writes status.terminatingReplicas on $release: $counts", async ({ release, counts }) => {
    const harness = await SyncHarness.of([liveDeployment(2)]);
    await harness.publish(release);
    await syncs(harness, 3);
    expect("terminatingReplicas" in (harness.live("deployments", "web").status ?? {})).toBe(counts);
  });

  it.each([
    { release: "1.33", length: 263 },
    { release: "1.34", length: 253 },
  ])("the ReplicaSet of a Deployment with a long name has a name of up to $length characters on $release", async ({ release, length }) => {
    const name = "w".repeat(252);
    const harness = await SyncHarness.of([liveDeployment(1, {}, name)]);
    await harness.publish(release);
    const asked: string[] = [];
    harness.api.script = {
      "create replicasets": (request) => {
        asked.push((request as { readonly body: { readonly metadata: { readonly name: string } } }).body.metadata.name);
        return undefined;
      },
    };
    await harness.handle(`shop/${name}`).catch(() => undefined);
    expect(asked[0]?.length).toBeGreaterThan(length - 3);
    expect(asked[0]?.length).toBeLessThanOrEqual(length);
  });

  it.each([
    { release: "1.35", starts: true },
    { release: "1.36", starts: false },
  ])(
    "Recreate starts the new ReplicaSet while an old pod runs that the Deployment does not select, on $release: $starts",
    async ({ release, starts }) => {
      const harness = await SyncHarness.of([
        liveDeployment(1, { image: "v2", strategy: "Recreate" }),
        liveReplicaSet("old", "v1", 0, { status: { replicas: 0 } }),
      ]);
      const uid = harness.uid("uid-old");
      await harness.put({
        apiVersion: "v1",
        kind: "Pod",
        metadata: {
          namespace: "shop",
          name: "old-1",
          resourceVersion: "1",
          uid: "uid-old-1",
          labels: { app: "other" },
          ownerReferences: [{ apiVersion: "apps/v1", kind: "ReplicaSet", name: "old", uid, controller: true }],
        },
        spec: { containers: [{ name: "app", image: "v1" }] },
        status: { phase: "Running" },
      });
      await harness.stream();
      await harness.publish(release);
      await harness.handle();
      expect(harness.names("replicasets").length > 1).toBe(starts);
    },
  );

  const revised = (revision: string): object => ({ annotations: { [REVISION]: revision } });
  const failures = [
    {
      step: "a scale-up",
      request: "patch replicasets",
      objects: [liveDeployment(4, revised("1")), liveReplicaSet("web-1", "v1", 2, { revision: "1", sizedFor: [4, 5] })],
    },
    {
      step: "a scale-down under Recreate",
      request: "patch replicasets",
      objects: [
        liveDeployment(2, { image: "v2", strategy: "Recreate", ...revised("2") }),
        liveReplicaSet("web-1", "v1", 2, { revision: "1" }),
        liveReplicaSet("web-2", "v2", 0, { revision: "2", age: 1 }),
      ],
    },
    {
      step: "a scale-up under Recreate",
      request: "patch replicasets",
      objects: [
        liveDeployment(2, { strategy: "Recreate", ...revised("1") }),
        liveReplicaSet("web-1", "v1", 0, { revision: "1", sizedFor: [2, 2] }),
      ],
    },
  ];
  it.each(
    failures.flatMap((failure) => [
      { ...failure, release: "1.37" },
      { ...failure, release: "1.38" },
    ]),
  )("only 1.38 or newer writes the status after $step has failed: $release", async ({ request, objects, release }) => {
    const harness = await SyncHarness.of(objects);
    await harness.publish(release);
    harness.api.script = { [request]: refusal(500, "InternalError", "try again") };
    await expect(harness.handle()).rejects.toThrow("try again");
    const isStatus = (write: string): boolean => write === "patch deployments/status web";
    expect(harness.written().filter(isStatus)).toHaveLength(release === "1.38" ? 1 : 0);
  });

  it.each([
    { strategy: "RollingUpdate", release: "1.37", statuses: 0 },
    { strategy: "RollingUpdate", release: "1.38", statuses: 1 },
    { strategy: "Recreate", release: "1.38", statuses: 0 },
  ] as const)(
    "writes $statuses statuses after a cleanup that fails under $strategy on $release",
    async ({ strategy, release, statuses }) => {
      const status = { observedGeneration: 1, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2 };
      const harness = await SyncHarness.of([
        liveDeployment(2, { image: "v2", strategy, status, spec: { revisionHistoryLimit: 0 }, ...revised("2") }),
        liveReplicaSet("web-1", "v1", 0, { revision: "1" }),
        liveReplicaSet("web-2", "v2", 2, { revision: "2", sizedFor: [2, 3], age: 1 }),
      ]);
      await harness.publish(release);
      harness.api.script = { "delete replicasets": refusal(500, "InternalError", "try again") };
      await expect(harness.handle()).rejects.toThrow("try again");
      expect(harness.written().filter((write) => write === "patch deployments/status web")).toHaveLength(statuses);
    },
  );
});
