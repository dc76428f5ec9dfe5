/**
 * `deltaloop keys`: which MAC keys the cache is signed with, and, with `--resign`, what a former key has signed, signed again. A step of
 * the rotation in docs/internals/threat-model.md. The keys come from the environment and are never printed.
 */
import { Option } from "commander";
import type { Command } from "commander";
import { withDetails } from "./command/help.ts";
import { addOutputOption, objectText } from "./output/output-option.ts";
import type { OutputFormat } from "./output/output-option.ts";
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
  readonly output?: OutputFormat;
}

const EXIT_OTHERS_LEFT = 1;

export function registerKeys(program: Command): void {
  const command = program
    .command("keys")
    .description("Shows which MAC keys the cache is signed with.")
    .requiredOption("--deployment <name>", "DELTALOOP_DEPLOYMENT of the functions")
    .requiredOption("--cluster <cid>", "DELTALOOP_CLUSTER of the functions")
    .option("--resign", "sign again what a former key has signed, and remove entries without their row")
    .addOption(
      new Option("--redis <url>", "Redis of the cache").env("DELTALOOP_REDIS_URL").argParser(redisUrl("--redis")).makeOptionMandatory(),
    )
    .option("--redis-cluster", "the Redis is a Redis Cluster");
  withDetails(addOutputOption(command, "one object per resource").action(runKeys), {
    notes: ["Reads the keys from DELTALOOP_MAC_KEY=NEW,OLD and prints none. Exits with 1 unless everything is signed with the first key."],
    examples: ["keys --deployment prod --cluster 0123456789ab", "keys --deployment prod --cluster 0123456789ab --resign"],
  });
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
    for (const [resource, use] of uses)
      process.stdout.write(flags.output ? objectText({ resource, ...use }, flags.output) : `${describeUse(resource, use)}\n`);
    if (!uses.every(([, use]) => isClean(use))) process.exitCode = EXIT_OTHERS_LEFT;
  } finally {
    await store.close();
  }
}
