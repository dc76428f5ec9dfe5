/** A function host that a test may kill; it loads the developer's code from files and ends with this process. */
import { fork } from "node:child_process";
import { join } from "node:path";
import type { MessagingChild } from "../../../shared/local/processes.ts";

const MAIN = join(import.meta.dirname, "..", "..", "..", "cli", "main.ts");

/** Like `startMessagingVerb`, but from the test's own program. */
export function startFunctionHost(files: readonly string[]): MessagingChild {
  const child = fork(MAIN, ["own-host", ...files], { serialization: "advanced", stdio: ["ignore", "inherit", "inherit", "ipc"] });
  child.on("error", () => undefined); // the listener in `exited` reports a failed start
  return {
    pid: child.pid ?? Number.NaN,
    exited: new Promise((resolve) => {
      child.once("exit", (code, signal) => resolve({ code, signal }));
      child.once("error", () => resolve({ code: 127, signal: null }));
    }),
    onMessage: (listener) => void child.on("message", listener),
    send: (message) => void (child.connected && child.send(message, () => undefined)),
    kill: () => void child.kill("SIGKILL"),
  };
}
