/**
 * `deltaloop capture` of 20,000 pods in one process and an API server in another (crowd-server.ts), with files that rotate every 64 MiB.
 * Measures the CPU time per changed pod, and the peak resident memory (VmHWM) after the last rotation.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { kubeconfigOf } from "../support/kubeconfig.ts";
import { cpuSeconds } from "./process-usage.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

const [PODS, CHANGES, ROUNDS] = [20_000, 10_000, 5];
const MEMORY_GOAL = { name: "issue: at most 200 MiB", value: 200 };
/** The process counts as idle if it uses less CPU time than this between two polls. */
const [QUIET_SECONDS, LOOK_MS] = [0.03, 1_000];
const ROTATIONS_MIN = 2;

export async function bench(): Promise<readonly BenchResult[]> {
  const folder = await mkdtemp(join(tmpdir(), "deltaloop-bench-"));
  const server = spawn(process.execPath, [join(import.meta.dirname, "crowd-server.ts"), String(PODS), "pages"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    // the first line of output
    const [url] = (await once(createInterface({ input: server.stdout }), "line")) as unknown as readonly [string];
    const kubeconfig = join(folder, "kubeconfig");
    await writeFile(kubeconfig, kubeconfigOf({ server: url }));
    const output = join(folder, "ring.jsonl.gz");
    const flags = ["--kubeconfig", kubeconfig, "-o", output, "--rotate-size", "64Mi", "--keep", "2"];
    const capture = spawn(process.execPath, [join(import.meta.dirname, "../../cli/main.ts"), "capture", ...flags], { stdio: "ignore" });
    try {
      return await measured(url, capture.pid ?? 0, folder);
    } finally {
      capture.kill("SIGINT");
      if (capture.exitCode === null) await once(capture, "exit");
    }
  } finally {
    server.kill();
    await rm(folder, { recursive: true });
  }
}

async function measured(url: string, pid: number, folder: string): Promise<readonly BenchResult[]> {
  while (((await (await fetch(`${url}/bench/lists`)).json()) as { readonly listed: number }).listed < PODS) await sleep(LOOK_MS);
  await quiet(pid);
  const micros: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const before = await cpuSeconds(pid);
    await fetch(`${url}/bench/change?count=${CHANGES}`, { method: "POST" });
    await quiet(pid);
    micros.push(((await cpuSeconds(pid)) - before) * (1e6 / CHANGES));
  }
  const numbers = (await readdir(folder)).map((name) => Number(/\.(\d{4})\./.exec(name)?.[1] ?? 0));
  if (Math.max(...numbers) <= ROTATIONS_MIN) throw new Error(`only ${Math.max(...numbers)} files were written`);
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const mib = Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1_024;
  return [
    benchResult("capture --rotate-size of 20,000 pods: an event with HTTP, gzip and rotation, CPU", "µs", micros),
    benchResult("capture --rotate-size of 20,000 pods, most memory", "MiB", [mib], MEMORY_GOAL),
  ];
}

async function quiet(pid: number): Promise<void> {
  for (let last = -1; ; await sleep(LOOK_MS)) {
    const now = await cpuSeconds(pid);
    if (now - last < QUIET_SECONDS) return;
    last = now;
  }
}
