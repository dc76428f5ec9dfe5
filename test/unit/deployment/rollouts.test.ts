// Whole rollouts with a ReplicaSet controller that acts immediately, as in upstream's integration and e2e tests.
import { describe, expect, it } from "vitest";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import type { LiveObject } from "../../support/scripted-api.ts";
import { SyncHarness } from "../../harness/sync/sync.ts";
import { liveDeployment, liveReplicaSet, podTemplate } from "./live-objects.ts";

const REVISION = "deployment.kubernetes.io/revision";
const DESIRED = "deployment.kubernetes.io/desired-replicas";

type Available = (rs: LiveObject) => number;
const imageOf = (rs: LiveObject): string =>
  (rs.spec as { template: { spec: { containers: { image: string }[] } } }).template.spec.containers[0]?.image ?? "";
const sizeOf = (rs: LiveObject): number => Number(rs.spec?.["replicas"] ?? 0);
/** Pods of images named `bad…` never become available. */
const unlessBad: Available = (rs) => (imageOf(rs).startsWith("bad") ? 0 : sizeOf(rs));
const rssOf = (harness: SyncHarness): readonly LiveObject[] =>
  harness.names("replicasets").map((name) => harness.live("replicasets", name));
const revisionOf = (harness: SyncHarness, name = "web"): string | undefined =>
  harness.live("deployments", name).metadata.annotations?.[REVISION];

async function change(harness: SyncHarness, spec: Readonly<Record<string, unknown>>, name = "web"): Promise<void> {
  await harness.change("deployments", name, (d) => ({ ...d, spec: { ...d.spec, ...spec } }));
  await harness.stream();
}

/** Syncs until a sync writes nothing. */
async function converge(harness: SyncHarness, { available = unlessBad, check = (): void => undefined, name = "web" } = {}): Promise<void> {
  for (let i = 0; i < 100; i++) {
    const result = await harness.handle(`shop/${name}`).catch(() => ({ kind: "again" as const }));
    const wrote = harness.written().length > 0;
    check();
    await harness.settle(available);
    if (!wrote && result.kind === "done") return;
  }
  throw new Error("does not settle");
}

describe("adoption", () => {
  it("[deployment T99] adds a reference next to other owners, and turns a plain owner reference to the Deployment into a controller reference", async () => {
    const rs = liveReplicaSet("web-1", "v1", 1, { owner: null });
    const other = { apiVersion: "apps/v1", kind: "StatefulSet", name: "s", uid: "uid-s" };
    const plain = { apiVersion: "apps/v1", kind: "Deployment", name: "web", uid: "uid-web" };
    for (const [reference, count] of [
      [other, 2],
      [plain, 1],
    ] as const) {
      const harness = await SyncHarness.of([liveDeployment(1), { ...rs, metadata: { ...rs.metadata, ownerReferences: [reference] } }]);
      await converge(harness);
      const references = harness.live("replicasets", "web-1").metadata.ownerReferences ?? [];
      expect(references).toHaveLength(count);
      expect(references[0]).toMatchObject({ uid: harness.uid("uid-web"), controller: true, blockOwnerDeletion: true });
    }
  });

  it("[deployment T100 T103] increments a revision beyond 2^53 exactly, and the rollout completes", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(1, { image: "v2" }),
      liveReplicaSet("adopted", "v1", 1, { owner: null, revision: "3546343826724305832" }),
    ]);
    await converge(harness);
    expect(revisionOf(harness)).toBe("3546343826724305833");
    expect(rssOf(harness).map((rs) => [sizeOf(rs), rs.metadata.annotations?.[REVISION]])).toEqual([
      [0, "3546343826724305832"],
      [1, "3546343826724305833"],
    ]);
    expect(harness.live("deployments", "web").status).toMatchObject({ replicas: 1, updatedReplicas: 1, availableReplicas: 1 });
  });

  it("[deployment T108] adopts an orphan with the same template instead of creating a ReplicaSet, and keeps its revision", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(2),
      liveReplicaSet("web-1", "v1", 2, { owner: null, revision: "1", sizedFor: [2, 3] }),
    ]);
    await converge(harness);
    expect(rssOf(harness).map(({ metadata }) => metadata.uid)).toEqual([harness.uid("uid-web-1")]);
    expect(revisionOf(harness)).toBe("1");
  });

  it("[deployment T85] at revisionHistoryLimit 0, starts exactly one new pod and deletes the adopted ReplicaSet", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(1, { spec: { revisionHistoryLimit: 0 } }),
      liveReplicaSet("adopted", "old", 1, { owner: null }),
    ]);
    const started: number[] = [];
    await converge(harness, {
      check: () => started.push(...rssOf(harness).flatMap((rs) => (rs.metadata.name === "adopted" ? [] : [sizeOf(rs)]))),
    });
    expect(Math.max(...started)).toBe(1);
    expect(harness.names("replicasets")).toHaveLength(1);
    expect(harness.names("replicasets")).not.toContain("adopted");
  });
});

