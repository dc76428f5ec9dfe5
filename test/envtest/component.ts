import { type ChildProcess, spawn } from "node:child_process";
import { open, readFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** How much of a log goes into an error message. */
const LOG_LINES_SHOWN = 15;

/** One running program of the control plane. */
export interface Component {
  readonly name: string;
  readonly pid: number;
  readonly logFile: string;
  /** Resolves, never rejects, when the program has ended: "exit code 1" or "SIGKILL". */
  readonly ended: Promise<string>;
  /** SIGTERM, and SIGKILL when it has not ended after `graceMs`. Resolves once it has ended. */
  stop(graceMs: number): Promise<void>;
}

/** A program ended although nobody asked it to. Not normal; the message holds the end of its log and the log's path. */
export class ComponentEndedError extends Error {
  override readonly name = "ComponentEndedError";
  /** It lost the race for a port that was free when it was chosen; another port will do. */
  readonly portTaken: boolean;

  constructor(component: { readonly name: string; readonly logFile: string }, how: string, log: string) {
    super(`${component.name} ended with ${how}. ${logTail(component.logFile, log)}`);
    this.portTaken = log.includes("address already in use");
  }
}

/**
 * Starts a program with its output appended to `logFile`. It gets a session of its own, so that Ctrl-C in a terminal
 * reaches the one who started the control plane and not its parts; what ends them with their parent is the Guard.
 */
export async function startComponent(
  command: string,
  args: readonly string[],
  { name, logFile }: { readonly name: string; readonly logFile: string },
): Promise<Component> {
  const log = await open(logFile, "a");
  const child = spawn(command, args, { stdio: ["ignore", log.fd, log.fd], detached: true });
  const ended = endOf(child);
  await log.close(); // the child has its own copy
  const pid = child.pid;
  if (pid === undefined) throw new Error(`${name} could not be started: ${await ended}`);
  return {
    name,
    pid,
    logFile,
    ended,
    async stop(graceMs) {
      child.kill("SIGTERM"); // does nothing to a child that has ended
      const timer = new AbortController();
      await Promise.race([ended, sleep(graceMs, undefined, { signal: timer.signal }).catch(() => undefined)]);
      timer.abort();
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/**
 * Polls until `isReady` says so.
 *
 * @throws ComponentEndedError when the program ends first; Error with the end of its log after `timeoutMs`.
 */
export async function waitUntilReady(
  component: Component,
  isReady: () => Promise<boolean>,
  { what, timeoutMs, pollMs }: { readonly what: string; readonly timeoutMs: number; readonly pollMs: number },
): Promise<void> {
  const giveUpAt = performance.now() + timeoutMs;
  let how: string | undefined;
  void component.ended.then((end) => (how = end));
  while (!(await isReady())) {
    if (how !== undefined) throw new ComponentEndedError(component, how, await logOf(component));
    if (performance.now() > giveUpAt) {
      throw new Error(`${what}: not after ${timeoutMs / 1000} s. ${logTail(component.logFile, await logOf(component))}`);
    }
    await sleep(pollMs);
  }
}

/** Ends what it watches when the process that made it is gone. */
interface Guard {
  /** From now on exactly these processes are to be killed if we vanish. */
  watch(pids: readonly number[]): void;
  /** Sends the guard home; call it when nothing it watches runs any more. */
  dismiss(): Promise<void>;
}

/**
 * A shell that outlives us by a moment. Its input is a pipe from us, on which each line lists the pids to kill; when
 * the pipe closes, for whatever reason (exit, crash, SIGKILL), it kills those of the last line and removes `directory`.
 * A handler on `exit` would not run when we are killed, nor when a test runner terminates its worker.
 */
export function startGuard(directory: string): Guard {
  const script = 'trap "" INT TERM HUP; while read -r line; do pids=$line; done; [ -z "$pids" ] || kill -KILL $pids; rm -rf -- "$1"';
  const guard = spawn("/bin/sh", ["-c", script, "control-plane-guard", directory], {
    cwd: "/",
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  const ended = endOf(guard);
  guard.unref();
  // A piped stdin is a Socket at run time; its declared type is wider.
  const pipe = guard.stdin as Socket;
  pipe.unref();
  pipe.on("error", (error) => {
    process.stderr.write(`control plane: its guard is gone (${error.message}); nothing ends it if we are killed\n`);
  });
  return {
    watch(pids) {
      pipe.write(`${pids.join(" ")}\n`);
    },
    async dismiss() {
      guard.ref();
      guard.kill("SIGKILL"); // before its pipe closes, or it would do its work
      await ended;
    },
  };
}

async function endOf(child: ChildProcess): Promise<string> {
  return await new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
}

async function logOf({ logFile }: { readonly logFile: string }): Promise<string> {
  return await readFile(logFile, "utf8").catch(() => "");
}

function logTail(logFile: string, log: string): string {
  const lines = log.trimEnd().split("\n").slice(-LOG_LINES_SHOWN);
  return `The end of ${logFile}:\n${lines.map((line) => `  ${line}`).join("\n")}`;
}
