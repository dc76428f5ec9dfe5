/** A program under a pseudo terminal of its own, with its screen and keyboard input. */
import { spawn } from "node:child_process";
import { eventually } from "./eventually.ts";

export interface Terminal {
  /** All output so far, without carriage returns. */
  screen(): string;
  /** Types text; Ctrl-D is `\x04`. */
  type(text: string): void;
  /** Waits for text after the text awaited before. @throws with the screen */
  see(text: string | RegExp, timeoutMs?: number): Promise<void>;
  /** Hangs up, as if the window was closed. */
  close(): Promise<void>;
  /** The program's exit code. */
  readonly ended: Promise<number>;
}

const SIZE = { rows: 33, columns: 99 };
/** The output of `stty size` once the size has arrived. */
export const TERMINAL_SIZE = `${SIZE.rows} ${SIZE.columns}`;
/** Shell command that prints `TERMINAL_SIZE` once. kubectl attaches with another size first and sends the real one later. */
export const AWAIT_SIZE = `until stty size | busybox grep -x '${TERMINAL_SIZE}'; do sleep 0.1; done`;

/** util-linux's `script` makes the terminal; every Debian has it. */
export function openTerminal(command: readonly string[], environment: Readonly<Record<string, string>>): Terminal {
  const line = `stty rows ${SIZE.rows} columns ${SIZE.columns}; exec ${command.map(quoted).join(" ")}`;
  const child = spawn("script", ["--quiet", "--return", "--command", line, "/dev/null"], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, ...environment, SHELL: "/bin/sh" },
  });
  let screen = "";
  let seen = 0;
  child.stdout.setEncoding("utf8").on("data", (text: string) => (screen += text.replaceAll("\r", "")));
  child.stdin.on("error", () => undefined); // it has exited with a code of its own
  const ended = new Promise<number>((resolve) => void child.once("close", (code) => resolve(code ?? -1)));
  return {
    screen: () => screen,
    type: (text) => void child.stdin.write(text),
    async see(text, timeoutMs) {
      await eventually(
        `on the screen: ${text}`,
        () => {
          const rest = screen.slice(seen);
          const found = typeof text === "string" ? { index: rest.indexOf(text), length: text.length } : foundIn(rest, text);
          if (found.index === -1) throw new Error(screen);
          seen += found.index + found.length;
          return true;
        },
        timeoutMs,
      );
    },
    async close() {
      child.kill("SIGKILL"); // the process group gets SIGHUP
      await ended;
    },
    ended,
  };
}

function foundIn(text: string, pattern: RegExp): { readonly index: number; readonly length: number } {
  const match = pattern.exec(text);
  return { index: match?.index ?? -1, length: match?.[0].length ?? 0 };
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
