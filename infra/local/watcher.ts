/** The watcher as a child process that is restarted when it exits, as a supervisor does in production. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export interface LocalWatcher {
  /** Of the one that runs, or ran last. */
  pid(): number;
  /** How each one before ended, oldest first: `code 4`, `SIGKILL`. */
  endings(): readonly string[];
  /** SIGTERM, and SIGKILL when it has not ended by then; no other one is started. */
  stop(): Promise<void>;
}

export interface WatcherPlan {
  /** The checkout that it is run from. */
  readonly root: string;
  readonly flags: readonly string[];
  /** DELTALOOP_*. */
  readonly environment: Readonly<Record<string, string>>;
  readonly say: (line: string) => void;
}

const AGAIN_MS = 1_000;
const END_GRACE_MS = 3_500;

/** It ends with us: its standard input is a pipe from us. */
export function startWatcher({ root, flags, environment, say }: WatcherPlan): LocalWatcher {
  const endings: string[] = [];
  const ending = new AbortController();
  let child: ChildProcess | undefined;

  async function once(): Promise<string> {
    child = spawn(process.execPath, [join(root, "cli", "main.ts"), "watch", "--child", ...flags], {
      stdio: ["pipe", "ignore", "inherit"],
      env: { ...process.env, ...environment },
    });
    child.stdin?.on("error", () => undefined);
    const { promise, resolve } = Promise.withResolvers<string>();
    child.once("exit", (code, signal) => resolve(signal ?? `code ${code}`));
    child.once("error", (error) => resolve(error.message));
    return await promise;
  }

  async function untilStopped(): Promise<void> {
    while (!ending.signal.aborted) {
      const how = await once();
      if (ending.signal.aborted) return;
      endings.push(how);
      say(`the watcher ended with ${how}, and is started again`);
      await sleep(AGAIN_MS, undefined, { signal: ending.signal }).catch(() => undefined);
    }
  }
  const running = untilStopped();

  return {
    pid: () => child?.pid ?? 0,
    endings: () => endings,
    async stop() {
      ending.abort();
      child?.kill("SIGTERM");
      const killer = setTimeout(() => child?.kill("SIGKILL"), END_GRACE_MS);
      await running;
      clearTimeout(killer);
    },
  };
}
