/**
 * Handovers of a cluster between controllers on a real control plane: ours take over workloads that upstream's controllers have created,
 * and the reverse.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { readClusterIdentity } from "../../shared/kube/client/cluster-id.ts";
import { environmentOf } from "../../shared/controllers/lambda/configuration.ts";
import { kubeHttpConfigFrom } from "../../shared/kube/kubeconfig/kubeconfig.ts";
import { createKubeHttp } from "../../shared/kube/http/kube-http.ts";
import { queueUrls } from "../../shared/local/queues.ts";
import type { LocalQueues } from "../../shared/local/queues.ts";
import { deltaloop, eventually, measured, OWN_NAMESPACE, startCluster, startDev, whereRealPartsAre } from "../support/e2e.ts";
import type { AuditEntry, Cluster, Running } from "../support/e2e.ts";
import { startRedis } from "../support/redis.ts";
import { least, momentsOf, most, podsCreated, recordHistory } from "../support/history.ts";
import type { History } from "../support/history.ts";

/** Time in ms without changes after which a namespace counts as settled. */
const STILL_MS = 1_500;
/** Time in ms within which a new controller would write to settled objects: in the first sync of each key, or in one of the next. */
const LOOK_MS = 4_000;
const PATIENCE_MS = 60_000;
const ROLLING = 12;

interface Party {
  readonly name: "ours" | "upstream";
  /** Prefix of the usernames of this side's controllers. */
  readonly users: readonly string[];
  /** @returns a function that stops the controllers */
  readonly start: (cluster: Cluster) => Promise<() => Promise<unknown>>;
}

const OURS: Party = {
  name: "ours",
  users: ["system:serviceaccount:deltaloop:"],
  start: async (cluster) => {
    const dev = await startDev(cluster);
    return () => dev.stop();
  },
};

const UPSTREAM: Party = {
  name: "upstream",
  users: ["deployment", "replicaset", "replication"].map((name) => `system:serviceaccount:kube-system:${name}-controller`),
  start: async ({ plane }) => {
    const identity = await plane.clientCertificate("system:kube-controller-manager", []);
    return await plane.startWorkloadLoops({ server: plane.url, identity });
  },
};

type Versions = Readonly<Record<string, string>>;

/** Returns the resourceVersion of each workload and pod of a namespace; every write changes it. */
async function versionsOf(cluster: Cluster, namespace: string): Promise<Versions> {
  const versions: Record<string, string> = {};
  for (const path of ["apis/apps/v1", "api/v1"])
    for (const resource of path === "api/v1" ? ["replicationcontrollers", "pods"] : ["deployments", "replicasets"])
      for (const { metadata } of await cluster.list<Named>(`/${path}/namespaces/${namespace}/${resource}`))
        versions[`${resource}/${metadata.name}`] = metadata.resourceVersion;
  return versions;
}

interface Named {
  readonly metadata: { readonly name: string; readonly resourceVersion: string; readonly annotations?: Readonly<Record<string, string>> };
}

async function atRest(cluster: Cluster, namespace: string): Promise<Versions> {
  let last = "";
  return await eventually(`${namespace} is at rest`, async () => {
    const now = await versionsOf(cluster, namespace);
    const isSame = JSON.stringify(now) === last;
    last = JSON.stringify(now);
    await new Promise((resolve) => setTimeout(resolve, STILL_MS));
    return isSame ? now : undefined;
  });
}

function deployment(name: string, replicas: number, more: object = {}): object {
  const labels = { app: name };
  const template = { metadata: { labels }, spec: { containers: [{ name: "main", image: "shop:1" }] } };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name },
    spec: { replicas, selector: { matchLabels: labels }, template, ...more },
  };
}

