/** The only module that calls ioredis. */
import { Cluster } from "ioredis";
import type { Redis } from "ioredis";
import { oneWritePerTurn } from "./one-write.ts";
import { requireVersion } from "./server.ts";
import { SCRIPTS } from "./scripts/load.ts";
import { PACKED } from "./scripts/layouts.ts";
import type { ScriptName } from "./scripts/layouts.ts";

/** A RESP2 reply: an integer, text, nil, or a list of these. */
export type Reply = number | string | null | readonly Reply[];

/**
 * Every access is a script, including reads: during a slot migration Redis rejects a script whose keys are not all on one node (TRYAGAIN),
 * whereas single reads would miss part of the keys.
 */
export interface Connection {
  /** Runs one script: one command, one step. Uses EVALSHA, or EVAL if the server does not have the script. */
  run(script: ScriptName, keys: readonly string[], args: readonly string[]): Promise<Reply>;
  /** Returns fields of one hash; missing fields are null. */
  fields(key: string, fields: readonly string[]): Promise<readonly (string | null)[]>;
  /** WAIT: the number of replicas that have this connection's earlier writes, after `timeoutMs` at the latest. */
  replicated(replicas: number, timeoutMs: number): Promise<number>;
  /** In a cluster, slots move, so a different primary does not mean a failover. */
  readonly isCluster: boolean;
}

type Command = (numberOfKeys: number, keys: readonly string[], args: readonly string[]) => Promise<Reply>;

/** ElastiCache Serverless refuses a request with more arguments. Source: AWS, Amazon ElastiCache, Valkey and Redis OSS configuration. */
export const ARGUMENTS_MAX = 3_999;

/** Prefix of the custom commands, which are defined on the client in addition to Redis' commands. */
const PREFIX = "deltaloop:";

/** The scripts' texts, by their parts: they take half a MiB, so the clients of a process share them. */
const texts = new WeakMap<readonly [string, ...string[]], string>();

/** The text of a script, whose SHA-1 names it in EVALSHA. */
export function scriptText(script: ScriptName): string {
  return textOf(SCRIPTS[script]);
}

function textOf(parts: readonly [string, ...string[]]): string {
  const text = texts.get(parts) ?? chunk(parts);
  texts.set(parts, text);
  return text;
}

/** Several Stores may share a client, whose commands are then defined once. */
const connections = new WeakMap<Redis | Cluster, Connection>();

export function connect(client: Redis | Cluster): Connection {
  const known = connections.get(client);
  if (known) return known;
  const connection = connectionOf(client);
  connections.set(client, connection);
  return connection;
}

function connectionOf(client: Redis | Cluster): Connection {
  for (const [name, parts] of Object.entries(SCRIPTS)) client.defineCommand(PREFIX + name, { lua: textOf(parts) });
  // ioredis adds the commands at run time, and flattens arrays among their arguments.
  const commands = client as unknown as Readonly<Record<string, Command>>;
  const beforeCommand = oneWritePerTurn(client);
  let checking: Promise<void> | undefined;
  let isChecked = false;
  /** Checks the server once per connection. After a failed check, the next call checks again. */
  const check = async (): Promise<void> => {
    try {
      await (checking ??= requireVersion(client));
      isChecked = true;
    } catch (error) {
      checking = undefined;
      throw error;
    }
  };
  /** Sends the check just before the first command, so that it costs no extra round trip. If the check fails, its error is thrown. */
  const checked = async <T>(call: () => Promise<T>): Promise<T> => {
    if (isChecked) return await call();
    const [, answer] = await Promise.all([check(), call()]);
    return answer;
  };
  return {
    async run(script, keys, args) {
      const command = commands[PREFIX + script];
      if (!command) throw new Error(`script ${script} is not defined`);
      beforeCommand();
      return await checked(() => command.call(client, keys.length, keys, sentAs(keys, args)));
    },
    fields: (key, fields) => checked(() => client.hmget(key, ...fields)),
    replicated: (replicas, timeoutMs) => client.wait(replicas, timeoutMs),
    isCluster: client instanceof Cluster,
  };
}

/**
 * Returns the arguments as sent: as one JSON text if there are too many for ElastiCache Serverless. A request also has its command, the
 * script and the number of keys.
 */
function sentAs(keys: readonly string[], args: readonly string[]): readonly string[] {
  return 3 + keys.length + args.length <= ARGUMENTS_MAX ? args : [PACKED, JSON.stringify(args)];
}

/**
 * Wraps all parts but the first in a function, so that the locals of the first part are upvalues of it. Lua would otherwise search all
 * locals for every function it creates (3 of 12 µs of a call's overhead).
 */
function chunk([base, ...rest]: readonly [string, ...string[]]): string {
  return `${base}\nreturn (function()\n${rest.join("\n")}\nend)()`;
}

/** Returns the reply as a list. @throws {TypeError} if the reply is not of the type that the script's head declares, which is a bug */
export function asList(reply: Reply | undefined): readonly Reply[] {
  if (!Array.isArray(reply)) throw new TypeError(`not a list: ${JSON.stringify(reply)}`);
  return reply as readonly Reply[]; // Array.isArray does not narrow readonly arrays
}

export function asText(reply: Reply | undefined): string {
  if (typeof reply !== "string") throw new TypeError(`not a text: ${JSON.stringify(reply)}`);
  return reply;
}

export function asNumber(reply: Reply | undefined): number {
  if (typeof reply !== "number") throw new TypeError(`not a number: ${JSON.stringify(reply)}`);
  return reply;
}

/** A list of texts from HGETALL, as pairs. */
export function asPairs(reply: Reply | undefined): readonly (readonly [field: string, value: string])[] {
  const flat = asList(reply);
  const pairs: (readonly [string, string])[] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) pairs.push([asText(flat[i]), asText(flat[i + 1])]);
  return pairs;
}
