/**
 * The Redis permissions of each function: one ACL user per function, like its role. The watcher and operators share a user with all permissions.
 * Informer §11.1 describes the keys.
 *
 * RA1 a script runs with its caller's permissions, command by command. EVALSHA itself requires write access to all of its KEYS, so a separate
 *     selector allows it and nothing else. Needs Redis 7 or Valkey.
 * RA2 all users may write `ep`, because scripts use a write to it without effect to detect a full store (informer §11.10).
 */
import type { Store } from "@deltaloop/store/ports";
import { functionsOf } from "./functions.ts";
import type { FunctionEntry } from "./functions.ts";
import type { Registry } from "./cache-of.ts";

export interface RedisAccess {
  readonly name: string;
  /** The methods of the Store that it calls. */
  readonly methods: readonly (keyof Store)[];
  /** The controller whose keys it syncs. If absent, it syncs no keys, and its permissions cover all controllers. */
  readonly controllers: readonly string[] | undefined;
  /** ACL rules. `deployment`: first part of the keys. */
  readonly rules: (deployment: string) => string;
}

interface Rights {
  readonly methods: readonly (keyof Store)[];
  readonly commands: string;
  /** Kinds of keys; `ev` and `rl` only those of its own controllers. */
  readonly writes: string;
  readonly reads: string;
}

const WAKES = "b q u f p z";
const ROWS = "s v n k i m";
const RIGHTS: Readonly<Record<"apply-deltas" | "dead-deltas" | "sync" | "sweep", Rights>> = {
  "apply-deltas": {
    methods: [
      ...(["applyPack", "applyManifest", "stashManifest", "readManifest", "readIndex", "readLane", "readSlices", "readEntries"] as const),
      ...(["writeThrough", "markSuspect", "quarantine", "noteForgery", "gate", "epoch", "lineage"] as const),
    ],
    commands:
      "del exists get hdel hexists hget hgetall hincrby hkeys hlen hmget hset hsetnx ltrim rpush sadd set smembers srem zadd zmscore zrange zrangebyscore zremrangebyrank zscore",
    writes: `ep forged tally quar l h t mp need rl ${WAKES} ${ROWS}`,
    reads: "guard opened",
  },
  "dead-deltas": {
    methods: ["markSuspect", "quarantine", "noteForgery"],
    commands: "hdel hget hincrby hmget hset hsetnx ltrim rpush",
    writes: "ep forged tally quar m",
    reads: "",
  },
  sync: {
    methods: [
      ...(["take", "renew", "done", "add", "registerIntents", "writeThrough", "readIndex", "readSlices", "readEntries"] as const),
      ...(["correlateEvents", "markSuspect", "noteForgery", "gate", "epoch", "lineage"] as const),
    ],
    commands:
      "del exists get hdel hexists hget hgetall hincrby hlen hmget hset hsetnx ltrim pexpire rpush sadd set smembers srem zadd zcard zmscore zpopmin zrem zscore",
    writes: `ep forged rl ev ${WAKES} ${ROWS}`,
    reads: "guard opened l t",
  },
  sweep: {
    methods: ["sweep", "gate", "epoch"],
    commands: "get hdel hget hgetall hlen hmget hset hsetnx zadd zrangebyscore zscore",
    writes: "ep b q",
    reads: "guard opened l m p u",
  },
};

/** Keys that belong to no epoch. */
const LASTING = ["ep", "forged", "guard", "opened", "tally"];
/** Keys that exist once per epoch. */
const SINGLE = ["quar"];
/** Commands, other than scripts, that every client needs. */
const CLIENT = "+@connection -@dangerous +info +time +wait +cluster|slots +cluster|shards +cluster|nodes";

/** Returns the access of each function, in the order of functionsOf. */
export function redisAccessOf(registry: Registry): readonly RedisAccess[] {
  return functionsOf(registry).map((entry) => {
    const { methods, commands, writes, reads } = rightsOf(entry);
    const { followUps = [] } = registry.controllers.find(({ name }) => name === entry.controller) ?? {};
    const own = entry.controller === undefined ? undefined : [entry.controller, ...followUps];
    const patterns = (prefix: string, kinds: string, deployment: string): readonly string[] =>
      words(kinds).flatMap((kind) => keysOf(kind, own ?? ["*"]).map((key) => `${prefix}dl:${deployment}:{*}:${key}`));
    return {
      name: entry.name,
      methods,
      controllers: own,
      rules: (deployment) =>
        [
          ...["on", "resetchannels", "-@all", CLIENT, ...words(commands).map((command) => `+${command}`)],
          ...patterns("~", writes, deployment),
          ...patterns("%R~", reads, deployment),
          `(+evalsha +eval +script|load ~dl:${deployment}:*)`,
        ].join(" "),
    };
  });
}

/** @throws {TypeError} for a function without permissions: a bug in the table */
function rightsOf({ name, controller }: FunctionEntry): Rights {
  const rights = Object.entries(RIGHTS).find(([key]) => key === (controller === undefined ? name : "sync"))?.[1];
  if (rights === undefined) throw new TypeError(`function ${name} has no permissions in Redis`);
  return rights;
}

function keysOf(kind: string, controllers: readonly string[]): readonly string[] {
  if (kind === "rl") return controllers.map((name) => `rl:${name}`);
  if (kind === "ev") return controllers.map((name) => `ev:${name}:*`);
  if (LASTING.includes(kind)) return [kind];
  return SINGLE.includes(kind) ? [`*:${kind}`] : [`*:${kind}:*`];
}

function words(text: string): readonly string[] {
  return text.split(" ").filter((word) => word !== "");
}
