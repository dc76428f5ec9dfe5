/** fauxqs, an SQS emulator, on a loopback port: in this process or in a child process. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { awsError } from "@deltaloop/store/aws";
import type { SqsCalls } from "@deltaloop/store/sqs";
import { unlessAborted } from "@deltaloop/base";

export interface LocalSqs {
  /** The endpoint URL for `sqsClient`. */
  readonly endpoint: string;
  /** Process id of the emulator: that of this process for `startFauxqs`. */
  readonly pid: number;
  stop(): Promise<void>;
}

/** An emulator in this process. */
export interface OwnSqs extends LocalSqs {
  /** Calls the emulator without a socket, for tests. An aborted call still takes effect. */
  readonly calls: SqsCalls;
}

const START_MS_MAX = 20_000;
const STOP_MS_MAX = 2_000;

/** Starts the emulator in this process. Port 0, the default, selects a free one. (fauxqs' own start function listens on all interfaces.) */
export async function startFauxqs(options: { readonly port?: number } = {}): Promise<OwnSqs> {
  const { buildApp } = await import("fauxqs"); // loaded only when used, because the import is slow
  const app = buildApp({ logger: false });
  const endpoint = await app.listen({ port: options.port ?? 0, host: "127.0.0.1" });
  const calls: SqsCalls = {
    async call(action, input, { signal } = {}) {
      signal?.throwIfAborted();
      const headers = { "content-type": "application/x-amz-json-1.0", "x-amz-target": `AmazonSQS.${action}` };
      const answer = Promise.resolve(app.inject({ method: "POST", url: "/", headers, payload: JSON.stringify(input) }));
      const { statusCode, payload } = await (signal === undefined ? answer : unlessAborted(answer, signal));
      if (statusCode !== 200) throw awsError(action, payload, statusCode);
      return JSON.parse(payload);
    },
    close: () => undefined,
  };
  return { endpoint, pid: process.pid, calls, stop: () => app.close() };
}

/**
 * Starts the emulator as a child process, which also ends when this process does. `command` replaces fauxqs-process.ts in a bundle, where
 * that file does not exist, and must behave like that file.
 */
export async function spawnFauxqs(
  options: { readonly port?: number; readonly command?: readonly [string, ...string[]] } = {},
): Promise<LocalSqs> {
  const [file, ...parameters] = options.command ?? [process.execPath, fileURLToPath(new URL("./fauxqs-process.ts", import.meta.url))];
  const child = spawn(file, [...parameters, String(options.port ?? 0)], { stdio: ["pipe", "pipe", "inherit"] });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const { promise: endpoint, resolve, reject } = Promise.withResolvers<string>();
  child.once("error", reject);
  void exited.then(() => reject(new Error(`the queue process exited with code ${child.exitCode} before it was ready`)));
  const timer = setTimeout(() => reject(new Error(`the queue process was not ready within ${START_MS_MAX} ms`)), START_MS_MAX);
  createInterface({ input: child.stdout }).once("line", resolve);

  async function stop(): Promise<void> {
    child.kill("SIGTERM");
    const killer = setTimeout(() => child.kill("SIGKILL"), STOP_MS_MAX);
    await exited;
    clearTimeout(killer);
  }

  try {
    return { endpoint: await endpoint, pid: child.pid ?? 0, stop };
  } catch (error) {
    await stop();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
