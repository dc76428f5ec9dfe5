/** Tests of one upgrade or rollback between this build and an older one that uses the same rows in Redis. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import type { PodAllocation } from "../../shared/node-agent/ports/node-store.ts";
import { baseCheckout } from "./drill/base.ts";
import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { measured, startCluster, type Cluster } from "./e2e.ts";
import { loadBuild, REPLICAS, startMixedBuilds, type Build, type MixedBuilds } from "./mixed-builds.ts";
import { ensureRedisServer, startRedis, type RedisServer } from "./redis.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const CONTAINER = { name: "main", image: "shop:1" };
const ALLOCATIONS: ReadonlyMap<string, PodAllocation> = new Map([
  ["uid-1", { containers: { main: { allocated: { requests: { cpu: "100m" } }, actuated: {} } } }],
]);
const TEST_MS_MAX = 90_000;

export interface SharingUpgrade {
  readonly base: "same-identity" | "same-identity-before";
  readonly direction: "upgrade" | "rollback";
  /** The component that is deployed first. */
  readonly first: "functions" | "watcher";
  /**
   * Number of pod lanes of the older build, if it differs. The epoch then differs, too, and all components are replaced within one rollout.
   */
  readonly podLanes?: number;
  /** Runs on a control plane with scheduler and nodes, instead of an in-memory API server. */
  readonly isReal?: true;
}

export async function upgradesThatShareRows({ base, direction, first, podLanes, isReal }: SharingUpgrade): Promise<void> {
  const lanes = podLanes === undefined ? "" : `, ${podLanes} lanes of pods there`;
  const title = `${direction} with test/upgrade/${base}${lanes}, ${first} first${isReal ? ", on a control plane" : ""}`;
  const plane = isReal ? await controlPlaneBinaries() : undefined;
  const checkout = ensureRedisServer() ?? (plane && "missing" in plane ? plane.missing : undefined) ?? (await baseCheckout(base));
  const missing = typeof checkout === "string" ? checkout : "missing" in checkout ? checkout.missing : undefined;
  if (typeof checkout === "string" || "missing" in checkout) {
    process.stderr.write(`!!!!  ${title} cannot run: ${missing}\n`);
    it.skip(`${title}: ${missing}`);
    return;
  }

  describe(title, () => {
    let redis: RedisServer;
    let cluster: Cluster | undefined;
    let mixed: MixedBuilds;
    let from: Build;
    let to: Build;
    beforeAll(async () => {
      if (podLanes !== undefined) await changePodLanes(checkout.root, podLanes);
      const builds = [await loadBuild(checkout.root), await loadBuild(ROOT)] as const;
      [from, to] = direction === "upgrade" ? builds : [builds[1], builds[0]];
      redis = await startRedis();
      if (isReal) cluster = await startCluster();
      mixed = await startMixedBuilds(redis.url, builds[1], cluster);
    });
    afterAll(async () => {
      const closed = ((await mixed?.stop()) ?? []).map(({ fromMs, toMs, why }) => `${((toMs - fromMs) / 1000).toFixed(1)} s (${why})`);
      measured(`${title}: gates were closed for ${closed.join(", ") || "no time"}`);
      await redis?.stop();
      await cluster?.stop();
      await checkout.remove();
    });

    it(
      `finishes every rollout in ${podLanes === undefined ? "one epoch" : "a new epoch"}, without a surplus pod or an unreadable message`,
      async () => {
        const stopOldFunctions = mixed.startFunctions(from);
        const stopOldWatcher = mixed.startWatcher(from);
        await mixed.create("web");
        const { epoch } = await mixed.state();
        const replaceWatcher = async (): Promise<void> => {
          await stopOldWatcher();
          mixed.startWatcher(to);
        };
        const addFunctions = async (): Promise<void> => void mixed.startFunctions(to);
        const functions = [addFunctions, stopOldFunctions];
        const deployed = first === "functions" ? [...functions, replaceWatcher] : [replaceWatcher, ...functions];
        const atOnce = async (): Promise<void> => {
          for (const step of deployed) await step();
        };
        const steps = [...(podLanes === undefined ? deployed : [atOnce]), () => Promise.resolve()];
        for (const [index, step] of steps.entries()) await mixed.roll("web", `shop:${index + 2}`, step);
        const after = await mixed.state();
        expect(after).toMatchObject({ created: (1 + steps.length) * REPLICAS, complaints: [] });
        expect(after.epoch === epoch).toBe(podLanes === undefined);
      },
      TEST_MS_MAX,
    );

    it("a node agent keeps the allocations and containers of the other build's agent", () => {
      const { ALLOCATIONS_FILE, readAllocations } = to.checkpoint;
      expect(from.checkpoint.ALLOCATIONS_FILE).toBe(ALLOCATIONS_FILE);
      expect(readAllocations(from.checkpoint.writtenAllocations(ALLOCATIONS))).toEqual(ALLOCATIONS);
      expect(from.pod.containerHash(CONTAINER)).toBe(to.pod.containerHash(CONTAINER)); // a second watcher, as when a container restarts
      const { LABELS, ANNOTATIONS, CONFIG_ANNOTATIONS } = to.labels;
      expect(from.labels).toMatchObject({ LABELS, ANNOTATIONS, CONFIG_ANNOTATIONS });
    });
  });
}

async function changePodLanes(root: string, lanes: number): Promise<void> {
  const file = join(root, "shared", "store", "lane.ts");
  const text = await readFile(file, "utf8");
  const changed = text.replace(/^ {2}pods: \d+,$/m, `  pods: ${lanes},`);
  expect(changed).not.toBe(text);
  await writeFile(file, changed);
}
