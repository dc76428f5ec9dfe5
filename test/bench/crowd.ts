/**
 * A very large number of pods: `deltaloop dev` in shadow mode (watcher, queue, Redis and functions as separate processes) with an API
 * server that generates the pods while it sends them (crowd-server.ts), so that the measured time and memory are ours.
 *
 * The initial list is streamed through the watch, as API servers since 1.34 do, or paginated. "Filled" is the time from the start of dev
 * until every pod is applied and the gate is open. "Listed again" is the time from the end of the pod watch with 410 until the new
 * list is complete; nothing has changed, so no payloads are sent, and list and manifest are measured. "Memory" is the
 * watcher's peak resident memory until then (VmHWM).
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { deltaloop } from "../support/e2e.ts";
import type { Running } from "../support/e2e.ts";
import { kubeconfigOf } from "../support/kubeconfig.ts";
import { ensureRedisServer, startRedis } from "../support/redis.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

const CROWDS = [{ pods: 10_000 }, { pods: 50_000 }, { pods: 150_000 }, { pods: 50_000, pages: true }] as const;
const RELISTS = 3;
const LOOK_MS = 20;
const FILLED_MS_MAX = 600_000;
const MEMORY_GOAL = { name: "issue: at most 150 MB with 150,000", value: 150 };
const KB_PER_MB = 1_024;

/** @throws {Error} if redis-server is unavailable */
export async function bench(): Promise<readonly BenchResult[]> {
  const reason = ensureRedisServer();
  if (reason !== undefined) throw new Error(reason);
  const results: BenchResult[] = [];
  for (const crowd of CROWDS) results.push(...(await play(crowd)));
  return results;
}

async function play({ pods, pages = false }: { readonly pods: number; readonly pages?: boolean }): Promise<readonly BenchResult[]> {
  const directory = await mkdtemp(join(tmpdir(), "deltaloop-bench-"));
  const redis = await startRedis();
  const admin = new Redis(redis.url);
  const server = await startServer(pods, pages);
  let dev: Running | undefined;
  try {
    const kubeconfig = join(directory, "kubeconfig");
    await writeFile(kubeconfig, kubeconfigOf({ server: server.url }));
    const startMs = performance.now();
    dev = deltaloop(["dev", "--kubeconfig", kubeconfig, "--redis", redis.url]);
    await dev.line("ready:", FILLED_MS_MAX);
    const filled = (performance.now() - startMs) / 1_000;
    const meta = (await admin.keys("dl:*:m:pods"))[0] ?? "";
    const relists: number[] = [];
    for (let i = 0; i < RELISTS; i++) {
      const before = Number(await admin.hget(meta, "syncedGen"));
      const goneMs = performance.now();
      await fetch(`${server.url}/bench/gone`, { method: "POST" });
      while (Number(await admin.hget(meta, "syncedGen")) <= before) {
        if (performance.now() - goneMs > FILLED_MS_MAX) throw new Error(`${pods} pods were not listed again; dev said:\n${dev.output()}`);
        await sleep(LOOK_MS);
      }
      relists.push((performance.now() - goneMs) / 1_000);
    }
    const memory = await memoryMb(dev.pids()["watcher"] ?? 0);
    process.stderr.write(
      `  ${pods} pods: filled in ${filled.toFixed(1)} s, listed again in ${relists.map((s) => s.toFixed(1)).join(", ")} s, ${memory.toFixed(0)} MB\n`,
    );
    const title = `${pods.toLocaleString("en")} pods${pages ? " in pages" : ""}`;
    return [
      benchResult(`${title}, from nothing to an open gate`, "s", [filled]),
      benchResult(`${title} listed again`, "s", relists),
      benchResult(`watcher's memory with ${title}`, "MB", [memory], MEMORY_GOAL),
    ];
  } finally {
    await dev?.stop();
    server.child.kill();
    admin.disconnect();
    await redis.stop();
    await rm(directory, { recursive: true, force: true });
  }
}

async function startServer(pods: number, pages: boolean): Promise<{ readonly url: string; readonly child: ChildProcess }> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "crowd-server.ts"), String(pods), ...(pages ? ["pages"] : [])], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout });
  const url = await new Promise<string>((resolve, reject) => {
    lines.once("line", resolve);
    child.once("exit", (code) => reject(new Error(`crowd-server ended with code ${code}`)));
  });
  return { url, child };
}

/** Returns the peak resident memory (VmHWM) from /proc. */
async function memoryMb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]) / KB_PER_MB;
}
