/** A process of ours that another one of ours starts, watches over and ends. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";

export interface Child {
  readonly pid: number;
  /** The first line it wrote to standard output; rejects when it ended before. */
  readonly firstLine: Promise<string>;
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  /** SIGTERM, and SIGKILL when it has not ended by then. */
  end(graceMs: number): Promise<void>;
}

/**
 * Starts a verb of this very program. Its standard input is a pipe from us, so that it ends when we do, even by SIGKILL; its
 * standard error is ours.
 */
export function startVerb(verb: string, parameters: readonly string[], environment: Readonly<Record<string, string>>): Child {
  const [main] = process.argv.slice(1);
  if (main === undefined) throw new Error("this program does not know its own file");
  return watched(
    spawn(process.execPath, [main, verb, "--child", ...parameters], {
      stdio: ["pipe", "pipe", "inherit"],
      env: { ...process.env, ...environment },
    }),
  );
}

export function startProgram(file: string, parameters: readonly string[]): Child {
  return watched(spawn(file, parameters, { stdio: ["pipe", "pipe", "inherit"] }));
}

function watched(child: ChildProcess): Child {
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
    child.once("error", () => resolve({ code: 127, signal: null }));
  });
  const firstLine = new Promise<string>((resolve, reject) => {
    if (child.stdout) createInterface({ input: child.stdout }).once("line", resolve);
    void exited.then(({ code, signal }) => reject(new Error(`ended before it was ready (${signal ?? `code ${code}`})`)));
  });
  firstLine.catch(() => undefined); // whoever waits gets it
  child.stdin?.on("error", () => undefined); // the pipe of a child that has ended
  return {
    pid: child.pid ?? 0,
    firstLine,
    exited,
    end: async (graceMs) => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGTERM");
      const killer = setTimeout(() => child.kill("SIGKILL"), graceMs);
      await exited;
      clearTimeout(killer);
    },
  };
}
