/**
 * Checks that a Redis accepts every command that the Store uses, before anything depends on it. A managed service may refuse some.
 *
 * RQ1 each command of the scripts is called from a script, since a server may allow it alone and refuse it there.
 * RQ2 only keys with this probe's own hash tag are written, and they are removed afterwards.
 * RQ3 an answer is a fact about this server and this user: a Redis Cluster that passes does not prove that another service will.
 */
import { createHash, randomBytes } from "node:crypto";
import type { Cluster, Redis } from "ioredis";

import { redisClient } from "../client.ts";
import { ARGUMENTS_MAX } from "../connection.ts";
import type { Durability } from "../durable.ts";
import { evictionProblem, serverFacts, versionProblem } from "../server.ts";

export interface CommandFinding {
  readonly state: "ok" | "warning" | "failure";
  /** The commands or the property. */
  readonly what: string;
  readonly seen: string;
}

/** Every command that a script calls, with arguments for a probe key; in this order, each finds what the ones before have written. */
export const SCRIPT_COMMANDS: readonly (readonly [command: string, ...args: readonly string[]])[] = [
  ["SET", "1"],
  ["GET"],
  ["EXISTS"],
  ["PEXPIRE", "60000"],
  ["DEL"],
  ["HSET", "f", "1"],
  ["HSETNX", "g", "1"],
  ["HINCRBY", "f", "1"],
  ["HGET", "f"],
  ["HMGET", "f", "g"],
  ["HGETALL"],
  ["HKEYS"],
  ["HLEN"],
  ["HEXISTS", "f"],
  ["HDEL", "f", "g"],
  ["SADD", "m"],
  ["SMEMBERS"],
  ["SREM", "m"],
  ["ZADD", "LT", "1", "a"],
  ["ZADD", "2", "b"],
  ["ZSCORE", "a"],
  ["ZMSCORE", "a", "b"],
  ["ZCARD"],
  ["ZRANGE", "0", "-1"],
  ["ZRANGEBYSCORE", "-inf", "+inf", "LIMIT", "0", "1"],
  ["ZREMRANGEBYRANK", "0", "0"],
  ["ZPOPMIN"],
  ["ZREM", "a"],
  ["RPUSH", "x"],
  ["LRANGE", "0", "-1"],
  ["LTRIM", "0", "0"],
  ["UNLINK"],
];

/** The scripts call these without a key of their own. */
export const KEYLESS_COMMANDS: readonly (readonly [command: string, ...args: readonly string[]])[] = [
  ["TIME"],
  ["INFO", "replication"],
  ["INFO", "stats"],
  ["SCAN", "0", "MATCH", "dl:probe:*", "COUNT", "1"],
];

/** Key types of SCRIPT_COMMANDS by their first letter, since a key has one type. */
const TYPES: Readonly<Record<string, string>> = { H: "hash", S: "set", Z: "zset", R: "list", L: "list" };
const STRINGS: ReadonlySet<string> = new Set(["SET", "GET", "EXISTS", "PEXPIRE", "DEL", "UNLINK"]);
const CALL = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";
const CALL_KEYLESS = "return redis.call(unpack(ARGV))";
const WAIT_MS = 100;

/** Probes a server. @throws {Error} if it cannot connect */
export async function probeCommands(redis: Parameters<typeof redisClient>[0], durability: Durability): Promise<readonly CommandFinding[]> {
  const client = redisClient(redis).on("error", () => undefined); // the first call rejects if the connection fails
  const tag = `dl:probe:{${randomBytes(8).toString("hex")}}`;
  const keyOf = (command: string): string => `${tag}:${STRINGS.has(command) ? "string" : (TYPES[command.slice(0, 1)] ?? "string")}`;
  try {
    const info = await client.info().catch((error: unknown) => (isRefusal(error) ? undefined : Promise.reject(error)));
    return [
      ...serverFindings(info, durability, redis.cluster),
      await scriptsFinding(client, `${tag}:string`),
      await commandsFinding(client, keyOf),
      await waitFinding(client, durability, redis.cluster),
      await argumentsFinding(client, `${tag}:string`),
      await configFinding(client),
    ];
  } finally {
    const keys = ["string", "hash", "set", "zset", "list"].map((type) => `${tag}:${type}`);
    await client.del(...keys).catch(() => undefined);
    client.disconnect();
  }
}

