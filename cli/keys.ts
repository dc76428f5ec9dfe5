/**
 * `deltaloop keys`: which MAC keys the cache is signed with, and, with `--resign`, what a former key has signed signed anew. A step of
 * the rotation in docs/internals/threat-model.md. The keys come from the environment and are never printed.
 */
import { Option } from "commander";
import type { Command } from "commander";
import { parseMacKeys } from "@deltaloop/controllers/configuration";
import { openCache, redisStore } from "@deltaloop/controllers/lambda";
import { describeUse, isClean, keyUses } from "./cluster/key-uses.ts";
import { redisFailure } from "./cluster/redis-failure.ts";
import { redisUrl, UsageError } from "@deltaloop/base";

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
    .addOption(
      new Option("--redis <url>", "where the cache is").env("DELTALOOP_REDIS_URL").argParser(redisUrl("--redis")).makeOptionMandatory(),
    )
    .option("--redis-cluster", "it is a Redis Cluster")
    .requiredOption("--deployment <name>", "DELTALOOP_DEPLOYMENT of the functions")
    .requiredOption("--cluster <cid>", "DELTALOOP_CLUSTER of the functions")
    .option("--resign", "sign anew what a former key has signed, and take away entries without their row")
    .action(runKeys);
}

async function runKeys(flags: KeysFlags): Promise<void> {
  let lost: Error | undefined;
  const { store } = openCache(
    {
      deployment: flags.deployment,
      cluster: flags.cluster,
      macKeys: parseMacKeys(process.env),
      // Of the gate, which is not asked here.
      digestKey: "not used",
    },
    redisStore({ url: flags.redis, cluster: flags.redisCluster === true }, (error) => (lost = error)),
  );
  try {
    const epoch = await store.epoch().catch((error: unknown) => {
      throw redisFailure("--redis", flags.redis, lost ?? error);
    });
    if (epoch === undefined) throw new UsageError(`there is no cache of ${flags.deployment}, cluster ${flags.cluster}`);
    const uses = await keyUses(store, flags.resign === true);
    for (const [resource, use] of uses) process.stdout.write(`${describeUse(resource, use)}\n`);
    if (!uses.every(([, use]) => isClean(use))) process.exitCode = EXIT_OTHERS_LEFT;
  } finally {
    await store.close();
  }
}
