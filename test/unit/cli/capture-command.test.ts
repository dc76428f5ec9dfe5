/**
 * `deltaloop capture` as a process, beside an API server in memory. Catches an earlier capture that is lost for one that never began, and
 * one that cannot be read while it runs.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { createSystemClock } from "../../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../../shared/base/system/random.ts";
import { createApiServer } from "../../../shared/api-server/api-server.ts";
import { serveHttp, type HttpApiServer } from "../../../shared/api-server/http.ts";
import { eventually } from "../../support/eventually.ts";
import { kubeconfigOf } from "../../support/kubeconfig.ts";

const MAIN = join(import.meta.dirname, "../../../cli/main.ts");
const OLD = "the evidence of an earlier incident\n";

let api: HttpApiServer;
let folder: string;
let running: Capture | undefined;
beforeAll(async () => void (api = await serveHttp(createApiServer({ clock: createSystemClock(), random: createSystemRandom() }))));
afterAll(() => api.close());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "deltaloop-capture-"));
  writeFileSync(join(folder, "kubeconfig"), kubeconfigOf({ server: api.url }));
  writeFileSync(join(folder, "old.jsonl"), OLD);
});
afterEach(async () => {
  await running?.end();
  running = undefined;
  rmSync(folder, { recursive: true });
});

class Capture {
  stdout = "";
  stderr = "";
  readonly exited: Promise<number | null>;
  readonly #child: ChildProcess;

  constructor(...parameters: readonly string[]) {
    const command = [MAIN, "capture", "--kubeconfig", "kubeconfig", ...parameters];
    const child = spawn(process.execPath, command, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.setEncoding("utf8").on("data", (text: string) => (this.stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (this.stderr += text));
    this.exited = new Promise((resolve) => child.once("close", resolve));
    this.#child = child;
  }

  /** Whose end a test need not wait for. */
  static begin(...parameters: readonly string[]): Capture {
    running = new Capture(...parameters);
    return running;
  }

  async end(signal: NodeJS.Signals = "SIGINT"): Promise<number | null> {
    this.#child.kill(signal);
    return await this.exited;
  }
}

const content = (name: string): string => readFileSync(join(folder, name), "utf8");
/** Of the cached resources, and of what findings need and this API server has: events, nodes, resourcequotas. */
const hasLists = (text: string): boolean => text.split('"k":"listend"').length === 8;

it("refuses an existing file before any request, unless it is empty", async () => {
  const capture = Capture.begin("-o", "old.jsonl");
  expect(await capture.exited).toBe(2);
  expect(capture.stderr).toBe("deltaloop: old.jsonl exists and is not empty: move it, name another file, or overwrite it with --force\n");
  expect(content("old.jsonl")).toBe(OLD);
  writeFileSync(join(folder, "empty.jsonl"), "");
  const other = Capture.begin("-o", "empty.jsonl");
  await eventually("it is written", async () => hasLists(content("empty.jsonl")));
  expect(await other.end()).toBe(0);
});

it("refuses files of an earlier rotated capture at the start", async () => {
  writeFileSync(join(folder, "c.0003.jsonl"), OLD);
  const capture = Capture.begin("-o", "c.jsonl", "--rotate-every", "1h");
  expect(await capture.exited).toBe(2);
  expect(capture.stderr).toContain("c.0003.jsonl exists and is not empty");
  expect(readdirSync(folder).toSorted()).toEqual(["c.0003.jsonl", "kubeconfig", "old.jsonl"]);
});

describe("--force", () => {
  it("overwrites a file once the first list is answered; the file is then readable", async () => {
    const capture = Capture.begin("-o", "old.jsonl", "--force");
    await eventually("it is written", async () => hasLists(content("old.jsonl")));
    expect(content("old.jsonl")).not.toContain(OLD);
    expect(await capture.end()).toBe(0);
  });

  it("leaves the file unchanged if no list is answered", async () => {
    writeFileSync(join(folder, "kubeconfig"), kubeconfigOf({ server: "http://127.0.0.1:9" }));
    const capture = Capture.begin("-o", "old.jsonl", "--force");
    await eventually("it has tried", async () => capture.stderr.includes("waiting for the API server"));
    expect(await capture.end()).toBe(0);
    expect(content("old.jsonl")).toBe(OLD);
  });
});

it("writes only lines to standard output", async () => {
  const capture = Capture.begin("-o", "-");
  await eventually("they are there", async () => hasLists(capture.stdout));
  expect(await capture.end()).toBe(0);
  for (const line of capture.stdout.trimEnd().split("\n")) expect(JSON.parse(line)).toHaveProperty("t");
  expect(capture.stderr).toMatch(/into standard output.*\n(?:.*\n)*\d+ lines written\n$/);
  const several = Capture.begin("-o", "-", "--rotate-every", "1h");
  expect(await several.exited).toBe(2);
  expect(several.stderr).toBe("deltaloop: standard output cannot be rotated: name a file\n");
});