function serverFindings(info: string | undefined, durability: Durability, isCluster: boolean): readonly CommandFinding[] {
  if (info === undefined) return [{ state: "failure", what: "INFO", seen: "refused: a failover and a full store could not be noticed" }];
  const { version, role, policy, replicas } = serverFacts(info);
  const eviction = evictionProblem(info);
  const old = versionProblem(version);
  return [
    { state: old === undefined ? "ok" : "failure", what: "version", seen: old ?? version ?? "not reported" },
    eviction === undefined
      ? { state: "ok", what: "maxmemory-policy", seen: policy ?? "not reported" }
      : { state: "failure", what: "maxmemory-policy", seen: eviction },
    role === undefined
      ? { state: "warning", what: "INFO replication", seen: "reports no role: a failover is noticed only by the checkpoint's number" }
      : { state: "ok", what: "INFO replication", seen: `${role}, ${replicas} replicas` },
    durability === "B" && isCluster
      ? { state: "failure", what: "durability", seen: "class B is refused on a Redis Cluster: WAIT belongs to one connection" }
      : { state: "ok", what: "durability", seen: `class ${durability}` },
  ];
}

async function scriptsFinding(client: Redis | Cluster, key: string): Promise<CommandFinding> {
  const what = "EVALSHA, EVAL, SCRIPT LOAD";
  const unique = `${CALL} -- ${key}`;
  const sha = createHash("sha1").update(unique).digest("hex");
  try {
    // As ioredis does: EVALSHA first, and EVAL when the server does not have the script.
    const missing = await client.evalsha(sha, 1, key, "EXISTS").then(() => undefined, String);
    if (missing?.includes("NOSCRIPT") !== true) return { state: "failure", what, seen: missing ?? "an unknown script was found" };
    await client.eval(unique, 1, key, "EXISTS");
    await client.evalsha(sha, 1, key, "EXISTS");
    return { state: "ok", what, seen: "a script is kept" };
  } catch (error) {
    return { state: "failure", what, seen: String(error) };
  }
}

async function commandsFinding(client: Redis | Cluster, keyOf: (command: string) => string): Promise<CommandFinding> {
  const refused: string[] = [];
  for (const [command, ...args] of SCRIPT_COMMANDS)
    await client.eval(CALL, 1, keyOf(command), command, ...args).catch((error: unknown) => refused.push(`${command} (${reasonOf(error)})`));
  for (const [command, ...args] of KEYLESS_COMMANDS)
    await client
      .eval(CALL_KEYLESS, 1, keyOf("SET"), command, ...args)
      .catch((error: unknown) => refused.push(`${command} (${reasonOf(error)})`));
  const what = "commands in scripts";
  const all = new Set([...SCRIPT_COMMANDS, ...KEYLESS_COMMANDS].map(([command]) => command)).size;
  return refused.length === 0 ? { state: "ok", what, seen: `all ${all}` } : { state: "failure", what, seen: refused.join(", ") };
}

async function waitFinding(client: Redis | Cluster, durability: Durability, isCluster: boolean): Promise<CommandFinding> {
  const what = "WAIT";
  if (durability !== "B" || isCluster) return { state: "ok", what, seen: `not used in class ${durability}` };
  try {
    const replicas = await client.wait(1, WAIT_MS);
    return replicas > 0
      ? { state: "ok", what, seen: "a replica confirms writes" }
      : { state: "failure", what, seen: `no replica has confirmed within ${WAIT_MS} ms: in class B no message would count as applied` };
  } catch (error) {
    return { state: "failure", what, seen: String(error) };
  }
}

/** A request with as many arguments as any service accepts, and the Store sends at most. */
async function argumentsFinding(client: Redis | Cluster, key: string): Promise<CommandFinding> {
  const what = `${ARGUMENTS_MAX} arguments`;
  const fixed = ["EVAL", "", "1", key].length;
  try {
    const got = await client.eval("return #ARGV", 1, key, ...Array.from({ length: ARGUMENTS_MAX - fixed }, () => "x"));
    return { state: got === ARGUMENTS_MAX - fixed ? "ok" : "failure", what, seen: `${String(got)} reached a script` };
  } catch (error) {
    return { state: "failure", what, seen: String(error) };
  }
}

/** Nothing needs CONFIG; its answer tells an operator why a setting cannot be changed. */
async function configFinding(client: Redis | Cluster): Promise<CommandFinding> {
  const seen = await client.config("GET", "maxmemory-policy").then(
    () => "accepted",
    () => "refused",
  );
  return { state: "ok", what: "CONFIG", seen: `${seen}; not used` };
}

function isRefusal(error: unknown): boolean {
  return error instanceof Error && /^(?:NOPERM|ERR unknown command)/.test(error.message);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message.replace(/ script: .*$/s, "").slice(0, 120) : String(error);
}
