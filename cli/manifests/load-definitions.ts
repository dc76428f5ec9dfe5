/** Loads files of controllers in a worker thread, so that code which never ends cannot block the command. Their output goes to stderr. */
import { spawnSync } from "node:child_process";
import { statSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import { UsageError } from "@deltaloop/base";
import { messageOf } from "@deltaloop/kube/objects";
import type { Definition } from "@deltaloop/sdk/definitions";

const LOAD_MS_MAX = 5_000;
/** Runs in the worker. A controller is recognized by a property, so that the file may use another copy of the package. */
const WORKER = `
const { parentPort, workerData } = require("node:worker_threads");
const isController = (value) => value !== null && typeof value === "object" && Symbol.for("deltaloop.controller") in value;
import(workerData).then((exports) => {
  parentPort.postMessage(Object.values(exports).filter(isController).map(({ definition }) => definition));
});`;

/** The definitions that a file exports. @throws {UsageError} with a one-line message */
export async function loadDefinitions(file: string): Promise<readonly Definition[]> {
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) throw new UsageError(`${file}: there is no such file`);
  const worker = new Worker(WORKER, { eval: true, workerData: pathToFileURL(file).href, stdout: true });
  // Uses no pipe, because a dozen files would add a dozen listeners to stderr.
  worker.stdout.on("data", (text) => process.stderr.write(text));
  try {
    const definitions = await answerOf(worker, file);
    if (definitions.length > 0) return definitions;
    throw new UsageError(`${file}: exports no controller: export what defineController returns`);
  } finally {
    await worker.terminate();
  }
}

async function answerOf(worker: Worker, file: string): Promise<readonly Definition[]> {
  const answer = Promise.withResolvers<readonly Definition[]>();
  const fail = (problem: string): void => answer.reject(new UsageError(`${file}: ${problem}`));
  const timer = setTimeout(() => fail(`does not load within ${LOAD_MS_MAX / 1_000} s: move slow work into \`sync\``), LOAD_MS_MAX);
  // The message is what WORKER posts.
  worker.once("message", (definitions: readonly Definition[]) => answer.resolve(definitions));
  worker.once("error", (error) => fail(`does not load: ${lineOf(error, file)}${firstLine(messageOf(error))}`));
  worker.once("exit", () => fail("ended the process while it loaded: call no process.exit"));
  try {
    return await answer.promise;
  } finally {
    clearTimeout(timer);
  }
}

/** `line 3: `, from the first place in the file that Node reports. */
function lineOf(error: unknown, file: string): string {
  if (!(error instanceof Error)) return "";
  // The stack of a SyntaxError in JavaScript does not contain the position, but the text that Node prints does.
  const printed = (): string => spawnSync(process.execPath, ["--check", file], { encoding: "utf8", timeout: LOAD_MS_MAX }).stderr;
  const line = lineIn(error.stack ?? "", file) ?? (error.name === "SyntaxError" ? lineIn(printed(), file) : undefined);
  return line === undefined ? "" : `line ${line}: `;
}

function lineIn(text: string, file: string): number | undefined {
  const names = [pathToFileURL(file).href, resolve(file)];
  const at = names.map((name) => text.indexOf(`${name}:`) + name.length + 1).find((start) => /^\d/.test(text.slice(start)));
  return at === undefined ? undefined : Number.parseInt(text.slice(at), 10);
}

function firstLine(text: string): string {
  return text.trim().split("\n")[0] ?? "";
}
