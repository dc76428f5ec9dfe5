/**
 * `deltaloop dev` as a process. Catches: a Ctrl-C during the start, which every process of a terminal receives, that is reported as a
 * failure of components, and leftover key files.
 */
import { spawn, spawnSync, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";

import { afterAll, beforeAll, expect, it } from "vitest";

import { createSystemClock } from "../../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../../shared/base/system/random.ts";
import { createApiServer } from "../../../shared/api-server/api-server.ts";
import { serveHttp, type HttpApiServer } from "../../../shared/api-server/http.ts";
import { kubeconfigOf } from "../../support/kubeconfig.ts";

const MAIN = join(import.meta.dirname, "../../../cli/main.ts");

let api: HttpApiServer;
let folder: string;
beforeAll(async () => {
  api = await serveHttp(createApiServer({ clock: createSystemClock(), random: createSystemRandom() }));
  folder = mkdtempSync(join(tmpdir(), "deltaloop-dev-test-"));
  writeFileSync(join(folder, "kubeconfig"), kubeconfigOf({ server: api.url }));
});
afterAll(async () => {
  await api.close();
  rmSync(folder, { recursive: true });
});

/** Starts `dev` in its own process group, as in a terminal, and waits for the start of its queue, whose process id is returned. */
async function begun(): Promise<{
  readonly dev: ChildProcessByStdio<null, null, Readable>;
  readonly group: number;
  readonly queue: number;
  readonly said: () => string;
  readonly ended: Promise<number | null>;
  /** Resolves when `dev` and its components have exited; each of them holds `dev`'s standard error open. */
  readonly allEnded: Promise<number | null>;
  readonly left: () => readonly string[];
}> {
  const parameters = [MAIN, "dev", "--kubeconfig", "kubeconfig", "--redis", "redis://127.0.0.1:9"]; // the test never reaches this address
  const temporary = mkdtempSync(join(folder, "tmp-"));
  const env = { ...process.env, TMPDIR: temporary };
  const dev = spawn(process.execPath, parameters, { cwd: folder, env, detached: true, stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  const queue = await new Promise<number>((resolve) => {
    dev.stderr.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      const pid = /queue started .*?pid\D*(\d+)/.exec(said)?.[1];
      if (pid !== undefined) resolve(Number(pid));
    });
  });
  const ended = new Promise<number | null>((resolve) => dev.once("exit", resolve));
  const allEnded = new Promise<number | null>((resolve) => dev.once("close", resolve));
  return { dev, group: -(dev.pid ?? 0), queue, said: () => said, ended, allEnded, left: () => readdirSync(temporary) };
}

it("[informer T125] a second Ctrl-C during the shutdown ends dev immediately, and leaves no key files", async () => {
  const { dev, queue, ended, allEnded, left } = await begun();
  expect(left()).toEqual([expect.stringMatching(/^deltaloop-dev-/)]);
  process.kill(queue, "SIGSTOP"); // `dev` waits for it
  dev.kill("SIGHUP");
  dev.kill("SIGINT");
  expect([129, 130]).toContain(await ended); // depends on which one is reported last
  expect(left()).toEqual([]);
  process.kill(queue, "SIGCONT");
  await allEnded;
});

it("[informer T125] a component also exits if its parent exited before the component started", async () => {
  const queue = spawn(process.execPath, [MAIN, "queue", "--child"], { stdio: ["pipe", "ignore", "ignore"] });
  queue.stdin.end();
  expect(await once(queue, "exit")).toEqual([0, null]);
});

it("Ctrl-C while the components start ends all of them without an error", async () => {
  const { group, said, allEnded, left } = await begun();
  process.kill(group, "SIGINT");
  expect(await allEnded).toBe(0);
  expect(said()).not.toContain("before it was ready");
  expect(() => process.kill(group, 0)).toThrow("ESRCH");
  expect(left()).toEqual([]);
});

it("does not report a component as failed if Ctrl-C ended it before dev received the signal", async () => {
  const { dev, queue, said, allEnded, left } = await begun();
  process.kill(queue, "SIGINT"); // the signal also ends processes that are starting
  await expect.poll(() => isThere(queue), { interval: 1 }).toBe(false);
  dev.kill("SIGINT");
  expect(await allEnded, said()).toBe(0);
  expect(said()).not.toContain("died");
  expect(left()).toEqual([]);
});

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

it.each([
  { args: ["dev", "site.ts", "--clusters", "."], why: "--clusters serves the built-in controllers only" },
  { args: ["dev", "--clusters", ".", "--kubeconfig", "kubeconfig"], why: "--kubeconfig applies to one cluster" },
  { args: ["dev", "--clusters", ".", "--watchers", "2"], why: "--watchers needs --act" },
  { args: ["dev", "--allow", "exec"], why: "--allow needs --clusters" },
  { args: ["host", "--invocations", "x"], why: "name either --kubeconfig or --clusters" },
])("rejects $args", ({ args, why }) => {
  const { status, stderr } = spawnSync(process.execPath, [MAIN, ...args], { cwd: folder, encoding: "utf8" });
  expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringContaining(why) });
});