describe("failing rollouts", () => {
  it("[deployment T105] failing rollouts keep the old pod beside the failing one until a working image replaces both", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(1, { image: "bad", surge: 1, unavailable: 0 }),
      liveReplicaSet("ready", "v0", 1, { owner: null }),
    ]);
    const check = (): void => expect(rssOf(harness).reduce((total, rs) => total + sizeOf(rs), 0)).toBeLessThanOrEqual(2);
    await converge(harness, { check });
    expect(Object.values(harness.sizes())).toEqual([1, 1]);
    expect(revisionOf(harness)).toBe("1");
    await change(harness, { template: podTemplate("v2") });
    await converge(harness, { check });
    expect(Object.values(harness.sizes())).toEqual([0, 0, 1]);
    expect(revisionOf(harness)).toBe("2");
  });

  it("[deployment T38] failing rollouts are scaled proportionally", async () => {
    const harness = await SyncHarness.of([liveDeployment(10, { surge: 3, unavailable: 2 })]);
    await converge(harness);
    await change(harness, { template: podTemplate("bad") });
    await converge(harness);
    expect(Object.values(harness.sizes())).toEqual([8, 5]);
    await change(harness, { replicas: 30 });
    await harness.handle();
    expect(Object.values(harness.sizes())).toEqual([20, 13]);
  });

  it("[deployment T114] failing rollouts keep at least the minimum of available pods, and update the size annotations of every ReplicaSet involved", async () => {
    const harness = await SyncHarness.of([liveDeployment(10, { surge: 3, unavailable: 2 })]);
    await converge(harness);
    const stays = (minimum: number) => (): void =>
      expect(rssOf(harness).reduce((total, rs) => total + Math.min(unlessBad(rs), sizeOf(rs)), 0)).toBeGreaterThanOrEqual(minimum);
    await change(harness, { template: podTemplate("bad-2") });
    await converge(harness, { check: stays(8) });
    await change(harness, { replicas: 20, template: podTemplate("v3") });
    await converge(harness, { check: stays(8) });
    const desired = (): readonly unknown[] => rssOf(harness).flatMap((rs) => (sizeOf(rs) > 0 ? [rs.metadata.annotations?.[DESIRED]] : []));
    expect(new Set(desired())).toEqual(new Set(["20"]));
    await change(harness, { template: podTemplate("bad-4") });
    await converge(harness, { check: stays(18) });
    await change(harness, { replicas: 5, template: podTemplate("v5") });
    await converge(harness, { check: stays(3) });
    expect(new Set(desired())).toEqual(new Set(["5"]));
    expect(rssOf(harness).reduce((total, rs) => total + sizeOf(rs), 0)).toBe(5);
  });
});

