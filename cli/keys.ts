/**
 * `deltaloop keys`: which MAC keys the cache is signed with, and, with `--resign`, what a former key has signed signed anew. A step of
 * the rotation in docs/security.md. The keys come from the environment and are never printed.
 */
import type { Command } from "commander";
import { CACHED_RESOURCES } from "../shared/api/resources.ts";
import type { CachedResource } from "../shared/api/resources.ts";
import { parseMacKeys } from "../shared/lambda/configuration.ts";
import { openCache, redisStore } from "../shared/lambda/connect.ts";
import type { KeyStore, KeyUse } from "../shared/ports/store.ts";
import { UsageError } from "./support/usage-error.ts";

interface KeysFlags {
  readonly redis: string;
  readonly redisCluster?: true;
  readonly deployment: string;
  readonly cluster: string;
  readonly resign?: true;
}

const EXIT_OTHERS_LEFT = 1;
/** What changes while it is replaced is left for the next round; those who write use the current key by then. */
const ROUNDS_MAX = 3;

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
    for (const [resource, use] of uses) process.stdout.write(describeUse(resource, use));
    if (!uses.every(([, use]) => isClean(use))) process.exitCode = EXIT_OTHERS_LEFT;
  } finally {
    await store.close();
  }
}

/** As it is at the end. */
async function keyUses(store: KeyStore, resign: boolean): Promise<readonly (readonly [CachedResource, KeyUse])[]> {
  const uses: (readonly [CachedResource, KeyUse])[] = [];
  for (const resource of CACHED_RESOURCES) {
    let use = await store.keyUse(resource, resign);
    for (let round = 0; resign && round < ROUNDS_MAX && use.former + use.ghosts > 0; round++) use = await store.keyUse(resource, true);
    uses.push([resource, use]);
  }
  return uses;
}

function isClean({ former, foreign, ghosts, hidden }: KeyUse): boolean {
  return former + foreign + ghosts + hidden === 0;
}

function describeUse(resource: CachedResource, { current, former, foreign, ghosts, hidden }: KeyUse): string {
  const others = [
    `${former} with a former key`,
    `${foreign} with none that is accepted`,
    ...(ghosts > 0 ? [`${ghosts} entries without their row`] : []),
    ...(hidden > 0 ? [`${hidden} rows without their entry`] : []),
  ];
  return `${resource}: ${current} signed with the current key, ${others.join(", ")}\n`;
}
