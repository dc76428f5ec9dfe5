/**
 * `deltaloop keys`: reports which MAC keys signed the cache; `--resign` re-signs data of former keys. A step of the rotation in
 * docs/internals/threat-model.md. Configured like the watcher; no key is printed.
 */
import type { Command } from "commander";
import { withDetails } from "./command/help.ts";
import { addOutputOption, objectText } from "./output/output-option.ts";
import type { OutputFormat } from "./output/output-option.ts";
import { openCache, redisStore } from "@deltaloop/controllers/lambda";
import { readConfiguration } from "@deltaloop/local/processes";
import { environmentOption, watchersEnvironment } from "./cluster/environment-file.ts";
import { describeUse, isClean, keyUses } from "./cluster/key-uses.ts";
import { redisFailure } from "./cluster/redis-failure.ts";
import { UsageError } from "@deltaloop/base";

interface KeysFlags {
  readonly env?: string;
  readonly resign?: true;
  readonly output?: OutputFormat;
}

const EXIT_OTHERS_LEFT = 1;

export function registerKeys(program: Command): void {
  const command = program
    .command("keys")
    .description("Shows which MAC keys the cache is signed with.")
    .addOption(environmentOption())
    .option("--resign", "re-sign cached data that a former key signed, and remove index entries without a row");
  withDetails(addOutputOption(command, "one object per resource").action(runKeys), {
    notes: ["Reads the keys from DELTALOOP_MAC_KEY=NEW,OLD and prints none. Exits with 1 unless everything is signed with the first key."],
    examples: ["keys --env prod.env", "keys --env prod.env --resign"],
  });
}

async function runKeys(flags: KeysFlags): Promise<void> {
  const { current } = await readConfiguration(watchersEnvironment(flags).variables);
  const { deployment, cluster, redis } = current;
  let lost: Error | undefined;
  const { store } = openCache(
    current,
    redisStore(redis, (error) => (lost = error)),
  );
  try {
    const epoch = await store.epoch().catch((error: unknown) => {
      throw redisFailure("DELTALOOP_REDIS_URL", redis.url, lost ?? error);
    });
    if (epoch === undefined) throw new UsageError(`there is no cache of ${deployment}, cluster ${cluster}`);
    const uses = await keyUses(store, flags.resign === true);
    for (const [resource, use] of uses)
      process.stdout.write(flags.output ? objectText({ resource, ...use }, flags.output) : `${describeUse(resource, use)}\n`);
    if (!uses.every(([, use]) => isClean(use))) process.exitCode = EXIT_OTHERS_LEFT;
  } finally {
    await store.close();
  }
}