/** A ReplicaSet or ReplicationController and an existing pod that it adopts, so that it creates none. */
function bareOwner(kind: "ReplicaSet" | "ReplicationController", name: string): readonly object[] {
  const labels = { app: name };
  const spec = { containers: [{ name: "main", image: "shop:1" }] };
  const isSet = kind === "ReplicaSet";
  return [
    { apiVersion: "v1", kind: "Pod", metadata: { name: `${name}-first`, labels }, spec },
    {
      apiVersion: isSet ? "apps/v1" : "v1",
      kind,
      metadata: { name },
      spec: { replicas: 2, selector: isSet ? { matchLabels: labels } : labels, template: { metadata: { labels }, spec } },
    },
  ];
}

class Shop {
  readonly #cluster: Cluster;
  readonly #namespace: string;

  constructor(cluster: Cluster, namespace: string) {
    this.#cluster = cluster;
    this.#namespace = namespace;
  }

  async k(...args: readonly string[]): Promise<string> {
    return await this.#cluster.kubectl(...args, "-n", this.#namespace);
  }

  async apply(...objects: readonly object[]): Promise<void> {
    const placed = (objects as readonly { readonly metadata: object }[]).map((object) => ({
      ...object,
      metadata: { ...object.metadata, namespace: this.#namespace },
    }));
    await this.#cluster.apply(...placed);
  }

  async setImage(name: string, image: string): Promise<void> {
    await this.k("set", "image", `deployment/${name}`, `main=${image}`);
  }

  async roll(name: string, image: string): Promise<void> {
    await this.setImage(name, image);
    await this.#cluster.rolledOut(this.#namespace, name);
  }

  /** Returns the revision of each ReplicaSet of a Deployment. */
  async revisions(name: string): Promise<readonly string[]> {
    const sets = await this.#cluster.list<Named>(`/apis/apps/v1/namespaces/${this.#namespace}/replicasets?labelSelector=app%3D${name}`);
    return sets.map(({ metadata }) => metadata.annotations?.["deployment.kubernetes.io/revision"] ?? "none").toSorted();
  }

  /** Creates one workload of each kind, settled or paused. */
  async furnish(): Promise<void> {
    await this.#cluster.kubectl("create", "namespace", this.#namespace);
    await this.apply(
      deployment("web", 4),
      deployment("once", 2, { strategy: { type: "Recreate" } }),
      deployment("held", 2),
      deployment("stuck", 3),
      ...bareOwner("ReplicaSet", "keeper"),
      ...bareOwner("ReplicationController", "elder"),
    );
    for (const name of ["web", "once", "held", "stuck"]) await this.#cluster.rolledOut(this.#namespace, name);
    await this.roll("web", "shop:2");
    await this.roll("once", "shop:2");
    await this.roll("web", "shop:3");
    await this.k("rollout", "pause", "deployment/held");
    await this.setImage("held", "shop:2");
    await this.setImage("stuck", "shop:bad"); // its pods never become ready
  }
}

await whereRealPartsAre("workloads change hands on a real control plane", () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await startCluster();
  });
  afterAll(() => cluster?.stop());

  describe.each([
    { from: UPSTREAM, to: OURS },
    { from: OURS, to: UPSTREAM },
  ])("from $from.name to $to.name", ({ from, to }) => {
    const [settled, rolling] = [`settled-${to.name}`, `rolling-${to.name}`];
    let shop: Shop;
    let history: History;
    let before: Versions;
    let tookOverMs: number;
    let end: (() => Promise<unknown>) | undefined;
    beforeAll(async () => {
      shop = new Shop(cluster, settled);
      end = await from.start(cluster);
      await shop.furnish();
      await cluster.kubectl("create", "namespace", rolling);
      const moving = new Shop(cluster, rolling);
      await moving.apply(deployment("web", ROLLING, { minReadySeconds: 2 }));
      await cluster.rolledOut(rolling, "web");
      before = await atRest(cluster, settled);
      history = await recordHistory(cluster.client, rolling);
      await moving.setImage("web", "shop:2");
      await eventually("the rollout is in its middle", () => {
        const { byReplicaSet = {} } = momentsOf(history.changes(), "web").at(-1) ?? {};
        return Object.values(byReplicaSet).filter(({ active }) => active >= 3).length === 2;
      });
      await end();
      tookOverMs = Date.now();
      end = await to.start(cluster);
    }, 2 * PATIENCE_MS);
    afterAll(async () => {
      await history?.stop();
      await end?.();
    });

    it("a rollout continues with the same ReplicaSets, and stays within maxSurge and maxUnavailable", async () => {
      const stood = momentsOf(history.changes(), "web").at(-1);
      await cluster.rolledOut(rolling, "web");
      measured(`the rollout that changed hands ended ${((Date.now() - tookOverMs) / 1000).toFixed(1)} s later`);
      const all = momentsOf(history.changes(), "web");
      // 25 % of 12 is three, whether rounded up or down. Skips the initial list, which the history receives object by object.
      const moments = all.slice(all.findIndex(({ ready }) => ready === ROLLING));
      expect(most(moments, ({ asked }) => asked)).toBe(ROLLING + 3);
      expect(least(moments, ({ ready }) => ready)).toBeGreaterThanOrEqual(ROLLING - 3);
      expect(moments.flatMap(({ overshot }) => overshot)).toEqual([]);
      expect(Object.keys(stood?.byReplicaSet ?? {})).toHaveLength(2);
      expect(Object.values(podsCreated(history.changes()))).toEqual([ROLLING, ROLLING]);
    });

    it("writes nothing in a namespace whose Deployments are complete, paused or stuck", async () => {
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, tookOverMs + LOOK_MS - Date.now())));
      expect(await versionsOf(cluster, settled)).toEqual(before);
      const writes = (await cluster.audit()).filter(
        ({ verb, user, objectRef }) =>
          objectRef?.namespace === settled &&
          /create|update|patch|delete/.test(verb) &&
          to.users.some((name) => user.username.startsWith(name)),
      );
      expect(writes.map(({ verb, requestURI }) => `${verb} ${requestURI}`)).toEqual([]);
    });

    it("continues the revisions of Deployments when users resume, change or undo their rollouts", async () => {
      expect(await Promise.all(["web", "once", "held", "stuck"].map((name) => shop.revisions(name)))).toEqual([
        ["1", "2", "3"],
        ["1", "2"],
        ["1"],
        ["1", "2"],
      ]);
      await shop.k("rollout", "resume", "deployment/held");
      await shop.setImage("stuck", "shop:3");
      await shop.k("rollout", "undo", "deployment/web"); // returns to the second template: no new ReplicaSet
      await shop.k("scale", "rs/keeper", "rc/elder", "--replicas=3");
      for (const name of ["web", "held", "stuck"]) await cluster.rolledOut(settled, name);
      expect(await Promise.all(["web", "held", "stuck"].map((name) => shop.revisions(name)))).toEqual([
        ["1", "3", "4"],
        ["1", "2"],
        ["1", "2", "3"],
      ]);
      await eventually("three pods each", async () => {
        const pods = await cluster.list<Named>(`/api/v1/namespaces/${settled}/pods`);
        return ["keeper", "elder"].every((name) => pods.filter(({ metadata }) => metadata.name.startsWith(`${name}-`)).length === 3);
      });
    });
  });

  describe("[informer T104] upstream's controllers start while deltaloop's run, deployed as in production", () => {
    const namespace = "beside";
    /**
     * Time in ms after the start of leadership in which a leader ignores writes: times of writes and the server's clock have a resolution
     * of one second.
     */
    const BEGUN_MS = 2_000;
    /** Limit in ms from the other controller's write to our last one: the watch delay, a renewal, and the call in flight. */
    const STOP_MS_MAX = 8_000;
    let ours: Production;
    let shop: Shop;
    let endUpstream: (() => Promise<unknown>) | undefined;
    beforeAll(async () => {
      ours = await startProduction(cluster);
      shop = new Shop(cluster, namespace);
      await cluster.kubectl("create", "namespace", namespace);
      await shop.apply(deployment("web", 1));
      await cluster.rolledOut(namespace, "web");
    }, 2 * PATIENCE_MS);
    afterAll(async () => {
      await endUpstream?.();
      await ours?.stop();
    });

    const wrote = (party: Party, entries: readonly AuditEntry[]): readonly AuditEntry[] =>
      entries.filter(
        ({ verb, user, objectRef }) =>
          objectRef?.namespace === namespace &&
          objectRef.resource !== "events" &&
          /create|update|patch|delete/.test(verb) &&
          party.users.some((name) => user.username.startsWith(name)),
      );

    it("a tenant that writes statuses stops only its own namespace, until deltaloop resume -n", async () => {
      const tenant = new Shop(cluster, "tenant");
      await cluster.kubectl("create", "namespace", "tenant");
      await tenant.apply(deployment("web", 1));
      await cluster.rolledOut("tenant", "web");
      const resources = "deployments.apps,deployments.apps/status,replicasets.apps,replicasets.apps/status";
      await tenant.k("create", "role", "mallory", "--verb=get,patch", `--resource=${resources}`);
      await tenant.k("create", "rolebinding", "mallory", "--role=mallory", "--user=mallory");
      const status = [
        "--as=mallory",
        "--field-manager=anything",
        "--subresource=status",
        "--type=merge",
        "-p",
        '{"status":{"replicas":7}}',
      ];
      await new Promise((resolve) => setTimeout(resolve, BEGUN_MS)); // FG1: the guard ignores writes before
      await tenant.k("patch", "deployment", "web", ...status);
      await ours.watcher.line("another controller writes in this namespace; syncing none of its keys", PATIENCE_MS);
      await expect(cluster.kubectl("patch", "replicaset", "deltaloop-canary", "-n", OWN_NAMESPACE, ...status)).rejects.toThrow("forbidden");
      await tenant.k("scale", "deployment/web", "--replicas=3");
      await ours.functions.line("key not synced until you run deltaloop resume: another controller writes");
      await shop.k("scale", "deployment/web", "--replicas=2");
      await cluster.rolledOut(namespace, "web");
      await ours.watcher.line("no other controller wrote the canary within 10 s: only the affected namespaces are stopped", PATIENCE_MS);
      expect(await cluster.list<Named>("/api/v1/namespaces/tenant/pods")).toHaveLength(1);
      await shop.k("scale", "deployment/web", "--replicas=1");
      const resumed = deltaloop(["resume", "-n", "tenant", "--force", "--kubeconfig", cluster.rolesKubeconfig], ours.environment);
      expect((await resumed.exited).code, resumed.output()).toBe(0);
      expect(resumed.output()).toMatch(/^namespace tenant stopped since .*: anything wrote the status of deployments tenant\/web/);
      await cluster.rolledOut("tenant", "web");
    });

    it("functions stop within seconds of upstream's first status write and log the reason; upstream continues alone", async () => {
      // Repeats, because only the first of two equal status writes changes the object, and that may be ours.
      endUpstream = await UPSTREAM.start(cluster);
      let isStopped = false;
      const stops = ours.watcher.line(
        "another controller writes to the managed objects; syncing no keys until you run deltaloop resume",
        PATIENCE_MS,
      );
      stops.then(
        () => (isStopped = true),
        () => undefined, // the test awaits `line` below
      );
      for (let replicas = 2; !isStopped && replicas < 12; replicas++) {
        await shop.k("scale", "deployment/web", `--replicas=${replicas}`);
        await Promise.race([stops, new Promise((resolve) => setTimeout(resolve, STILL_MS))]);
      }
      await stops;
      await shop.setImage("web", "shop:2");
      const why =
        /another controller writes.*kube-controller-manager wrote the status of (deployments beside\/web|replicasets (beside\/web|deltaloop\/deltaloop-canary))/;
      // Searches the whole output, because the log already has a line about the tenant's stop.
      await eventually("the functions log why", () => why.test(ours.functions.output()));
      await cluster.rolledOut(namespace, "web");
      const entries = await cluster.audit();
      const first = wrote(UPSTREAM, entries).find(({ objectRef }) => objectRef?.subresource === "status");
      const last = wrote(OURS, entries).at(-1);
      const tookMs = Date.parse(last?.stageTimestamp ?? "") - Date.parse(first?.stageTimestamp ?? "");
      measured(`our last write was ${(tookMs / 1000).toFixed(1)} s after upstream's first status`);
      expect(tookMs).toBeLessThan(STOP_MS_MAX);
    });

    it("resume is rejected while upstream writes; after upstream has stopped, resume --force continues without losing a change", async () => {
      const refused = deltaloop(["resume", "--kubeconfig", cluster.rolesKubeconfig], ours.environment);
      expect((await refused.exited).code, refused.output()).toBe(1);
      expect(refused.output()).toMatch(
        /^stopped since .*\nthe last write of another controller: kube-controller-manager wrote .*\nnot resumed: .* s ago: wait/,
      );
      await endUpstream?.();
      endUpstream = undefined;
      await shop.setImage("web", "shop:3"); // while neither side runs
      await new Promise((resolve) => setTimeout(resolve, STILL_MS));
      const before = wrote(OURS, await cluster.audit()).length;
      const fromMs = Date.now();
      const forced = deltaloop(["resume", "--force", "--kubeconfig", cluster.rolesKubeconfig], ours.environment);
      expect((await forced.exited).code, forced.output()).toBe(0);
      await cluster.rolledOut(namespace, "web");
      measured(`the rollout that nobody did was over ${((Date.now() - fromMs) / 1000).toFixed(1)} s after deltaloop resume`);
      expect(wrote(OURS, await cluster.audit()).length).toBeGreaterThan(before);
      const again = deltaloop(["resume", "--kubeconfig", cluster.rolesKubeconfig], ours.environment);
      expect([(await again.exited).code, again.output()]).toEqual([0, "nothing is stopped\n"]);
    });
  });
});

