/** Ends programs when the process that started them ends for any reason. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import type { Socket } from "node:net";

export interface Reaper {
  /** Writes a line to the script's input. */
  tell(line: string): void;
  /** Kills the shell before it acts. Call this when nothing is left to end. */
  dismiss(): Promise<void>;
}

/**
 * Starts a shell whose input is a pipe from this process. `script` reads the pipe to its end, which comes when this process ends (exit,
 * crash, SIGKILL), and then cleans up. A handler on `exit` would not run after SIGKILL or when a test runner terminates its worker.
 */
export function startReaper(given: {
  /** Name in the output of `ps`. */
  readonly name: string;
  readonly script: string;
  /** `$1` and so on. */
  readonly parameters?: readonly string[];
  /** Default: the environment of this process. */
  readonly env?: NodeJS.ProcessEnv;
  /** Called when the shell ends early, so that nothing cleans up after this process. */
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
  // At run time a piped stdin is a Socket, but its declared type is wider.
  const pipe = shell.stdin as Socket;
  pipe.unref();
  pipe.on("error", (error) => onGone?.(error));
  return {
    tell: (line) => void pipe.write(`${line}\n`),
    async dismiss() {
      shell.ref();
      shell.kill("SIGKILL"); // kills the shell before the pipe closes, because the script would otherwise clean up
      await ended;
    },
  };
}

/** Resolves with "exit code 1", "SIGKILL", or the reason why the process did not start. Never rejects. */
export async function endOf(child: ChildProcess): Promise<string> {
  return await new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
}
