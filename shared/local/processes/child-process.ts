/** Child processes: verbs of this program and other programs, which end with their parent. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { environmentOfOthers } from "@deltaloop/kube/kubeconfig";

export interface Child {
  readonly pid: number;
  /** The first line of standard output; rejects, once `exited` settles, if the process exits before printing one. */
  readonly firstLine: Promise<string>;
  /** Calls `listener` with each later line of standard output. */
  onLine(listener: (line: string) => void): void;
  /** Resolves EXIT_REPORT_DELAY_MS after the process has exited. */
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  /** Sends SIGTERM, and SIGKILL if the process still runs after `graceMs`. */
  end(graceMs: number): Promise<void>;
}

/**
 * Heap options of a process that forwards data and whose objects are short-lived: a new space of 8 MB (default 128) and a collection of old
 * space after 20 % growth. With 50,000 pods, the watcher uses 146 MB instead of 383.
 */
export const LEAN_HEAP = ["--max-semi-space-size=4", "--heap-growing-percent=20", "--expose-gc"] as const;

/**
 * Heap options of the functions, which allocate much per invocation, so frequent collections cost CPU. With 100 concurrent Deployments, they
 * use 4.2 ms per pod, against 4.5 ms with half of this new space and 15 MiB less. Twice the new space saves nothing more.
 */
const WORKING_HEAP = ["--max-semi-space-size=16", "--heap-growing-percent=40", "--expose-gc"] as const;

/**
 * Node's pool of threads, of which it uses half for DNS lookups (4 by default): the clusters whose DNS servers are silent must not take all.
 * Sixty more threads take 1 MiB.
 */
const LOOKUP_THREADS = { UV_THREADPOOL_SIZE: "64" } as const;

/**
 * The watcher's environment. A read of a socket allocates 64 KiB and keeps what arrived, and the gap behind that is too small for the next
 * read. glibc puts such a block into a mapping of its own, whose unused pages return at once: with 200 clusters 150 MiB instead of 187.
 * Other C libraries ignore the variable.
 */
export const WATCHER_ENVIRONMENT = { ...LOOKUP_THREADS, MALLOC_MMAP_THRESHOLD_: "65536" } as const;

/**
 * Delay before an exit is reported. Ctrl-C signals every process of the terminal's group in some order: if reported at once, a child's exit
 * could look like a fault before this process receives its signal.
 */
const EXIT_REPORT_DELAY_MS = 250;

/** Heap options by verb; the default is LEAN_HEAP. */
const HEAPS: Readonly<Record<string, readonly string[]>> = { host: WORKING_HEAP };

/**
 * Starts a verb of this program. Its standard input is a pipe from this process, so it ends when this process does, even after SIGKILL. It
 * shares standard error. It has its own process group, so Ctrl-C in the terminal reaches only this process, which then ends the child.
 */
export function startVerb(verb: string, parameters: readonly string[], environment: Readonly<Record<string, string>>): Child {
  const [main] = process.argv.slice(1);
  if (main === undefined) throw new Error("process.argv has no program file");
  return watched(
    spawn(process.execPath, [...(HEAPS[verb] ?? LEAN_HEAP), main, verb, "--child", ...parameters], {
      stdio: ["pipe", "pipe", "inherit"],
      detached: true,
      env: { ...(verb === "watch" ? WATCHER_ENVIRONMENT : LOOKUP_THREADS), ...process.env, ...environment },
    }),
  );
}

/** A verb that exchanges messages with this process instead of lines. */
export interface MessagingChild extends Pick<Child, "pid"> {
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  onMessage(listener: (message: unknown) => void): void;
  /** Does nothing once the child has ended. */
  send(message: object): void;
  kill(): void;
}

/**
 * Starts a verb that runs code of others: without deltaloop's keys in its environment, and with its output on standard error. It is killed
 * when this process ends, because its code may never check whether a pipe has closed.
 */
export function startMessagingVerb(verb: string, parameters: readonly string[]): MessagingChild {
  const [main] = process.argv.slice(1);
  if (main === undefined) throw new Error("process.argv has no program file");
  const child = spawn(process.execPath, [main, verb, ...parameters], {
    stdio: ["ignore", 2, 2, "ipc"],
    serialization: "advanced",
    detached: true,
    env: environmentOfOthers(),
  });
  if (child.pid !== undefined) killOnParentExit(child, child.pid);
  child.on("error", () => undefined); // the listener in `exited` reports a failed start
  return {
    pid: child.pid ?? 0,
    exited: new Promise((resolve) => {
      child.once("exit", (code, signal) => resolve({ code, signal }));
      child.once("error", () => resolve({ code: 127, signal: null }));
    }),
    onMessage: (listener) => void child.on("message", listener),
    send: (message) => void (child.connected && child.send(message, () => undefined)),
    kill: () => void child.kill("SIGKILL"),
  };
}

/** Starts another program in its own process group, without deltaloop's keys in its environment. It ends when this process ends. */
export function startProgram(file: string, parameters: readonly string[]): Child {
  const program = spawn(file, parameters, { stdio: ["pipe", "pipe", "inherit"], detached: true, env: environmentOfOthers() });
  if (program.pid !== undefined) killOnParentExit(program, program.pid);
  const kill = (): void => void program.kill("SIGKILL");
  process.once("exit", kill);
  program.once("exit", () => process.off("exit", kill));
  return watched(program);
}

/** Starts a shell that kills the program when its pipe from this process closes, regardless of how this process ends. */
function killOnParentExit(program: ChildProcess, pid: number): void {
  const script = 'trap "" INT TERM HUP; while read -r _; do :; done; kill -KILL "$1" 2> /dev/null';
  const guard = spawn("/bin/sh", ["-c", script, "guard", String(pid)], { stdio: ["pipe", "ignore", "ignore"], detached: true });
  guard.on("error", () => undefined); // if there is no shell, the program is not killed
  guard.stdin.on("error", () => undefined);
  guard.unref();
  program.once("exit", () => guard.kill("SIGKILL")); // ends the shell, so that it cannot kill a process that reuses the pid
}

function watched(child: ChildProcess): Child {
  const gone = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
    child.once("error", () => resolve({ code: 127, signal: null }));
  });
  const exited = gone.then(async (how) => {
    await sleep(EXIT_REPORT_DELAY_MS);
    return how;
  });
  const lines = child.stdout ? createInterface({ input: child.stdout }) : undefined;
  const firstLine = new Promise<string>((resolve, reject) => {
    lines?.once("line", resolve);
    void exited.then(({ code, signal }) => reject(new Error(`exited before it was ready (${signal ?? `code ${code}`})`)));
  });
  firstLine.catch(() => undefined); // prevents an unhandled rejection if no caller awaits it
  child.stdin?.on("error", () => undefined); // the child has ended
  return {
    pid: child.pid ?? 0,
    firstLine,
    exited,
    onLine: (listener) => void lines?.on("line", listener),
    end: async (graceMs) => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGTERM");
      const killer = setTimeout(() => child.kill("SIGKILL"), graceMs);
      await gone;
      clearTimeout(killer);
    },
  };
}