interface Production {
  readonly watcher: Running;
  readonly functions: Running;
  /** The environment of watcher and functions. */
  readonly environment: Readonly<Record<string, string>>;
  stop(): Promise<void>;
}

/** Starts the processes of `dev`, without the option that makes its watcher exit. */
async function startProduction(cluster: Cluster): Promise<Production> {
  const redis = await startRedis();
  const invocations = join(await mkdtemp(join(tmpdir(), "deltaloop-hand-over-")), "invocations");
  const queue = deltaloop(["queue", "--invocations", invocations]);
  // the output of cli/queue.ts
  const { endpoint, queues } = JSON.parse(await queue.line("endpoint")) as { readonly endpoint: string; readonly queues: LocalQueues };
  const access = await kubeHttpConfigFrom(cluster.plane.adminKubeconfig, { component: "e2e" });
  const environment = environmentOf({
    deployment: "prod",
    cluster: (await readClusterIdentity(createKubeHttp(access))).cid,
    mode: "act",
    digestKey: "a digest key of the test's own",
    macKeys: ["a MAC key of the test's own"],
    redis: { url: redis.url, cluster: false },
    kube: { server: access.server },
    queues: queueUrls(endpoint, queues),
    logLevel: "info",
    metrics: "none",
  });
  const kubeconfig = ["--kubeconfig", cluster.rolesKubeconfig];
  const functions = deltaloop(["host", ...kubeconfig, "--invocations", invocations], environment);
  await functions.line("ready");
  const watcher = deltaloop(["watch", ...kubeconfig, "--lease-namespace", OWN_NAMESPACE], environment);
  return {
    watcher,
    functions,
    environment,
    async stop() {
      await Promise.all([functions.stop(), watcher.stop()]);
      await queue.stop();
      await redis.stop();
      await rm(dirname(invocations), { recursive: true });
    },
  };
}
