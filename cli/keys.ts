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
import { printable } from "@deltaloop/base/output";
import { liveOf } from "@deltaloop/controllers/clusters";
import type { Configuration } from "@deltaloop/controllers/configuration";
import { directoryConfiguration, openClusters } from "./clusters/open-clusters.ts";
import { clustersOf } from "./clusters/options.ts";

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
  const { variables } = watchersEnvironment(flags);
  const directory = clustersOf({}, variables);
  if (directory === undefined) {
    const { current } = await readConfiguration(variables);
    if (await reportKeys(current, flags)) return;
    throw new UsageError(`there is no cache of ${current.deployment}, cluster ${current.cluster}`);
  }
  const live = await directoryConfiguration(variables);
  const onProblem = (line: string): void => {
    process.stderr.write(`deltaloop: ${printable(line)}\n`);
    process.exitCode = EXIT_OTHERS_LEFT; // its cache may have a former key
  };
  for (const cluster of (await openClusters(directory, onProblem, live.current)).list())
    if (!(await reportKeys(liveOf(live, cluster).current, flags, cluster.name)))
      process.stderr.write(`deltaloop: ${cluster.name} has no cache\n`);
  process.stdout.write("", () => process.exit()); // the directory keeps connections open
}

/** Prints the keys of one cluster, whose name is given if it is listed. Returns whether it has a cache. */
async function reportKeys(current: Configuration, flags: KeysFlags, name?: string): Promise<boolean> {
  const { redis } = current;
  let lost: Error | undefined;
  const { store } = openCache(
    current,
    redisStore(redis, (error) => (lost = error)),
  );
  try {
    const epoch = await store.epoch().catch((error: unknown) => {
      throw redisFailure("DELTALOOP_REDIS_URL", redis.url, lost ?? error);
    });
    if (epoch === undefined) return false;
    const uses = await keyUses(store, flags.resign === true);
    for (const [resource, use] of uses) {
      const object = { ...(name !== undefined && { cluster: name }), resource, ...use };
      const text = `${name === undefined ? "" : `${name}: `}${describeUse(resource, use)}\n`;
      process.stdout.write(flags.output ? objectText(object, flags.output) : text);
    }
    if (!uses.every(([, use]) => isClean(use))) process.exitCode = EXIT_OTHERS_LEFT;
    return true;
  } finally {
    await store.close();
  }
}
