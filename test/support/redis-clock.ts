/** A real redis-server whose clock jumps, as in a failover to a server with another time: clock-offset.c is loaded into its process. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { aptInstall } from "./apt.ts";
import { startRedisBy } from "./redis.ts";
import type { RedisServer } from "./redis.ts";

export interface RedisWithClock extends RedisServer {
  /** Sets how many seconds the server's clock is ahead of the machine's. */
  setOffset(seconds: number): void;
}

/** @returns undefined, or the reason why there is no compiler */
export function ensureCompiler(): string | undefined {
  const found = (): boolean => spawnSync("cc", ["--version"]).status === 0;
  if (found()) return undefined;
  if (process.getuid?.() !== 0) return "cc is not on the PATH, and only root may install it (apt-get install gcc libc6-dev)";
  const why = aptInstall(["gcc", "libc6-dev"], found);
  return why === undefined ? undefined : `apt-get install gcc libc6-dev failed: ${why}`;
}

export async function startRedisWithClock(): Promise<RedisWithClock> {
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-clock-"));
  const [library, offset] = [join(folder, "clock-offset.so"), join(folder, "offset")];
  const { status, stderr } = spawnSync("cc", ["-shared", "-fPIC", "-o", library, join(import.meta.dirname, "clock-offset.c")]);
  if (status !== 0) throw new Error(`clock-offset.c: ${String(stderr)}`);
  const setOffset = (seconds: number): void => writeFileSync(offset, new Int32Array([seconds]), { flag: "r+" });
  writeFileSync(offset, new Int32Array(1));
  const redis = await startRedisBy(["env", `LD_PRELOAD=${library}`, `CLOCK_OFFSET_FILE=${offset}`]);
  return {
    ...redis,
    setOffset,
    async stop() {
      await redis.stop();
      await rm(folder, { recursive: true });
    },
  };
}
