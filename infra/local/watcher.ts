/** The watcher as a child process that is restarted when it exits, as a supervisor does in production. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export interface LocalWatcher {
  /** Process id of the current or last process. */
  pid(): number;
  /** How earlier processes exited, oldest first: `code 4`, `SIGKILL`. */
  endings(): readonly string[];
  /** Sends SIGTERM, and SIGKILL after END_GRACE_MS; does not restart the watcher. */
  stop(): Promise<void>;
}

export interface WatcherPlan {
  /** Checkout that the watcher runs from. */
  readonly root: string;
  readonly flags: readonly string[];
  /** The variables DELTALOOP_*. */
  readonly environment: Readonly<Record<string, string>>;
  readonly say: (line: string) => void;
}

const AGAIN_MS = 1_000;
const END_GRACE_MS = 3_500;

/** Starts the watcher. Its standard input is a pipe, so the watcher ends when this process does. */
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
      say(`the watcher exited with ${how}; restarting it`);
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
