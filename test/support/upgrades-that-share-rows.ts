/** One upgrade or rollback between this build and an older one with the same identity, as tests. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { baseCheckout } from "./drill/base.ts";
import { measured } from "./e2e.ts";
import { loadBuild, REPLICAS, startMixedBuilds, type Build, type MixedBuilds } from "./mixed-builds.ts";
import { ensureRedisServer, startRedis, type RedisServer } from "./redis.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const TEST_MS_MAX = 90_000;
const IMAGES = 5;

export interface SharingUpgrade {
  readonly base: "same-identity" | "same-identity-before";
  readonly direction: "upgrade" | "rollback";
  /** What is deployed first. */
  readonly first: "functions" | "watcher";
}

export async function upgradesThatShareRows({ base, direction, first }: SharingUpgrade): Promise<void> {
  const title = `${direction} with test/upgrade/${base}, ${first} first`;
  const checkout = ensureRedisServer() ?? (await baseCheckout(base));
  const missing = typeof checkout === "string" ? checkout : "missing" in checkout ? checkout.missing : undefined;
  if (typeof checkout === "string" || "missing" in checkout) {
    process.stderr.write(`!!!!  ${title} cannot run: ${missing}\n`);
    it.skip(`${title}: ${missing}`);
    return;
  }

  describe(title, () => {
    let redis: RedisServer;
    let mixed: MixedBuilds;
    let from: Build;
    let to: Build;
    beforeAll(async () => {
      const builds = [await loadBuild(checkout.root), await loadBuild(ROOT)] as const;
      [from, to] = direction === "upgrade" ? builds : [builds[1], builds[0]];
      redis = await startRedis();
      mixed = await startMixedBuilds(redis.url, builds[1]);
    });
    afterAll(async () => {
      const closed = ((await mixed?.stop()) ?? []).map(({ fromMs, toMs, why }) => `${((toMs - fromMs) / 1000).toFixed(1)} s (${why})`);
      measured(`${title}: gates were closed for ${closed.join(", ") || "no time"}`);
      await redis?.stop();
      await checkout.remove();
    });

    it(
      "finishes every rollout in one epoch, without a pod too many or a message that a build cannot read",
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
        const steps =
          first === "functions" ? [addFunctions, stopOldFunctions, replaceWatcher] : [replaceWatcher, addFunctions, stopOldFunctions];
        for (const [index, step] of [...steps, () => Promise.resolve()].entries()) await mixed.roll("web", `shop:${index + 2}`, step);
        expect(await mixed.state()).toEqual({ epoch, created: IMAGES * REPLICAS, complaints: [] });
      },
      TEST_MS_MAX,
    );
  });
}
