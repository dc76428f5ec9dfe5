/** Processes with in-memory API servers, and `dev --act --clusters` in front of them. */
import { fork } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { JsonObject } from "../../../shared/base/json.ts";
import { deltaloop, ROOT } from "../../support/e2e.ts";
import type { Running } from "../../support/e2e.ts";
import { kubeconfigOf } from "../../support/kubeconfig.ts";
import { startRedis } from "../../support/redis.ts";
import type { RedisServer } from "../../support/redis.ts";
import { bundleCli } from "../../../infra/build/bundle.ts";
import { startStack, until } from "../embedded.ts";
import { cpuSeconds, memoryMiB } from "../process-usage.ts";
import type { Command, Numbered, Objects, Replies, Reply } from "./api-servers.ts";
import { deploymentOf, DEPLOYMENTS, NAMESPACE, PODS, REPLICA_SETS } from "./workload.ts";

const READY_MS_MAX = 300_000;
const MS_PER_SECOND = 1_000;

/** One process with several API servers. */
export interface Host {
  readonly urls: readonly string[];
  ask<C extends Command>(command: C): Promise<Replies[C["verb"]]>;
  stop(): void;
}

export async function startHost(count: number, objects: Objects): Promise<Host> {
  const child = fork(join(import.meta.dirname, "api-servers.ts"), { execArgv: [] });
  const waiting = new Map<number, PromiseWithResolvers<Reply>>();
  child.on("message", ({ number, content }: Numbered<Reply>) => {
    waiting.get(number)?.resolve(content);
    waiting.delete(number);
  });
  child.once("exit", () => {
    for (const { reject } of waiting.values()) reject(new Error("a process with API servers has ended"));
  });
  let commands = 0;
  const ask = async <C extends Command>(command: C): Promise<Replies[C["verb"]]> => {
    const number = commands++;
    const reply = Promise.withResolvers<Reply>();
    waiting.set(number, reply);
    child.send({ number, content: command } satisfies Numbered<Command>);
    const answer = await reply.promise;
    if ("failed" in answer) throw new Error(answer.failed);
    return answer.ok as Replies[C["verb"]]; // api-servers.ts sends it
  };
  const urls = await ask({ verb: "start", count, objects });
  return { urls, ask, stop: () => child.kill() };
}

/** A namespace with `deployments` Deployments of 3, rolled out: with ReplicaSets and pods five objects each. Nothing is left to do. */
export async function rolledOutObjects(deployments: number): Promise<Objects> {
  const stack = await startStack();
  try {
    await stack.person.request("POST", "/api/v1/namespaces", { metadata: { name: NAMESPACE } });
    for (let i = 0; i < deployments; i++) await stack.person.request("POST", DEPLOYMENTS, deploymentOf(`web-${i}`, 3));
    await until("the Deployments are rolled out", async () => {
      const { items } = await stack.person.list<{ readonly status?: { readonly availableReplicas?: number } }>(DEPLOYMENTS);
      return items.every(({ status }) => status?.availableReplicas === 3);
    });
    const paths = [
      ["namespaces", "/api/v1/namespaces"],
      ["deployments.apps", DEPLOYMENTS],
      ["replicasets.apps", REPLICA_SETS],
      ["pods", PODS],
    ] as const;
    const lists = await Promise.all(
      paths.map(async ([resource, path]) => [resource, (await stack.person.list<JsonObject>(path)).items] as const),
    );
    return lists.flatMap(([resource, items]) => items.map((item) => [resource, item] as const));
  } finally {
    await stack.stop();
  }
}

/** What the processes that a deployment pays for use now. */
export interface Usage {
  readonly cpuSeconds: number;
  /** Resident, watcher and functions together. */
  readonly rssMiB: number;
}

/** `dev --act --clusters`, on a Redis and a folder of its own. */
export interface Fleet {
  /** The folder of kubeconfigs. */
  readonly folder: string;
  readonly dev: Running;
  readonly redis: RedisServer;
  /** From the start of the command until the gates of its first clusters were open. */
  readonly coldSeconds: number;
  /** Serves further clusters; resolves when their gates are open, with the seconds that it took. */
  add(urls: readonly string[]): Promise<number>;
  usage(): Promise<Usage>;
  stop(): Promise<void>;
}

/** The bundled command, as installed. */
export async function bundledCommand(): Promise<string> {
  const folder = join(ROOT, "dist", "cli");
  await bundleCli(ROOT, folder);
  return join(folder, "deltaloop.js");
}

/** With `urls` in its folder from the start, as the clusters c0, c1 and so on, whose tokens are their names. */
export async function startFleet(main: string, urls: readonly string[], flags: readonly string[] = []): Promise<Fleet> {
  const folder = await mkdtemp(join(tmpdir(), "deltaloop-bench-clusters-"));
  const redis = await startRedis();
  let size = 0;
  const put = async (added: readonly string[]): Promise<readonly string[]> =>
    await Promise.all(
      added.map(async (server) => {
        const name = `c${size++}`;
        await writeFile(join(folder, name), kubeconfigOf({ server }, { token: name }), { mode: 0o600 });
        return name;
      }),
    );
  const ready = async (dev: Running, names: readonly string[]): Promise<void> =>
    void (await Promise.all(names.map(async (name) => await dev.line(`ready: cluster ${name}`, READY_MS_MAX))));
  const first = await put(urls);
  const fromMs = performance.now();
  const dev = deltaloop(
    ["dev", "--act", "--clusters", folder, "--allow", "loopback", "insecure", "--redis", redis.url, ...flags],
    {},
    main,
  );
  await ready(dev, first);
  const secondsSince = (ms: number): number => (performance.now() - ms) / MS_PER_SECOND;
  return {
    ...{ folder, dev, redis },
    coldSeconds: secondsSince(fromMs),
    async add(added) {
      const from = performance.now();
      await ready(dev, await put(added));
      return secondsSince(from);
    },
    async usage() {
      const { watcher = 0, functions = 0 } = dev.pids();
      const pids = [watcher, functions];
      const [cpu, memory] = await Promise.all([Promise.all(pids.map(cpuSeconds)), Promise.all(pids.map(memoryMiB))]);
      process.stderr.write(`    watcher ${memory[0]?.rss.toFixed(0)} MiB, functions ${memory[1]?.rss.toFixed(0)} MiB\n`);
      return { cpuSeconds: sum(cpu), rssMiB: sum(memory.map(({ rss }) => rss)) };
    },
    async stop() {
      await dev.stop();
      await redis.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0);
}
