/**
 * Functions that are killed during a write, on a real control plane. The API server executes a function's request, or drops it, and never
 * responds. Once enough functions wait, their process is killed with SIGKILL. Each case has its own namespace and one write.
 */
import { readFile, writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { TAKEOVER_MS_MAX } from "../../shared/base/times.ts";
import type { About } from "../fault-profile/fault-profile.ts";
import { startFaultInjectingServer } from "../fault-profile/server.ts";
import type { FaultInjectingServer } from "../fault-profile/server.ts";
import { operate } from "../simulation/crashes/operations.ts";
import type { Operation } from "../simulation/crashes/operations.ts";
import { imageOf, sizeOf, web } from "../simulation/crashes/workloads.ts";
import { deltaloop, eventually, killHard, measured, OWN_NAMESPACE, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { podsCreated, recordHistory } from "../support/history.ts";
import type { Change, History } from "../support/history.ts";
import { brokenIn, unrestOf, standingOf } from "../support/lives.ts";
import type { Mark, Standing } from "../support/lives.ts";
import type { LiveObject } from "../support/scripted-api.ts";

/** Number of concurrent invocations: each call that waits for a response occupies one. */
const CONCURRENCY = 50;
/** Maximum wait in ms before the kill: an unanswered call times out after 12 s, and its function would survive. */
const HELD_MS_MAX = 8_000;
/** Duration in ms of a poll: the last poll of a killed host may have received messages. */
const POLL_MS = 1_500;
const LOOK_MS = 200;
/** Delays of pods with which a rollout of three pods takes a second or two. */
const PACE = { readyAfterMs: [50, 200], deleteAfterMs: [50, 200] } as const;
/** Time in ms without changes after which a namespace counts as settled. */
const STILL_MS = 1_000;
const PATIENCE_MS = 75_000;

/** The nth write of a kind. */
type Cut = readonly [verb: "create" | "patch" | "delete", resource: string, nth: number];

interface Scenario {
  readonly id: string;
  /**
   * The user request during which the function is killed. Absent: the creation of a Deployment of 3. Otherwise the Deployment has completed
   * its rollout before.
   */
  readonly operation?: Operation;
  readonly cuts: readonly Cut[];
  /** Pods of each image; undefined: the Deployment is deleted after the function has died, and nothing remains. */
  readonly left?: Readonly<Record<string, number>>;
  /** The number of pods created for each ReplicaSet, oldest first. */
  readonly made?: readonly number[];
}

const SCENARIOS: readonly Scenario[] = [
  {
    id: "create",
    cuts: [
      ["create", "replicasets", 1],
      ["create", "pods", 1],
      ["create", "pods", 3],
      ["patch", "deployments/status", 1],
    ],
    left: { v1: 3 },
    made: [3],
  },
  {
    id: "up",
    operation: { kind: "resize", replicas: 5 },
    cuts: [
      ["patch", "replicasets", 1],
      ["create", "pods", 2],
    ],
    left: { v1: 5 },
    made: [5],
  },
  {
    id: "roll",
    operation: { kind: "template", image: "v2" },
    cuts: [
      ["create", "replicasets", 1],
      ["patch", "replicasets", 1],
      ["create", "pods", 1],
      ["patch", "deployments/status", 1],
    ],
    left: { v2: 3 },
    made: [3, 3],
  },
  {
    id: "down",
    operation: { kind: "resize", replicas: 1 },
    cuts: [
      ["patch", "replicasets", 1],
      ["delete", "pods", 2],
    ],
    left: { v1: 1 },
    made: [3],
  },
  {
    id: "delete",
    cuts: [
      ["create", "replicasets", 1],
      ["create", "pods", 2],
    ],
  },
];

const PROBE = "probe";

await whereRealPartsAre("functions that die of a write, on a real control plane", () => {
  let cluster: Cluster;
  let road: FaultInjectingServer;
  let dev: Running;
  let history: History;
  beforeAll(async () => {
    cluster = await startCluster({ pace: PACE });
    road = await startFaultInjectingServer({
      url: cluster.plane.url,
      ca: cluster.plane.ca,
      certificate: await cluster.plane.serverCertificate(),
    });
    const kubeconfig = `${cluster.rolesKubeconfig}.road`;
    const text = await readFile(cluster.rolesKubeconfig, "utf8");
    await writeFile(kubeconfig, text.replaceAll(cluster.plane.url, road.url), { mode: 0o600 });
    dev = deltaloop(["dev", "--act", "--kubeconfig", kubeconfig, "--lease-namespace", OWN_NAMESPACE, "--concurrency", String(CONCURRENCY)]);
    await dev.line("ready:");
    history = await recordHistory(cluster.client);
  });
  afterAll(async () => {
    await history?.stop();
    await dev?.stop();
    await road?.close();
    await cluster?.stop();
  });

  let looked: { readonly atMs: number; readonly changes: ReadonlyMap<string, readonly Change[]> } | undefined;
  /** Returns the changes of a namespace up to the last poll. */
  function changesOf(namespace: string): readonly Change[] {
    if (looked === undefined || performance.now() - looked.atMs > LOOK_MS)
      looked = { atMs: performance.now(), changes: Map.groupBy(history.changes(), ({ object }) => object.metadata.namespace) };
    return looked.changes.get(namespace) ?? [];
  }

  /** @returns the revision after which nothing changed, and the final state */
  async function rest(namespace: string): Promise<Standing & { readonly revision: bigint }> {
    let still: { readonly revision: bigint; readonly sinceMs: number } | undefined;
    return await eventually(
      `${namespace} is at rest`,
      () => {
        const changes = changesOf(namespace);
        const revision = changes.at(-1)?.revision ?? 0n;
        if (still?.revision !== revision) still = { revision, sinceMs: performance.now() };
        if (performance.now() - still.sinceMs < STILL_MS) return undefined;
        const at = standingOf(changes);
        const unrest = at && unrestOf(at);
        if (unrest !== undefined) throw new Error(`${namespace}: ${unrest}`);
        return at && { ...at, revision };
      },
      PATIENCE_MS,
    );
  }

  async function open(namespace: string): Promise<void> {
    await cluster.client.request("POST", "/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
  }

  async function createWeb(namespace: string): Promise<void> {
    const given = { apiVersion: "apps/v1", kind: "Deployment", ...web({ revisionHistoryLimit: 2 }) };
    await cluster.client.request("POST", `/apis/apps/v1/namespaces/${namespace}/deployments`, given);
  }

  describe("a function dies during a write, before or after the API server executes it", () => {
    const DEATHS = SCENARIOS.flatMap((scenario) =>
      scenario.cuts.flatMap((cut) =>
        [false, true].map((isDone) => {
          const [verb, resource, nth] = cut;
          const namespace = `${scenario.id}-${verb}-${resource.replace("/", "-")}-${nth}-${isDone ? "after" : "before"}`;
          const title = `${scenario.id}: stays within maxSurge and maxUnavailable when a function dies ${isDone ? "after" : "before"} "${verb} ${resource}" number ${nth} is executed`;
          return { ...scenario, verb, resource, nth, isDone, namespace, title };
        }),
      ),
    );
    type Death = (typeof DEATHS)[number];
    const marks = new Map<string, Mark[]>(DEATHS.map(({ namespace }) => [namespace, []]));

    beforeAll(async () => {
      const from = performance.now();
      await Promise.all([...DEATHS.map(prepare), open(PROBE).then(() => createWeb(PROBE))]);
      measured(`${DEATHS.length} namespaces prepared after ${seconds(performance.now() - from)}`);
      const kills = await die();
      measured(`all have died, of ${kills} kills, after ${seconds(performance.now() - from)}`);
      // Waits until the lease has expired, for functions whose key is not taken over before.
      await sleep(TAKEOVER_MS_MAX);
      await Promise.all(DEATHS.filter(({ left }) => left !== undefined).map(({ namespace }) => rest(namespace)));
      measured(`all are at rest after ${seconds(performance.now() - from)}`);
    });

    async function prepare({ namespace, operation }: Death): Promise<void> {
      await open(namespace);
      if (operation === undefined) return;
      await createWeb(namespace);
      marks.get(namespace)?.push({ after: (await rest(namespace)).revision, what: "rest" });
    }

    /**
     * Lets each function continue to its write, where it is killed.
     * @returns the number of kills of the functions' process
     */
    async function die(): Promise<number> {
      await Promise.all(DEATHS.map(begin));
      let [alive, kills] = [DEATHS, 0];
      for (; alive.length > 0; kills++) {
        const held = await eventually("functions wait for their answers", () => heldOf(alive), PATIENCE_MS);
        killHard(dev.pids()["functions"]);
        alive = alive.filter((death) => !held.includes(death));
        await sleep(POLL_MS);
        for (const { namespace, left } of held)
          if (left === undefined) await cluster.client.request("DELETE", `/apis/apps/v1/namespaces/${namespace}/deployments/web`);
        await functionsRun();
      }
      return kills;
    }

    /** @returns the functions that wait for a response, once all of them do or one has waited for HELD_MS_MAX */
    function heldOf(alive: readonly Death[]): readonly Death[] | undefined {
      const since = new Map(
        road
          .exchanges()
          .flatMap(({ rule, code, atMs }) => (rule !== undefined && (rule.endsWith("before") || code !== undefined) ? [[rule, atMs]] : [])),
      );
      const held = alive.filter(({ namespace }) => since.has(namespace));
      const firstMs = Math.min(...held.map(({ namespace }) => since.get(namespace) ?? Infinity));
      return held.length === alive.length || Date.now() - firstMs > HELD_MS_MAX ? held : undefined;
    }

    let probes = 0;
    /** Waits for a function that sends only reads. */
    async function functionsRun(): Promise<void> {
      const path = `/apis/apps/v1/namespaces/${PROBE}/deployments/web`;
      const body = { spec: { minReadySeconds: ++probes } };
      const { metadata } = (await cluster.client.request("PATCH", path, body, "application/merge-patch+json")) as unknown as LiveObject; // a Deployment
      await eventually("functions run again", async () => {
        const now = await cluster.get<LiveObject>(path);
        return now?.status?.["observedGeneration"] === metadata.generation;
      });
    }

    async function begin({ namespace, operation, verb, resource, nth, isDone }: Death): Promise<void> {
      const about: About = { verbs: [verb], resource, namespace, client: "deltaloop/" };
      road.behave({ name: namespace, about, often: { nth }, fault: { kind: "standStill", isDone } });
      if (operation) marks.get(namespace)?.push({ after: await operate(cluster.client, namespace, operation), what: operation });
      else await createWeb(namespace);
    }

    it.each(DEATHS)("$title", async ({ namespace, left, made }) => {
      const changes = changesOf(namespace);
      expect(brokenIn(changes, marks.get(namespace) ?? [])).toEqual([]);
      const standing = standingOf(changes);
      if (left === undefined) {
        for (const path of ["/apis/apps/v1/namespaces/NS/replicasets", "/api/v1/namespaces/NS/pods"])
          expect(await cluster.list(path.replace("NS", namespace))).toEqual([]);
        return;
      }
      const active = standing?.replicaSets.filter((rs) => sizeOf(rs) > 0) ?? [];
      expect(Object.fromEntries(active.map((rs) => [imageOf(rs), sizeOf(rs)]))).toEqual(left);
      expect(standing?.pods).toHaveLength(Object.values(left)[0] ?? 0);
      expect(Object.values(podsCreated(changes))).toEqual(made);
    });
  });
});

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
