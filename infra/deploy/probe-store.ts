/**
 * Tries the store's commands before the first deployment that depends on it (`--probe`). A deployment machine usually cannot reach a store
 * in a VPC, so an operator may try them there and say so.
 */
import { probeCommands } from "@deltaloop/store/redis";
import { messageOf } from "@deltaloop/kube/objects";
import type { Settings } from "./check-settings.ts";

/** The value of `--probe` after `deltaloop doctor --redis` passed elsewhere. */
export const PASSED = "passed";

type Probed = Pick<Settings, "store" | "redisCluster" | "redisDurability">;

/** Returns one line for each reason not to deploy. @param probe value of `--probe` */
export async function storeProblems(
  { store, redisCluster, redisDurability }: Probed,
  probe: string | undefined,
  probing: typeof probeCommands = probeCommands,
): Promise<readonly string[]> {
  const cluster = store === "serverless" || redisCluster === "true";
  if (probe === PASSED) return [];
  if (probe === undefined)
    return store === "serverless"
      ? [
          `store=serverless was not tried: it may refuse commands that deltaloop needs. Create such a cache, run \`deltaloop doctor --redis rediss://USER:PASSWORD@HOST:6379 --redis-cluster\` in its VPC, then deploy with --probe=${PASSED}; or pass its URL to --probe`,
        ]
      : [];
  if (!URL.canParse(probe) || !/^rediss?:$/.test(new URL(probe).protocol))
    return [`--probe: must be ${PASSED} or rediss://user:password@host:port`];
  const durability = redisDurability === "A" || redisDurability === "B" ? redisDurability : "C";
  try {
    const findings = await probing({ url: probe, cluster }, durability);
    return findings.filter(({ state }) => state === "failure").map(({ what, seen }) => `--probe: ${what}: ${seen}`);
  } catch (error) {
    return [`--probe: the store does not answer: ${messageOf(error)}`];
  }
}
