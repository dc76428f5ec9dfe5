/**
 * Real redis-servers for tests: own ports and directories, loopback only, no persistence. They end with this process: a
 * shell holds each one and ends it when its pipe from this process closes.
 */
import { spawn, spawnSync } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { Redis } from "ioredis";
import { messageOf } from "../../shared/kube/objects/errors.ts";
import { aptInstall } from "./apt.ts";

export interface RedisServer {
  readonly port: number;
  readonly url: string;
  readonly pid: number;
  /** Ends the server and removes its directory. */
  stop(): Promise<void>;
  /** Sends SIGKILL, as in a power failure; the directory stays until `stop`. */
  kill(): Promise<void>;
  /** Kills the server and starts it again at its port, with what its arguments made it save. */
  restart(): Promise<void>;
  /** Pauses the server (SIGSTOP) and resumes it (SIGCONT). */
  pause(): void;
  resume(): void;
}

export interface RedisCluster {
  readonly nodes: readonly RedisServer[];
  /** Moves a slot with all its keys, `batch` keys at a time with a pause between, as resharding does. @returns the number of keys. */
  moveSlot(slot: number, from: number, to: number, options?: { readonly batch?: number; readonly pauseMs?: number }): Promise<number>;
  /** The node that serves a slot. */
  ownerOf(slot: number): Promise<number>;
  stop(): Promise<void>;
}

const START_MS_MAX = 10_000;
const SLOTS = 16_384;
/** The cluster bus port is 10,000 above the client port. */
const BUS_OFFSET = 10_000;
const PORT_TRIES = 20;

/**
 * Ensures that `redis-server` is on the PATH; as root it installs Debian's package and reports that on stderr. @returns undefined, or the
 * reason why redis-server is unavailable, with which tests are skipped
 */
export function ensureRedisServer(): string | undefined {
  if (found()) return undefined;
  if (process.getuid?.() !== 0) return "redis-server is not on the PATH, and only root may install it (apt-get install redis-server)";
  process.stderr.write("redis-server is not on the PATH: installing Debian's package redis-server with apt-get\n");
  const why = aptInstall(["redis-server"], found);
  return why === undefined ? undefined : `apt-get install redis-server failed: ${why}`;
}

function found(): boolean {
  return spawnSync("redis-server", ["--version"]).status === 0;
}

/** Starts one server. @throws {Error} when it does not answer within 10 s. */
export function startRedis(...args: readonly string[]): Promise<RedisServer> {
  return start(args, 0);
}

/** Like `startRedis`, with the server as the last arguments of another command, such as `env NAME=VALUE`. */
export function startRedisBy(command: readonly string[]): Promise<RedisServer> {
  return start([], 0, command);
}

async function start(args: readonly string[], portOffset: number, command: readonly string[] = []): Promise<RedisServer> {
  const directory = await mkdtemp(join(tmpdir(), "deltaloop-redis-"));
  let problem = "";
  for (let attempt = 0; attempt < PORT_TRIES; attempt++) {
    const port = await freePort(portOffset);
    const place = ["--port", String(port), "--bind", "127.0.0.1", "--dir", directory];
    const server = [...command, "redis-server", ...place, "--save", "", "--appendonly", "no"];
    const options = ["--maxmemory-policy", "noeviction", "--daemonize", "no", "--loglevel", "warning", ...args];
    const run = (): Shell => {
      // $! is the server; `cat` exits when this end of the pipe closes, on request or because this process died.
      const script = '"$@" < /dev/null & echo "pid $!"; cat > /dev/null; kill -KILL $! 2> /dev/null; wait';
      const process = spawn("/bin/sh", ["-c", script, "sh", ...server, ...options], { stdio: ["pipe", "pipe", "pipe"] });
      return { process, output: collect(process) };
    };
    const shell = run();
    try {
      await ready(port, shell.process);
      return handle(port, run, shell, directory);
    } catch (error) {
      problem = `${messageOf(error)}: ${shell.output()}`;
      await end(shell.process);
    }
  }
  await rm(directory, { recursive: true, force: true });
  throw new Error(`redis-server did not start: ${problem}`);
}

interface Shell {
  readonly process: ChildProcess;
  readonly output: () => string;
}

function handle(port: number, run: () => Shell, first: Shell, directory: string): RedisServer {
  let shell = first;
  const pid = (): number => Number(/pid (\d+)/.exec(shell.output())?.[1]);
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    get pid() {
      return pid();
    },
    async stop() {
      await end(shell.process);
      await rm(directory, { recursive: true, force: true });
    },
    kill: () => end(shell.process),
    async restart() {
      await end(shell.process);
      shell = run();
      await ready(port, shell.process);
    },
    pause: () => void process.kill(pid(), "SIGSTOP"),
    resume: () => void process.kill(pid(), "SIGCONT"),
  };
}

/** Closes the pipe; the shell kills its server and ends. */
async function end(shell: ChildProcess): Promise<void> {
  if (shell.exitCode !== null || shell.signalCode !== null) return;
  const exited = new Promise((resolve) => shell.once("exit", resolve));
  shell.stdin?.end();
  await exited;
}

