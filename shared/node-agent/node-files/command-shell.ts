/**
 * A shell that runs commands for this process. To start a program Node copies its own page tables first, 4 to 7 ms of CPU for an agent
 * with 150 MiB; a shell has next to none to copy. One pod with a token is a `mount` and an `umount`.
 *
 * The shell starts on demand, exits after one idle second, and exits with this process. It reports only exit
 * codes; to get an error message, the caller runs the command again directly.
 *
 * MS1 commands do not wait for one another.
 * MS2 an aborted command never runs later: its timeout kills the shell and its children. Callers of other commands
 *    get an unknown result.
 */
import { spawn } from "node:child_process";
import type { ChildProcessByStdio } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";

const IDLE_MS = 1_000;

export interface CommandShell {
  /** The exit code of a program of the PATH; undefined: it may have run or not, as the shell was lost, or it took too long. */
  run(command: string, args: readonly string[], timeoutMs: number): Promise<number | undefined>;
}

type Child = ChildProcessByStdio<Writable, Readable, null>;

/** One child, and who waits for what of it. */
interface Running {
  readonly child: Child;
  /** Of its group, too. */
  readonly pid: number;
  readonly waiting: Map<number, (code: number | undefined) => void>;
}

export function createCommandShell(program = "/bin/sh"): CommandShell {
  let running: Running | undefined;
  let idle: NodeJS.Timeout | undefined;
  let last = 0;

  /** Undefined when this process may start none. */
  function start(): Running | undefined {
    // A group of its own, to be ended as a whole. Nothing of our environment may change what a shell does.
    const child = spawn(program, [], { stdio: ["pipe", "pipe", "ignore"], env: { LC_ALL: "C" }, detached: true });
    const { pid } = child;
    if (pid === undefined) {
      child.on("error", () => undefined);
      return undefined;
    }
    const started: Running = { child, pid, waiting: new Map() };
    const gone = (): void => {
      if (running === started) running = undefined;
    };
    const lost = (): void => {
      gone();
      for (const answer of started.waiting.values()) answer(undefined);
    };
    // What it began goes on after its end, and still answers.
    child.once("exit", gone).once("error", lost).once("close", lost);
    child.stdin.on("error", () => undefined); // it is gone, which `close` says
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
      // It has ended already.
    }
    for (const answer of lost.waiting.values()) answer(undefined);
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
          if (child.stdin.writable) child.stdin.write("wait\n"); // for those that have ended, so that none stays a zombie
          idle = setTimeout(end, IDLE_MS).unref();
        }
      }
    },
  };
}

/** As one word of a shell, whatever is in it. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
