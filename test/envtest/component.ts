import { spawn } from "node:child_process";
import { open, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { endOf } from "../../infra/local/process-reaper.ts";

/** The number of log lines in an error message. */
const LOG_LINES_SHOWN = 15;

/** One running program of the control plane. */
export interface Component {
  readonly name: string;
  readonly pid: number;
  readonly logFile: string;
  /** Resolves (never rejects) when the program has exited: "exit code 1" or "SIGKILL". */
  readonly ended: Promise<string>;
  /** Sends SIGTERM, and SIGKILL if the program still runs after `graceMs`. Resolves once it has exited. */
  stop(graceMs: number): Promise<void>;
}

/** A program exited unexpectedly; the message has the end of its log and the log's path. */
export class ComponentEndedError extends Error {
  override readonly name = "ComponentEndedError";
  /** Another process has bound the port since it was chosen; a retry with another port will succeed. */
  readonly portTaken: boolean;

  constructor(component: { readonly name: string; readonly logFile: string }, how: string, log: string) {
    super(`${component.name} ended with ${how}. ${logTail(component.logFile, log)}`);
    this.portTaken = log.includes("address already in use");
  }
}

/**
 * Starts a program with its output appended to `logFile`. The program gets its own session, so that Ctrl-C in a terminal reaches only the
 * process that started the control plane. A guard process ends the components when that process ends.
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
      child.kill("SIGTERM"); // has no effect on a child that has ended
      const timer = new AbortController();
      await Promise.race([ended, sleep(graceMs, undefined, { signal: timer.signal }).catch(() => undefined)]);
      timer.abort();
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/**
 * Polls until `isReady` returns true.
 *
 * @throws ComponentEndedError when the program exits first; Error with the end of its log after `timeoutMs`.
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

async function logOf({ logFile }: { readonly logFile: string }): Promise<string> {
  return await readFile(logFile, "utf8").catch(() => "");
}

function logTail(logFile: string, log: string): string {
  const lines = log.trimEnd().split("\n").slice(-LOG_LINES_SHOWN);
  return `The end of ${logFile}:\n${lines.map((line) => `  ${line}`).join("\n")}`;
}
