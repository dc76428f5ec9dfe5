// Whole rollouts on a cluster whose ReplicaSets follow at once: what upstream's integration and e2e tests look at.
// Would catch: a rollout that ends in the wrong place, or that leaves the bounds on its way there.
import { describe, expect, it } from "vitest";
import { createSeededRandom } from "../../../shared/adapters/memory/random.ts";
import type { LiveObject } from "../../support/scripted-api.ts";
import { Cluster, liveDeployment, liveReplicaSet, podTemplate } from "./cluster.ts";

const REVISION = "deployment.kubernetes.io/revision";
const DESIRED = "deployment.kubernetes.io/desired-replicas";

type Available = (rs: LiveObject) => number;
const imageOf = (rs: LiveObject): string =>
  (rs.spec as { template: { spec: { containers: { image: string }[] } } }).template.spec.containers[0]?.image ?? "";
const sizeOf = (rs: LiveObject): number => Number(rs.spec?.["replicas"] ?? 0);
/** Pods of images named `bad…` never become available. */
const unlessBad: Available = (rs) => (imageOf(rs).startsWith("bad") ? 0 : sizeOf(rs));
const rssOf = (cluster: Cluster): readonly LiveObject[] => cluster.names("replicasets").map((name) => cluster.live("replicasets", name));
const revisionOf = (cluster: Cluster, name = "web"): string | undefined =>
  cluster.live("deployments", name).metadata.annotations?.[REVISION];

async function change(cluster: Cluster, spec: Readonly<Record<string, unknown>>, name = "web"): Promise<void> {
  await cluster.change("deployments", name, (d) => ({ ...d, spec: { ...d.spec, ...spec } }));
  await cluster.catchUp();
}

/** Syncs until nothing is written any more. */
async function converge(cluster: Cluster, { available = unlessBad, check = (): void => undefined, name = "web" } = {}): Promise<void> {
  for (let i = 0; i < 100; i++) {
    const result = await cluster.sync(name).catch(() => ({ kind: "again" as const }));
    const wrote = cluster.written().length > 0;
    check();
    await cluster.settle(available);
    if (!wrote && result.kind === "done") return;
  }
  throw new Error("does not settle");
}

describe("adoption", () => {
  it("[deployment T99] of one that has other owners adds a reference, of one that D merely references upgrades that", async () => {
    const rs = liveReplicaSet("web-1", "v1", 1, { owner: null });
    const other = { apiVersion: "apps/v1", kind: "StatefulSet", name: "s", uid: "uid-s" };
    const plain = { apiVersion: "apps/v1", kind: "Deployment", name: "web", uid: "uid-web" };
    for (const [reference, count] of [
      [other, 2],
      [plain, 1],
    ] as const) {
      const cluster = await Cluster.of([liveDeployment(1), { ...rs, metadata: { ...rs.metadata, ownerReferences: [reference] } }]);
      await converge(cluster);
      const references = cluster.live("replicasets", "web-1").metadata.ownerReferences ?? [];
      expect(references).toHaveLength(count);
      expect(references[0]).toMatchObject({ uid: cluster.uid("uid-web"), controller: true, blockOwnerDeletion: true });
    }
  });

  it("[deployment T100 T103] of a revision beyond 2^53 is followed by the next one, and the rollout completes", async () => {
    const cluster = await Cluster.of([
      liveDeployment(1, { image: "v2" }),
      liveReplicaSet("adopted", "v1", 1, { owner: null, revision: "3546343826724305832" }),
    ]);
    await converge(cluster);
    expect(revisionOf(cluster)).toBe("3546343826724305833");
    expect(rssOf(cluster).map((rs) => [sizeOf(rs), rs.metadata.annotations?.[REVISION]])).toEqual([
      [0, "3546343826724305832"],
      [1, "3546343826724305833"],
    ]);
    expect(cluster.live("deployments", "web").status).toMatchObject({ replicas: 1, updatedReplicas: 1, availableReplicas: 1 });
  });

  it("[deployment T108] by a later Deployment of the same template keeps the ReplicaSet", async () => {
    const cluster = await Cluster.of([
      liveDeployment(2),
      liveReplicaSet("web-1", "v1", 2, { owner: null, revision: "1", sizedFor: [2, 3] }),
    ]);
    await converge(cluster);
    expect(rssOf(cluster).map(({ metadata }) => metadata.uid)).toEqual([cluster.uid("uid-web-1")]);
    expect(revisionOf(cluster)).toBe("1");
  });

  it("[deployment T85] of one with other pod labels at limit 0 starts exactly one new pod and ends without the old one", async () => {
    const cluster = await Cluster.of([
      liveDeployment(1, { spec: { revisionHistoryLimit: 0 } }),
      liveReplicaSet("adopted", "old", 1, { owner: null }),
    ]);
    const started: number[] = [];
    await converge(cluster, {
      check: () => started.push(...rssOf(cluster).flatMap((rs) => (rs.metadata.name === "adopted" ? [] : [sizeOf(rs)]))),
    });
    expect(Math.max(...started)).toBe(1);
    expect(cluster.names("replicasets")).toHaveLength(1);
    expect(cluster.names("replicasets")).not.toContain("adopted");
  });
});

