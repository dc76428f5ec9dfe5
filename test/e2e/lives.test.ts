/** Twenty concurrent histories of a Deployment on a real control plane, each with twenty user requests from a fixed seed. */
import { setTimeout as sleep } from "node:timers/promises";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { wrongAtRest } from "../simulation/crashes/bounds.ts";
import { drawOperation, operate } from "../simulation/crashes/operations.ts";
import type { Operation } from "../simulation/crashes/operations.ts";
import { web } from "../simulation/crashes/workloads.ts";
import { eventually, startCluster, startDev, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { recordHistory } from "../support/history.ts";
import type { Change, History } from "../support/history.ts";
import { brokenIn, unrestOf, standingOf } from "../support/lives.ts";
import type { Mark, Standing } from "../support/lives.ts";

const LOOK_MS = 200;
/** Delays of pods with which a rollout of three pods takes a second or two. */
const PACE = { readyAfterMs: [50, 200], deleteAfterMs: [50, 200] } as const;
/** Time in ms without changes after which a namespace counts as settled. */
const STILL_MS = 1_000;
const PATIENCE_MS = 75_000;

const LIVES = Array.from({ length: 20 }, (_, index) => index + 1);
const STEPS = 20;
const PAUSE_MS_MAX = 800;

await whereRealPartsAre("lives of a Deployment on a real control plane", () => {
  let cluster: Cluster;
  let dev: Running;
  let history: History;
  beforeAll(async () => {
    cluster = await startCluster({ pace: PACE });
    dev = await startDev(cluster);
    history = await recordHistory(cluster.client);
  });
  afterAll(async () => {
    await history?.stop();
    await dev?.stop();
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

  describe("random histories", () => {
    const marks = new Map<number, Mark[]>();
    const lives = new Map<number, Promise<Standing>>();
    beforeAll(() => {
      for (const seed of LIVES) lives.set(seed, live(seed));
      for (const life of lives.values()) life.catch(() => undefined);
    });

    async function live(seed: number): Promise<Standing> {
      const namespace = `life-${seed}`;
      const random = createSeededRandom(seed);
      const own: Mark[] = [];
      marks.set(seed, own);
      const act = async (what: Operation): Promise<void> => void own.push({ after: await operate(cluster.client, namespace, what), what });
      let isPaused = false;
      await open(namespace);
      await createWeb(namespace);
      own.push({ after: (await rest(namespace)).revision, what: "rest" });
      for (let step = 0; step < STEPS; step++) {
        const operation = drawOperation(random, step, isPaused);
        if (operation.kind === "pause") isPaused = operation.paused;
        await act(operation);
        if (random.next() < 0.25) own.push({ after: (await rest(namespace)).revision, what: "rest" });
        else await sleep(random.next() * PAUSE_MS_MAX);
      }
      await act({ kind: "pause", paused: false });
      return await rest(namespace);
    }

    it.each(LIVES)(
      "seed %d: a Deployment stays within maxSurge and maxUnavailable during twenty user requests, and reaches the desired state",
      async (seed) => {
        const standing = await lives.get(seed);
        expect(standing && wrongAtRest(standing)).toBeUndefined();
        expect(brokenIn(changesOf(`life-${seed}`), marks.get(seed) ?? [])).toEqual([]);
      },
    );
  });
});
