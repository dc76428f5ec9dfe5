/**
 * State shared by the methods of one Store: connection, key names, time, and the last known number of lanes and current epoch, which
 * scripts verify.
 */
import type { Cluster, Redis } from "ioredis";
import { lanesOf } from "../lane.ts";
import { BUILT_IN, infoIn } from "@deltaloop/kube/objects";
import type { Catalog, View, ControllerName } from "@deltaloop/kube/objects";
import type { Signer } from "../signer.ts";
import type { StoreOptions } from "../store-options.ts";
import { asList, asNumber, asText, connect } from "./connection.ts";
import type { Connection, Reply } from "./connection.ts";
import { createBarrier } from "./durable.ts";
import type { Durability } from "./durable.ts";
import { deploymentKeys, KeyTable } from "./keys.ts";
import type { Call, DeploymentKeys, EpochKeys } from "./keys.ts";
import type { Seal } from "./rows.ts";
import type { ArgsOf, GateArgs, KeysOf, ScriptName } from "./scripts/layouts.ts";

/**
 * Attempts of a call whose last known epoch or number of lanes is outdated. Each change of epoch causes one attempt; more in a row are a
 * bug.
 */
const BELIEF_ROUNDS_MAX = 8;

/** Options specific to Redis, where other clients may write. */
export interface RedisStoreOptions extends StoreOptions {
  /** Signs stored values and detects forged ones (A14). */
  readonly signer: Signer;
  /** Default `C`. */
  readonly durability?: Durability;
}

export interface Context {
  readonly options: RedisStoreOptions;
  readonly catalog: Catalog;
  readonly names: DeploymentKeys;
  readonly connection: Connection;
  /** Resolves once earlier writes survive a failover, as far as the durability class guarantees it. */
  durable(): Promise<void>;
  /** The signer of an epoch. */
  seal(epoch: string): Seal;
  /** The last known number of lanes. A script that depends on it returns `lanes` if the epoch has another number. */
  lanes(resource: View): number;
  /** Remembers the number of lanes of a resource. */
  believe(resource: View, lanes: number): void;
  /** KEYS of a script, from which its call is built. */
  keys<S extends ScriptName>(script: S, keys: KeysOf<S>): KeyTable<S>;
  /** Runs a script: one command, one step. */
  run(call: Call): Promise<Reply>;
  /** Runs a script; if it returns `lanes`, runs it again with the right keys. */
  runByLanes(call: () => Call): Promise<{ readonly reply: Reply; readonly keys: readonly string[] }>;
  /** Runs a script in the current epoch, for methods without an epoch argument; undefined without an epoch. */
  runInCurrentEpoch(call: (names: EpochKeys) => Call): Promise<{ readonly names: EpochKeys; readonly reply: readonly Reply[] } | undefined>;
}

export function createContext(client: Redis | Cluster, options: RedisStoreOptions): Context {
  const { catalog = BUILT_IN, clock } = options;
  const names = deploymentKeys(options.deployment, options.cluster);
  const connection = connect(client);
  const lanes = new Map<View, number>();
  let current: string | undefined;
  const run = (call: Call): Promise<Reply> => connection.run(call.script, call.keys, [clock ? String(clock.now()) : "", ...call.args]);
  const believe = (name: Reply | undefined, number: number): void => {
    const resource = catalog.views.find((each) => each === name);
    if (!resource) throw new TypeError(`unexpected reply: lanes of ${JSON.stringify(name)}`);
    lanes.set(resource, number);
  };
  const runByLanes: Context["runByLanes"] = async (make) => {
    for (let round = 0; ; round++) {
      const call = make();
      const reply = await run(call);
      if (!Array.isArray(reply) || reply[0] !== "lanes") return { reply, keys: call.keys };
      if (round === BELIEF_ROUNDS_MAX)
        throw new Error(`${call.script}: gave up after ${round + 1} attempts: the number of lanes kept changing`);
      for (let at = 1; at < reply.length; at += 2) believe(reply[at], asNumber(reply[at + 1] as Reply));
    }
  };
  return {
    options,
    catalog,
    names,
    connection,
    durable: createBarrier(connection, options.durability ?? "C"),
    seal: (epoch) => ({ signer: options.signer, epoch, rowTexts: catalog.rowTexts }),
    believe,
    lanes: (resource) => lanes.get(resource) ?? lanesOf(resource),
    keys: (script, keys) => new KeyTable(script, names.epoch, keys),
    run,
    runByLanes,
    async runInCurrentEpoch(call) {
      for (let round = 0; round < BELIEF_ROUNDS_MAX; round++) {
        current ??= (await connection.fields(names.epoch, ["epoch"]))[0] ?? undefined;
        if (current === undefined) return undefined;
        const inEpoch = names.of(current);
        const reply = asList((await runByLanes(() => call(inEpoch))).reply);
        if (reply[0] !== "otherEpoch") return { names: inEpoch, reply };
        current = asText(reply[1]) || undefined;
        if (current === undefined) return undefined;
      }
      throw new Error(`gave up after ${BELIEF_ROUNDS_MAX} attempts: the epoch kept changing`);
    },
  };
}

/** Arguments of the gate (scripts/lib/gate.lua) for `resources`. */
export function gateArgs(context: Context, names: EpochKeys, table: KeyTable, resources: readonly View[]): GateArgs {
  const { identity, holeLimitMs, releases = [], ignoresStop = false } = context.options;
  return {
    holeLimitMs,
    projection: String(identity.projection),
    digestPrefix: identity.digestPrefix,
    hashLayout: identity.hashLayout,
    releases: releases.join(", "),
    gate: resources.map((resource) => {
      const lanes = context.lanes(resource);
      return { resource, metaSlot: table.slot(names.meta(resource)), lanesBase: table.block(firstOfLanes(names, resource, lanes)), lanes };
    }),
    openedSlot: table.slot(context.names.opened),
    stopSlot: ignoresStop ? 0 : table.slot(context.names.stop),
  };
}

/** Arguments for controllers and the resources that each reads. */
export function readerArgs(
  { catalog }: Context,
  names: EpochKeys,
  table: KeyTable,
  controllers: readonly ControllerName[],
): Pick<ArgsOf<"sweep">, "readers"> {
  return {
    readers: controllers.map((controller) => ({
      queueBase: table.block(names.queue(controller)),
      resources: infoIn(catalog, controller).reads.join(","),
    })),
  };
}

/** The key of the state hash (`l`) of each lane. */
export function firstOfLanes(names: EpochKeys, resource: View, lanes: number): readonly string[] {
  return Array.from({ length: lanes }, (_, lane) => names.laneState(resource, lane));
}