describe("twenty random steps", () => {
  const REQUEST = "deprecated.deployment.rollback.to";

  /** Sends random user requests, as in upstream's test; a sync may follow each one. */
  async function hurry(harness: SyncHarness, seed: number): Promise<void> {
    const random = createSeededRandom(seed);
    const below = (n: number): number => Math.floor(random.next() * n);
    const rollback = (): Promise<void> =>
      harness.change("deployments", "web", (d) => ({
        ...d,
        metadata: { ...d.metadata, annotations: { ...d.metadata.annotations, [REQUEST]: "0" } },
      }));
    for (let step = 0; step < 20; step++) {
      const { spec } = harness.live("deployments", "web");
      const steps = [
        () => change(harness, { template: podTemplate(`v${step}`) }),
        rollback,
        () => change(harness, { replicas: Number(spec?.["replicas"]) + (below(2) === 0 ? 1 : -1) }),
        () => change(harness, { paused: spec?.["paused"] !== true }),
        () => harness.settle((rs) => Math.max(0, sizeOf(rs) - below(2))), // a pod is deleted
      ];
      await steps[below(steps.length)]?.();
      for (let syncs = below(3); syncs > 0; syncs--) {
        await harness.stream();
        await harness.handle().catch(() => undefined);
        await harness.settle();
      }
    }
  }

  it("[deployment T106] end with an observed, complete and available Deployment once it is resumed", async () => {
    let rolledBack = 0;
    for (let seed = 1; seed <= 5; seed++) {
      const harness = await SyncHarness.of([
        liveDeployment(6, { surge: "25%", unavailable: "25%", spec: { revisionHistoryLimit: 2, progressDeadlineSeconds: 300 } }),
      ]);
      await hurry(harness, seed);
      await change(harness, { paused: false });
      await converge(harness);
      const { metadata, spec, status } = harness.live("deployments", "web");
      const replicas = spec?.["replicas"];
      expect(metadata.annotations, `seed ${seed}`).not.toHaveProperty([REQUEST]);
      expect(status, `seed ${seed}`).toMatchObject({
        observedGeneration: metadata.generation,
        replicas,
        updatedReplicas: replicas,
        availableReplicas: replicas,
      });
      expect(status?.["conditions"], `seed ${seed}`).toContainEqual(
        expect.objectContaining({ type: "Progressing", status: "True", reason: "NewReplicaSetAvailable" }),
      );
      expect(rssOf(harness).length).toBeLessThanOrEqual(3);
      rolledBack += harness.events.filter((event) => event.startsWith("DeploymentRollback:")).length;
    }
    expect(rolledBack).toBeGreaterThan(5);
  });
});

describe("shared selectors and writes of other clients", () => {
  it("[deployment T113] scaling one of two Deployments with one selector does not affect the other", async () => {
    const harness = await SyncHarness.of([liveDeployment(2, {}, "web"), liveDeployment(2, {}, "two")]);
    await converge(harness, { name: "web" });
    await converge(harness, { name: "two" });
    await change(harness, { replicas: 5 });
    await converge(harness, { name: "web" });
    await converge(harness, { name: "two" });
    expect(rssOf(harness).map((rs) => [rs.metadata.ownerReferences?.[0]?.name, sizeOf(rs)])).toEqual([
      ["web", 5],
      ["two", 2],
    ]);
  });

  it("[deployment T111] corrects counts that another client wrote", async () => {
    const harness = await SyncHarness.of([liveDeployment(2)]);
    await converge(harness);
    await harness.change("deployments", "web", (d) => ({ ...d, status: { ...d.status, readyReplicas: 0, availableReplicas: 0 } }));
    await harness.stream();
    await converge(harness);
    expect(harness.live("deployments", "web").status).toMatchObject({ readyReplicas: 2, availableReplicas: 2 });
  });

  it("[deployment T104] Recreate never reports updated replicas while old replicas exist", async () => {
    const harness = await SyncHarness.of([liveDeployment(1, { strategy: "Recreate" })]);
    await converge(harness);
    await change(harness, { template: podTemplate("v2") });
    const reports: string[] = [];
    await converge(harness, {
      check: () => {
        const { replicas = 0, updatedReplicas = 0 } = harness.live("deployments", "web").status ?? {};
        if (updatedReplicas !== 0 && updatedReplicas !== replicas) reports.push(`${String(updatedReplicas)} of ${String(replicas)}`);
      },
    });
    expect(reports).toEqual([]);
    expect(Object.values(harness.sizes())).toEqual([0, 1]);
  });
});
