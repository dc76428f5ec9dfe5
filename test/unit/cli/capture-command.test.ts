/**
 * `deltaloop capture` as a process, with an in-memory API server. Catches: an existing capture that is overwritten by a command that then
 * fails to start, and a capture that cannot be read while it is being recorded.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
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
    const isFetch = parameters[0] === "fetch";
    const command = [MAIN, "capture", ...(isFetch ? [] : ["--kubeconfig", "kubeconfig"]), ...parameters];
    const env = { ...process.env, ...(isFetch && { PATH: `${folder}:/nowhere` }) };
    const child = spawn(process.execPath, command, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.setEncoding("utf8").on("data", (text: string) => (this.stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (this.stderr += text));
    this.exited = new Promise((resolve) => child.once("close", resolve));
    this.#child = child;
  }

  /** Starts a command without waiting for its exit. */
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
/** Number of lists: the four cached resources, and events, nodes, resource quotas, autoscalers and disruption budgets for the findings. */
const LISTS = 9;
const hasLists = (text: string): boolean => text.split('"k":"listend"').length === LISTS + 1;

it("rejects an existing file before any request, unless it is empty", async () => {
  const capture = Capture.begin("-o", "old.jsonl");
  expect(await capture.exited).toBe(2);
  expect(capture.stderr).toBe("deltaloop: old.jsonl exists and is not empty: move it, name another file, or overwrite it with --force\n");
  expect(content("old.jsonl")).toBe(OLD);
  writeFileSync(join(folder, "empty.jsonl"), "");
  const other = Capture.begin("-o", "empty.jsonl");
  await eventually("it is written", async () => hasLists(content("empty.jsonl")));
  expect(await other.end()).toBe(0);
});

it("rejects files of an earlier rotated capture at the start", async () => {
  writeFileSync(join(folder, "c.0003.jsonl"), OLD);
  const capture = Capture.begin("-o", "c.jsonl", "--rotate-every", "1h");
  expect(await capture.exited).toBe(2);
  expect(capture.stderr).toContain("c.0003.jsonl exists and is not empty");
  expect(readdirSync(folder).toSorted()).toEqual(["c.0003.jsonl", "kubeconfig", "old.jsonl"]);
});

describe("--force", () => {
  it("overwrites a file only after the response to the first list, and leaves it readable", async () => {
    const capture = Capture.begin("-o", "old.jsonl", "--force");
    await eventually("it is written", async () => hasLists(content("old.jsonl")));
    expect(content("old.jsonl")).not.toContain(OLD);
    expect(await capture.end()).toBe(0);
  });

  it("leaves the file unchanged if no list gets a response", async () => {
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

describe("fetch", () => {
  /**
   * Replaces the pod of infra/manifests-capture by a local process that kubectl's replacement starts; test/e2e/watcher-image.test.ts uses
   * the real pod.
   */
  const pod = (): void => {
    const script = `#!/bin/sh\nfor word; do shift; [ "$word" = send ] && break; done\nshift\nexec ${process.execPath} ${MAIN} capture send ring.jsonl.gz "$@"\n`;
    writeFileSync(join(folder, "kubectl"), script, { mode: 0o755 });
  };
  const ring = ["-o", "ring.jsonl.gz", "--rotate-every", "1s", "--keep", "5", "--continue"];
  const runs = async (files: number): Promise<void> => {
    const before = readdirSync(folder).length;
    const capture = Capture.begin(...ring);
    await eventually("files are there", () => Promise.resolve(readdirSync(folder).length >= before + files));
    expect(await capture.end()).toBe(0);
  };
  const fetched = async (...parameters: readonly string[]): Promise<Capture> => {
    const command = Capture.begin("fetch", "--context", "prod", "-o", "fetched.jsonl", ...parameters);
    await command.exited;
    return command;
  };

  it("downloads the files of the newest run as one capture, and an earlier run on request", async () => {
    pod();
    await runs(2);
    const one = await fetched();
    expect(one.stderr).toMatch(/^\d+ lines written to fetched\.jsonl; read them with deltaloop explain fetched\.jsonl\n$/);
    const [first] = content("fetched.jsonl").split("\n", 1);
    expect(content("fetched.jsonl").match(/"k":"meta"/g)?.length).toBeGreaterThan(1);
    expect(statSync(join(folder, "fetched.jsonl")).mode & 0o777).toBe(0o600);
    const newest = join(folder, readdirSync(folder).findLast((name) => name.startsWith("ring.")) ?? "");
    truncateSync(newest, statSync(newest).size - 20);
    await fetched();
    for (const line of content("fetched.jsonl").trimEnd().split("\n")) expect(JSON.parse(line)).toHaveProperty("t");
    await runs(1);
    const other = await fetched();
    expect(other.stderr).toContain("capture restarted within --last");
    expect(content("fetched.jsonl")).not.toContain(first);
    await fetched("--earlier");
    expect(content("fetched.jsonl").split("\n", 1)).toEqual([first]);
  });

  it("leaves an earlier file unchanged when the pod has no capture of this time", async () => {
    pod();
    writeFileSync(join(folder, "fetched.jsonl"), OLD);
    const command = await fetched();
    expect(command.stderr).toBe(
      "deltaloop: kubectl exec failed; nothing is written: ring.jsonl.gz: no file was written within --last; use a longer duration\n",
    );
    expect(await command.exited).toBe(1);
    expect(content("fetched.jsonl")).toBe(OLD);
  });

  it("rejects truncated data", async () => {
    writeFileSync(join(folder, "kubectl"), "#!/bin/sh\necho x | /usr/bin/gzip | /usr/bin/head -c 15\n", { mode: 0o755 });
    expect((await fetched()).stderr).toContain("the data of kubectl exec is not complete; nothing is written");
    expect(readdirSync(folder)).not.toContain("fetched.jsonl");
  });

  it("reports a missing kubectl", async () => {
    const command = await fetched();
    expect(command.stderr).toBe("deltaloop: kubectl cannot be run: spawn kubectl ENOENT\n");
    expect(await command.exited).toBe(2);
  });
});
