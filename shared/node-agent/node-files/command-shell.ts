/**
 * A shell that runs commands for this process. Forking the Node.js process copies its page tables, which takes 4 to 7 ms of CPU for an
 * agent of 150 MiB; forking a small shell copies almost nothing. Every pod with a token needs a `mount` and an `umount`.
 *
 * The shell starts on demand, exits after an idle second or with this process, and reports only exit codes.
 *
 * MS1 commands run concurrently.
 * MS2 a command never runs after its timeout. The timeout kills the shell with all of its commands, and the callers of the other commands
 *     get `undefined`.
 */
import { spawn } from "node:child_process";
import type { ChildProcessByStdio } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";

const IDLE_MS = 1_000;

export interface CommandShell {
  /** @returns the exit code, or `undefined` if the shell or the command was killed, in which case the command may or may not have run */
  run(command: string, args: readonly string[], timeoutMs: number): Promise<number | undefined>;
}

type Child = ChildProcessByStdio<Writable, Readable, null>;

interface Running {
  readonly child: Child;
  /** Process id of the shell, which is also its process group. */
  readonly pid: number;
  readonly waiting: Map<number, (code: number | undefined) => void>;
}

export function createCommandShell(program = "/bin/sh"): CommandShell {
  let running: Running | undefined;
  let idle: NodeJS.Timeout | undefined;
  let last = 0;

  /** @returns undefined if this process cannot start a shell */
  function start(): Running | undefined {
    // The shell has its own process group, so that one signal ends all of its commands, and an empty environment, so that no variable
    // changes its behaviour.
    const child = spawn(program, [], { stdio: ["pipe", "pipe", "ignore"], env: { LC_ALL: "C" }, detached: true });
    const { pid } = child;
    if (pid === undefined) {
      child.on("error", () => undefined);
      return undefined;
    }
    const started: Running = { child, pid, waiting: new Map() };
    const forget = (): void => {
      if (running === started) running = undefined;
    };
    const fail = (): void => {
      forget();
      for (const settle of started.waiting.values()) settle(undefined);
    };
    // Commands survive the shell's exit and still report their exit codes.
    child.once("exit", forget).once("error", fail).once("close", fail);
    child.stdin.on("error", () => undefined); // the event `close` follows
    createInterface({ input: child.stdout }).on("line", (line) => {
      const [id, code] = line.split(" ").map(Number);
      started.waiting.get(id ?? 0)?.(code);
    });
    return started;
  }

  function end(): void {
    running?.child.stdin.end();
    running = undefined;
  }

  function kill(lost: Running): void {
    if (running === lost) running = undefined;
    try {
      process.kill(-lost.pid, "SIGKILL");
    } catch {
      // The process group has already ended.
    }
    for (const settle of lost.waiting.values()) settle(undefined);
  }

  return {
    async run(command, args, timeoutMs) {
      clearTimeout(idle);
      running ??= start();
      if (running === undefined) return undefined;
      const current = running;
      const { child, waiting } = current;
      const id = ++last;
      let timer: NodeJS.Timeout | undefined;
      try {
        return await new Promise<number | undefined>((resolve) => {
          waiting.set(id, resolve);
          timer = setTimeout(() => kill(current), timeoutMs);
          const path = `export PATH=${quoted(process.env["PATH"] ?? "")}`;
          const words = [command, ...args].map(quoted).join(" ");
          child.stdin.write(`( ${path}; ${words} </dev/null >/dev/null 2>&1; echo ${id} $? ) &\n`);
        });
      } finally {
        clearTimeout(timer);
        waiting.delete(id);
        if (waiting.size === 0 && running === current) {
          if (child.stdin.writable) child.stdin.write("wait\n"); // makes the shell reap commands that have ended
          idle = setTimeout(end, IDLE_MS).unref();
        }
      }
    },
  };
}

/** Quotes any text as one shell word. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
