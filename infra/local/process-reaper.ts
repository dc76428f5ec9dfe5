/** What ends programs with the one that started them, however that ends. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import type { Socket } from "node:net";

export interface Reaper {
  /** One more line on the script's input. */
  tell(line: string): void;
  /** Sends it home without its work done; call it when nothing it watches is left. */
  dismiss(): Promise<void>;
}

/**
 * A shell that outlives us by a moment. Its input is a pipe from us; `script` reads it to its end, which comes when we are gone for
 * whatever reason (exit, crash, SIGKILL), and then does its work. A handler on `exit` would not run when we are killed, nor when a
 * test runner terminates its worker.
 */
export function startReaper(given: {
  /** What `ps` shows. */
  readonly name: string;
  readonly script: string;
  /** `$1` and so on. */
  readonly parameters?: readonly string[];
  /** Default: ours. */
  readonly env?: NodeJS.ProcessEnv;
  /** The shell is gone before its time: nothing ends anything if we are killed. */
  readonly onGone?: (error: Error) => void;
}): Reaper {
  const { name, script, parameters = [], env, onGone } = given;
  const shell = spawn("/bin/sh", ["-c", script, name, ...parameters], {
    cwd: "/",
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
    ...(env !== undefined && { env }),
  });
  const ended = endOf(shell);
  shell.unref();
  // A piped stdin is a Socket at run time; its declared type is wider.
  const pipe = shell.stdin as Socket;
  pipe.unref();
  pipe.on("error", (error) => onGone?.(error));
  return {
    tell: (line) => void pipe.write(`${line}\n`),
    async dismiss() {
      shell.ref();
      shell.kill("SIGKILL"); // before its pipe closes, or it would do its work
      await ended;
    },
  };
}

/** "exit code 1", "SIGKILL", or why it could not be started. Never rejects. */
export async function endOf(child: ChildProcess): Promise<string> {
  return await new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
}