function collect(shell: ChildProcess): () => string {
  let text = "";
  const more = (chunk: Buffer): void => {
    if (text.length < 10_000) text += chunk.toString("utf8");
  };
  shell.stdout?.on("data", more);
  shell.stderr?.on("data", more);
  shell.stdin?.on("error", () => {}); // the shell may have exited already
  return () => text;
}

async function ready(port: number, shell: ChildProcess): Promise<void> {
  const until = performance.now() + START_MS_MAX;
  const client = new Redis({ port, host: "127.0.0.1", lazyConnect: true, retryStrategy: () => 20, maxRetriesPerRequest: null });
  client.on("error", () => {}); // connections are refused until the server listens
  try {
    for (;;) {
      if (shell.exitCode !== null) throw new Error("the shell ended");
      if (performance.now() > until) throw new Error(`no response within ${START_MS_MAX} ms`);
      const answer = await Promise.race([client.ping().catch(() => "no"), after(500, "no")]);
      if (answer === "PONG") return;
      await after(20);
    }
  } finally {
    client.disconnect();
  }
}

/** A free port whose port plus `offset` is free as well. */
async function freePort(offset: number): Promise<number> {
  for (let attempt = 0; attempt < PORT_TRIES; attempt++) {
    const port = await probe(0);
    if (port !== undefined && port + offset < 65_536 && (offset === 0 || (await probe(port + offset)) !== undefined)) return port;
  }
  throw new Error("no free port");
}

function probe(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen(port, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : undefined));
    });
  });
}

/** Starts `size` primaries that share the slots evenly, and waits until each of them calls the cluster ok. */
export async function startRedisCluster(size: number): Promise<RedisCluster> {
  const nodes = await Promise.all(
    Array.from({ length: size }, () =>
      start(
        [
          "--cluster-enabled",
          "yes",
          "--cluster-config-file",
          "nodes.conf",
          "--cluster-node-timeout",
          "2000",
          "--cluster-require-full-coverage",
          "no",
        ],
        BUS_OFFSET,
      ),
    ),
  );
  const admins = nodes.map((node) => new Redis({ port: node.port, host: "127.0.0.1" }));
  const admin = (node: number): Redis => {
    const client = admins[node];
    if (!client) throw new RangeError(`node ${node}`);
    return client;
  };
  const call = (node: number, ...args: readonly (string | number)[]): Promise<unknown> => admin(node).call("CLUSTER", ...args.map(String));
  for (let i = 0; i < size; i++) {
    await call(i, "SET-CONFIG-EPOCH", i + 1);
    await call(i, "ADDSLOTSRANGE", Math.floor((i * SLOTS) / size), Math.floor(((i + 1) * SLOTS) / size) - 1);
    if (i > 0) await call(i, "MEET", "127.0.0.1", nodes[0]?.port ?? 0);
  }
  const until = performance.now() + START_MS_MAX;
  for (let i = 0; i < size;) {
    const info = String(await call(i, "INFO"));
    if (info.includes("cluster_state:ok") && info.includes(`cluster_known_nodes:${size}`) && info.includes(`cluster_slots_ok:${SLOTS}`))
      i++;
    else if (performance.now() > until) throw new Error(`no cluster within ${START_MS_MAX} ms: ${info}`);
    else await after(50);
  }
  const ids = await Promise.all(admins.map(async (_, i) => String(await call(i, "MYID"))));
  return {
    nodes,
    async ownerOf(slot) {
      for (let i = 0; i < size; i++) {
        const ranges =
          String(await call(i, "NODES"))
            .split("\n")
            .find((line) => line.includes("myself"))
            ?.split(" ")
            .slice(8) ?? [];
        const owned = ranges.some((range) => {
          const [from, to = from] = range.split("-").map(Number);
          return from !== undefined && to !== undefined && !range.startsWith("[") && from <= slot && slot <= to;
        });
        if (owned) return i;
      }
      throw new Error(`no node serves slot ${slot}`);
    },
    async moveSlot(slot, from, to, { batch = 10, pauseMs = 5 } = {}) {
      await call(to, "SETSLOT", slot, "IMPORTING", ids[from] ?? "");
      await call(from, "SETSLOT", slot, "MIGRATING", ids[to] ?? "");
      let moved = 0;
      for (;;) {
        const keys = (await call(from, "GETKEYSINSLOT", slot, batch)) as string[]; // a list of names
        if (keys.length === 0) break;
        await admin(from).call("MIGRATE", "127.0.0.1", String(nodes[to]?.port), "", "0", "5000", "KEYS", ...keys);
        moved += keys.length;
        await after(pauseMs);
      }
      for (const node of [to, from, ...admins.keys()]) await call(node, "SETSLOT", slot, "NODE", ids[to] ?? "");
      return moved;
    },
    async stop() {
      for (const client of admins) client.disconnect();
      await Promise.all(nodes.map((node) => node.stop()));
    },
  };
}
