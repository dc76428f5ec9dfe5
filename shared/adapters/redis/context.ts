/** What the verbs of one Store share: connection, names, time, and what they believe about lanes and the current epoch. */
import type { Cluster, Redis } from "ioredis";
import { LANES } from "../../api/lane.ts";
import { CACHED_RESOURCES } from "../../api/resources.ts";
import type { CachedResource } from "../../api/resources.ts";
import type { Signer } from "../../api/signer.ts";
import type { StoreOptions } from "../store-options.ts";
import { asList, asNumber, asText, connect } from "./connection.ts";
import type { Connection, Reply } from "./connection.ts";
import { createBarrier } from "./durable.ts";
import type { Durability } from "./durable.ts";
import { deploymentKeys } from "./keys.ts";
import type { DeploymentKeys, EpochKeys, KeyTable } from "./keys.ts";
import type { Seal } from "./rows.ts";
import type { ScriptName } from "./scripts/load.ts";

/** Beliefs are wrong at most once after each change of epoch; more than this many changes in a row are none. */
const BELIEF_ROUNDS_MAX = 8;

/** Of Redis, unlike of our own memory, others may write. */
export interface RedisStoreOptions extends StoreOptions {
  /** Signs what is stored and tells what somebody else stored (A14). */
  readonly signer: Signer;
  /** Default `C`. */
  readonly durability?: Durability;
}

/** What a script is called with. */
export interface Call {
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

export interface Context {
  readonly options: RedisStoreOptions;
  readonly names: DeploymentKeys;
  readonly connection: Connection;
  /** Resolves once what was written before survives a failover, as far as the durability class promises it. */
  durable(): Promise<void>;
  /** Who signs in an epoch. */
  seal(epoch: string): Seal;
  /** ARGV[1]: ms of the clock, or empty for the server's own. */
  now(): string;
  /** Number of lanes; scripts that depend on it check it and answer `lanes` when it is another. */
  lanes(resource: CachedResource): number;
  /** Runs a script, again with the right keys when it answers `lanes`. */
  run(script: ScriptName, call: () => Call): Promise<Reply>;
  /** Runs a script in the current epoch, for verbs that name none; undefined without an epoch. */
  runInCurrentEpoch(
    script: ScriptName,
    call: (names: EpochKeys) => Call,
  ): Promise<{ readonly names: EpochKeys; readonly reply: readonly Reply[] } | undefined>;
}

export function createContext(client: Redis | Cluster, options: RedisStoreOptions): Context {
  const { clock } = options;
  const names = deploymentKeys(options.deployment, options.cluster);
  const connection = connect(client);
  const lanes: Record<CachedResource, number> = { ...LANES };
  let current: string | undefined;
  const run = async (script: ScriptName, call: () => Call): Promise<Reply> => {
    for (let round = 0; round < BELIEF_ROUNDS_MAX; round++) {
      const { keys, args } = call();
      const reply = await connection.run(script, keys, args);
      if (!Array.isArray(reply) || reply[0] !== "lanes") return reply;
      const resource = CACHED_RESOURCES.find((each) => each === reply[1]);
      if (!resource) throw new TypeError(`lanes of ${JSON.stringify(reply[1])}`);
      lanes[resource] = asNumber(reply[2] as Reply);
    }
    throw new Error(`${script}: the number of lanes changes with every call`);
  };
  return {
    options,
    names,
    connection,
    durable: createBarrier(connection, options.durability ?? "C"),
    seal: (epoch) => ({ signer: options.signer, epoch }),
    now: () => (clock ? String(clock.now()) : ""),
    lanes: (resource) => lanes[resource],
    run,
    async runInCurrentEpoch(script, call) {
      for (let round = 0; round < BELIEF_ROUNDS_MAX; round++) {
        current ??= (await connection.fields(names.epoch, ["epoch"]))[0] ?? undefined;
        if (current === undefined) return undefined;
        const inEpoch = names.of(current);
        const reply = asList(await run(script, () => call(inEpoch)));
        if (reply[0] !== "otherEpoch") return { names: inEpoch, reply };
        current = asText(reply[1]) || undefined;
        if (current === undefined) return undefined;
      }
      throw new Error(`${script}: the epoch changes with every call`);
    },
  };
}

/** The ARGV block of the gate (scripts/lib/gate.lua) for `resources`. */
export function gateArgs(context: Context, names: EpochKeys, table: KeyTable, resources: readonly CachedResource[]): readonly string[] {
  const { identity, holeLimitMs, ignoresStop = false } = context.options;
  const args = [String(resources.length)];
  for (const resource of resources) {
    const lanes = context.lanes(resource);
    const l = Array.from({ length: lanes }, (_, lane) => names.lane(resource, lane)[0]);
    args.push(resource, String(table.slot(names.meta(resource))), String(table.block(l)), String(lanes));
  }
  args.push(String(holeLimitMs), String(identity.projection), identity.digestPrefix, identity.hashLayout);
  args.push(ignoresStop ? "0" : String(table.slot(context.names.guard)));
  return args;
}