describe("rollouts that do not work out", () => {
  it("[deployment T105] leave one pod of each behind until a good image takes both away", async () => {
    const cluster = await Cluster.of([
      liveDeployment(1, { image: "bad", surge: 1, unavailable: 0 }),
      liveReplicaSet("ready", "v0", 1, { owner: null }),
    ]);
    const check = (): void => expect(rssOf(cluster).reduce((total, rs) => total + sizeOf(rs), 0)).toBeLessThanOrEqual(2);
    await converge(cluster, { check });
    expect(Object.values(cluster.sizes())).toEqual([1, 1]);
    expect(revisionOf(cluster)).toBe("1");
    await change(cluster, { template: podTemplate("v2") });
    await converge(cluster, { check });
    expect(Object.values(cluster.sizes())).toEqual([0, 0, 1]);
    expect(revisionOf(cluster)).toBe("2");
  });

  it("[deployment T38] are scaled in proportion", async () => {
    const cluster = await Cluster.of([liveDeployment(10, { surge: 3, unavailable: 2 })]);
    await converge(cluster);
    await change(cluster, { template: podTemplate("bad") });
    await converge(cluster);
    expect(Object.values(cluster.sizes())).toEqual([8, 5]);
    await change(cluster, { replicas: 30 });
    await cluster.sync();
    expect(Object.values(cluster.sizes())).toEqual([20, 13]);
  });

  it("[deployment T114] never go below the minimum, and every ReplicaSet involved knows the size", async () => {
    const cluster = await Cluster.of([liveDeployment(10, { surge: 3, unavailable: 2 })]);
    await converge(cluster);
    const stays = (minimum: number) => (): void =>
      expect(rssOf(cluster).reduce((total, rs) => total + Math.min(unlessBad(rs), sizeOf(rs)), 0)).toBeGreaterThanOrEqual(minimum);
    await change(cluster, { template: podTemplate("bad-2") });
    await converge(cluster, { check: stays(8) });
    await change(cluster, { replicas: 20, template: podTemplate("v3") });
    await converge(cluster, { check: stays(8) });
    const desired = (): readonly unknown[] => rssOf(cluster).flatMap((rs) => (sizeOf(rs) > 0 ? [rs.metadata.annotations?.[DESIRED]] : []));
    expect(new Set(desired())).toEqual(new Set(["20"]));
    await change(cluster, { template: podTemplate("bad-4") });
    await converge(cluster, { check: stays(18) });
    await change(cluster, { replicas: 5, template: podTemplate("v5") });
    await converge(cluster, { check: stays(3) });
    expect(new Set(desired())).toEqual(new Set(["5"]));
    expect(rssOf(cluster).reduce((total, rs) => total + sizeOf(rs), 0)).toBe(5);
  });
});

