/** A process of ours that another one of ours starts, watches over and ends. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { environmentOfOthers } from "@deltaloop/kube/kubeconfig";

export interface Child {
  readonly pid: number;
  /** The first line of standard output; rejects if the process exits before it, no earlier than `exited` settles. */
  readonly firstLine: Promise<string>;
  /** Told TOLD_AFTER_MS after it has ended. */
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  /** SIGTERM, and SIGKILL when it has not ended by then. */
  end(graceMs: number): Promise<void>;
}

/**
 * The heap of a process that only passes things on: what it reads is garbage at once, and V8 lets it lie while memory is free. New space of
 * 8 MB (128 otherwise), and old space collected when it has grown by a fifth: with 50,000 pods the watcher has 146 MB instead of 383.
 */
export const LEAN_HEAP = ["--max-semi-space-size=4", "--heap-growing-percent=20"] as const;

/**
 * The heap of the functions, which keep nothing beyond an invocation but make much in it, so that collecting often costs CPU: where a hundred
 * Deployments went at once 4.5 ms a pod with half of this new space and 4.2 ms so, for 15 MiB more; twice as much again saves nothing.
 */
const WORKING_HEAP = ["--max-semi-space-size=16", "--heap-growing-percent=40"] as const;

/**
 * A Ctrl-C goes to a terminal's whole group, to each process when its turn comes. Told at once that a child has ended, we might take it for a
 * fault and not know yet that we shall end as well.
 */
const TOLD_AFTER_MS = 250;

/** How the heaps of verbs differ from LEAN_HEAP. */
const HEAPS: Readonly<Record<string, readonly string[]>> = { host: WORKING_HEAP };

/**
 * Starts a verb of this program, with a heap that fits it. Its standard input is a pipe from this process, so that it ends with it, even by SIGKILL;
 * its standard error is shared. It has a process group of its own, so that a Ctrl-C in the terminal reaches this process alone, which ends it in order.
 */
export function startVerb(verb: string, parameters: readonly string[], environment: Readonly<Record<string, string>>): Child {
  const [main] = process.argv.slice(1);
  if (main === undefined) throw new Error("this program does not know its own file");
  return watched(
    spawn(process.execPath, [...(HEAPS[verb] ?? LEAN_HEAP), main, verb, "--child", ...parameters], {
      stdio: ["pipe", "pipe", "inherit"],
      detached: true,
      env: { ...process.env, ...environment },
    }),
  );
}

/** Starts another program in a process group of its own, without our keys in its environment. It ends when this process ends. */
export function startProgram(file: string, parameters: readonly string[]): Child {
  const program = spawn(file, parameters, { stdio: ["pipe", "pipe", "inherit"], detached: true, env: environmentOfOthers() });
  if (program.pid !== undefined) endWithUs(program, program.pid);
  const kill = (): void => void program.kill("SIGKILL");
  process.once("exit", kill);
  program.once("exit", () => process.off("exit", kill));
  return watched(program);
}

/** A shell waits for the end of its own pipe from us, however we end, and then kills the program. */
function endWithUs(program: ChildProcess, pid: number): void {
  const script = 'trap "" INT TERM HUP; while read -r _; do :; done; kill -KILL "$1" 2> /dev/null';
  const guard = spawn("/bin/sh", ["-c", script, "guard", String(pid)], { stdio: ["pipe", "ignore", "ignore"], detached: true });
  guard.on("error", () => undefined); // no shell, no guard
  guard.stdin.on("error", () => undefined);
  guard.unref();
  program.once("exit", () => guard.kill("SIGKILL")); // before its pipe closes: the pid may be reused soon
}

function watched(child: ChildProcess): Child {
  const gone = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
    child.once("error", () => resolve({ code: 127, signal: null }));
  });
  const exited = gone.then(async (how) => {
    await sleep(TOLD_AFTER_MS);
    return how;
  });
  const firstLine = new Promise<string>((resolve, reject) => {
    if (child.stdout) createInterface({ input: child.stdout }).once("line", resolve);
    void exited.then(({ code, signal }) => reject(new Error(`ended before it was ready (${signal ?? `code ${code}`})`)));
  });
  firstLine.catch(() => undefined); // the caller that awaits it gets the error
  child.stdin?.on("error", () => undefined); // the pipe of a child that has ended
  return {
    pid: child.pid ?? 0,
    firstLine,
    exited,
    end: async (graceMs) => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGTERM");
      const killer = setTimeout(() => child.kill("SIGKILL"), graceMs);
      await gone;
      clearTimeout(killer);
    },
  };
}
