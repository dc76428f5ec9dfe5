/**
 * `deltaloop keys`: which MAC keys the cache is signed with, and, with `--resign`, what a former key has signed signed anew. A step of
 * the rotation in docs/security.md. The keys come from the environment and are never printed.
 */
import type { Command } from "commander";
import { parseMacKeys } from "../shared/lambda/configuration.ts";
import { openCache, redisStore } from "../shared/lambda/connect.ts";
import { describeUse, isClean, keyUses } from "./support/key-uses.ts";
import { UsageError } from "./support/usage-error.ts";

interface KeysFlags {
  readonly redis: string;
  readonly redisCluster?: true;
  readonly deployment: string;
  readonly cluster: string;
  readonly resign?: true;
}

const EXIT_OTHERS_LEFT = 1;

export function registerKeys(program: Command): void {
  program
    .command("keys")
    .description("show which MAC keys (DELTALOOP_MAC_KEY=new,old) the cache is signed with; ends with 1 unless it is the first alone")
    .requiredOption("--redis <url>", "where the cache is")
    .option("--redis-cluster", "it is a Redis Cluster")
    .requiredOption("--deployment <name>", "DELTALOOP_DEPLOYMENT of the functions")
    .requiredOption("--cluster <cid>", "DELTALOOP_CLUSTER of the functions")
    .option("--resign", "sign anew what a former key has signed, and take away entries without their row")
    .action(runKeys);
}

async function runKeys(flags: KeysFlags): Promise<void> {
  if (!/^rediss?:\/\//.test(flags.redis)) throw new UsageError("--redis takes a redis:// or rediss:// URL");
  const { store } = openCache(
    {
      deployment: flags.deployment,
      cluster: flags.cluster,
      macKeys: parseMacKeys(process.env),
      // Of the gate, which is not asked here.
      digestKey: "not used",
    },
    redisStore({ url: flags.redis, cluster: flags.redisCluster === true }),
  );
  try {
    const epoch = await store.epoch();
    if (epoch === undefined) throw new UsageError(`there is no cache of ${flags.deployment}, cluster ${flags.cluster}`);
    const uses = await keyUses(store, flags.resign === true);
    for (const [resource, use] of uses) process.stdout.write(`${describeUse(resource, use)}\n`);
    if (!uses.every(([, use]) => isClean(use))) process.exitCode = EXIT_OTHERS_LEFT;
  } finally {
    await store.close();
  }
}