describe("twenty steps of somebody in a hurry", () => {
  const REQUEST = "deprecated.deployment.rollback.to";

  /** Drawn from the seed, as upstream's test draws them; a sync may come after each step, or not. */
  async function hurry(cluster: Cluster, seed: number): Promise<void> {
    const random = createSeededRandom(seed);
    const below = (n: number): number => Math.floor(random.next() * n);
    const rollback = (): Promise<void> =>
      cluster.change("deployments", "web", (d) => ({
        ...d,
        metadata: { ...d.metadata, annotations: { ...d.metadata.annotations, [REQUEST]: "0" } },
      }));
    for (let step = 0; step < 20; step++) {
      const { spec } = cluster.live("deployments", "web");
      const steps = [
        () => change(cluster, { template: podTemplate(`v${step}`) }),
        rollback,
        () => change(cluster, { replicas: Number(spec?.["replicas"]) + (below(2) === 0 ? 1 : -1) }),
        () => change(cluster, { paused: spec?.["paused"] !== true }),
        () => cluster.settle((rs) => Math.max(0, sizeOf(rs) - below(2))), // a pod is deleted
      ];
      await steps[below(steps.length)]?.();
      for (let syncs = below(3); syncs > 0; syncs--) {
        await cluster.catchUp();
        await cluster.sync().catch(() => undefined);
        await cluster.settle();
      }
    }
  }

  it("[deployment T106] ends observed, complete and available once it is resumed", async () => {
    let rolledBack = 0;
    for (let seed = 1; seed <= 5; seed++) {
      const cluster = await Cluster.of([
        liveDeployment(6, { surge: "25%", unavailable: "25%", spec: { revisionHistoryLimit: 2, progressDeadlineSeconds: 300 } }),
      ]);
      await hurry(cluster, seed);
      await change(cluster, { paused: false });
      await converge(cluster);
      const { metadata, spec, status } = cluster.live("deployments", "web");
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
      expect(rssOf(cluster).length).toBeLessThanOrEqual(3);
      rolledBack += cluster.events.filter((event) => event.startsWith("DeploymentRollback:")).length;
    }
    expect(rolledBack).toBeGreaterThan(5);
  });
});

describe("neighbours and visitors", () => {
  it("[deployment T113] scaling one of two Deployments with one selector leaves the other alone", async () => {
    const cluster = await Cluster.of([liveDeployment(2, {}, "web"), liveDeployment(2, {}, "two")]);
    await converge(cluster, { name: "web" });
    await converge(cluster, { name: "two" });
    await change(cluster, { replicas: 5 });
    await converge(cluster, { name: "web" });
    await converge(cluster, { name: "two" });
    expect(rssOf(cluster).map((rs) => [rs.metadata.ownerReferences?.[0]?.name, sizeOf(rs)])).toEqual([
      ["web", 5],
      ["two", 2],
    ]);
  });

  it("[deployment T111] counts that somebody else wrote are put right", async () => {
    const cluster = await Cluster.of([liveDeployment(2)]);
    await converge(cluster);
    await cluster.change("deployments", "web", (d) => ({ ...d, status: { ...d.status, readyReplicas: 0, availableReplicas: 0 } }));
    await cluster.catchUp();
    await converge(cluster);
    expect(cluster.live("deployments", "web").status).toMatchObject({ readyReplicas: 2, availableReplicas: 2 });
  });

  it("[deployment T104] Recreate never reports updated replicas beside others", async () => {
    const cluster = await Cluster.of([liveDeployment(1, { strategy: "Recreate" })]);
    await converge(cluster);
    await change(cluster, { template: podTemplate("v2") });
    const reports: string[] = [];
    await converge(cluster, {
      check: () => {
        const { replicas = 0, updatedReplicas = 0 } = cluster.live("deployments", "web").status ?? {};
        if (updatedReplicas !== 0 && updatedReplicas !== replicas) reports.push(`${String(updatedReplicas)} of ${String(replicas)}`);
      },
    });
    expect(reports).toEqual([]);
    expect(Object.values(cluster.sizes())).toEqual([0, 1]);
  });
});
