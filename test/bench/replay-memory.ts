/**
 * Peak memory of `deltaloop replay` for a capture of 1 GB: 200 Deployments of 10 pods that roll one after the other, in whole objects of
 * about 4 KB as `capture --no-redact` writes them, gzipped. Measures the peak resident memory (VmHWM).
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createGzip } from "node:zlib";
import { longCapture } from "../support/long-capture.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

const BYTES = 1e9;
const LIFE = { deployments: 200, pods: 10, stepMs: 100 };
const VARIABLES = 40;
const LOOK_MS = 200;

export async function bench(): Promise<readonly BenchResult[]> {
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-bench-"));
  try {
    const file = join(folder, "capture.jsonl.gz");
    await generate(file);
    return [benchResult("replay of a capture of 1 GB, most memory", "MiB", [await mostMemory(["replay", file])])];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function generate(path: string): Promise<void> {
  const env = Array.from({ length: VARIABLES }, (_, i) => ({
    name: `NAME_OF_A_VARIABLE_${i}`,
    value: `its value ${i}, of the usual length`,
  }));
  const file = createWriteStream(path);
  const gzip = createGzip({ level: 1 });
  gzip.pipe(file);
  let bytes = 0;
  for (const line of longCapture({ ...LIFE, containers: [{ name: "main", image: "shop:1", env }] })) {
    bytes += line.length + 1;
    if (!gzip.write(`${line}\n`)) await once(gzip, "drain");
    if (bytes > BYTES) break;
  }
  gzip.end();
  await once(file, "close");
}

/** Returns the peak memory in MiB. */
async function mostMemory(args: readonly string[]): Promise<number> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "../../cli/main.ts"), ...args], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  let most = 0;
  const look = setInterval(() => {
    const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
    most = Math.max(most, Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) / 1024);
  }, LOOK_MS);
  // the exit code is the first argument of an exit event
  const [code] = (await once(child, "exit").finally(() => clearInterval(look))) as unknown as readonly [number | null];
  if (code !== 0) throw new Error(`deltaloop ${args.join(" ")} ended with ${code}`);
  return most;
}
