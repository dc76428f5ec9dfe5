/** `deltaloop replay` as a process. Catches: a stack trace for an invalid file, or when the reader closes the pipe. */
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";

import { afterAll, beforeAll, expect, it } from "vitest";

import { OWN_RELEASE } from "../../../shared/kube/releases.ts";

const ROOT = join(import.meta.dirname, "..", "..", "..");

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "deltaloop-replay-"))));
afterAll(() => rm(folder, { recursive: true }));

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface RunOptions {
  readonly readsOneChunk?: true;
  readonly flags?: readonly string[];
  readonly command?: string;
  /** Options of Node.js. */
  readonly node?: readonly string[];
}

async function replayOf(path: string, options: RunOptions = {}): Promise<Ended> {
  const words = [join(ROOT, "cli/main.ts"), options.command ?? "replay", path, ...(options.flags ?? [])];
  const child = spawn(process.execPath, [...(options.node ?? []), ...words], { stdio: ["ignore", "pipe", "pipe"] });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    if (options.readsOneChunk) child.stdout.destroy();
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const code = await new Promise<number | null>((resolve, reject) => child.once("error", reject).once("close", resolve));
  return { code, stdout, stderr };
}

it("does not treat a closed reader as an error", async () => {
  const ended = await replayOf(join(ROOT, "test/captures/undo.watch.jsonl.gz"), { readsOneChunk: true });
  expect(ended).toMatchObject({ code: 0, stderr: "" });
});

it("rejects a file that is not a capture with exit code 2 and one line without the escapes of the file", async () => {
  const path = join(folder, "escapes");
  await writeFile(path, "\x1b]0;owned\x07");
  const { code, stdout, stderr } = await replayOf(path);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  // oxlint-disable-next-line no-control-regex -- the output must not contain control characters
  expect(stderr).toMatch(/^deltaloop: .*escapes:1: not JSON \([^\x00-\x1f]*\\x1b.*\n$/);
});

/** Peak memory in MB and CPU seconds of a command. */
async function peakOf(...words: readonly string[]): Promise<Ended & { readonly peakMB: number; readonly cpuSeconds: number }> {
  const [command = "", path = "", ...flags] = words;
  const print = `const { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage();
    process.stderr.write("\\nused " + maxRSS + " " + (userCPUTime + systemCPUTime));`;
  const hook = `data:text/javascript,${encodeURIComponent(`process.on("exit", () => {${print}})`)}`;
  const ended = await replayOf(path, { command, flags, node: ["--import", hook] });
  const [, kilobytes, micros] = /\nused (\d+) (\d+)$/.exec(ended.stderr) ?? [];
  return { ...ended, peakMB: Number(kilobytes) / 1024, cpuSeconds: Number(micros) / 1e6 };
}

it.each(["replay", "explain", "shadow"])(
  "%s rejects a gigabyte of blank lines in a megabyte of gzip data, with less than 10 s of CPU and 100 MB of memory",
  async (command) => {
    const path = join(folder, "blank.jsonl.gz");
    const member = gzipSync(Buffer.alloc(2 ** 20, "\n"));
    await writeFile(path, Buffer.concat(Array.from({ length: 1_000 }, () => member)));
    const { peakMB: unused } = await peakOf(command, "--help");
    const { code, stderr, peakMB, cpuSeconds } = await peakOf(command, path);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining("capture has more than 100000 blank lines") as string });
    expect(peakMB - unused).toBeLessThan(100);
    expect(cpuSeconds).toBeLessThan(10);
  },
);

it("escapes names in a capture", async () => {
  const path = join(folder, "names.jsonl");
  const rs = {
    kind: "ReplicaSet",
    metadata: { namespace: "shop", name: "web\x1b[2J", uid: "u", resourceVersion: "7", generation: 1 },
    spec: { replicas: 1, selector: { matchLabels: { app: "web" } }, template: { metadata: { labels: { app: "web" } }, spec: {} } },
  };
  await writeFile(path, `${JSON.stringify({ t: "2026-03-01T10:00:00Z", type: "ADDED", object: rs })}\n`);
  const { code, stdout } = await replayOf(path);
  expect(code).toBe(0);
  expect(stdout).toContain("replicaset.apps/web\\x1b[2J");
  expect(stdout).not.toContain("\x1b");
});

it("returns the same output for the same seed, and lists with --verbose what a replay cannot reproduce", async () => {
  const path = join(ROOT, "test/captures/recreate.watch.jsonl.gz");
  const [one, two, other, verbose] = await Promise.all([
    replayOf(path),
    replayOf(path),
    replayOf(path, { flags: ["--seed", "2"] }),
    replayOf(path, { flags: ["--verbose"] }),
  ]);
  expect(one.stdout).toBe(two.stdout);
  expect(one.stdout).toMatch(/Decision digest of seed 1 [0-9a-f]{64}\n$/u);
  expect(other.stdout.split("\n").at(-2)).not.toBe(one.stdout.split("\n").at(-2));
  expect([one.stdout.includes("not decided"), verbose.stdout.includes("not decided")]).toEqual([false, true]);
});

const UNDO = join(ROOT, "test/captures/undo.watch.jsonl.gz");

it("shows the syncs of one key at a given time with their reasons, while the digest covers all syncs", async () => {
  const whole = await replayOf(UNDO);
  const { code, stdout } = await replayOf(UNDO, { flags: ["--key", "deploy/web", "--at", "+5s", "--why"] });
  const blocks = stdout.split("\n").filter((line) => /^\d\d:\d\d:/.test(line));
  expect({ code, blocks: blocks.length }).toEqual({
    code: 0,
    blocks: expect.toSatisfy((count: number) => count === 1 || count === 2) as number,
  });
  expect(blocks.every((line) => line.includes(" deployment.apps/web -n default: "))).toBe(true);
  expect(stdout).toContain("because ");
  expect(stdout.trimEnd().split("\n").at(-1)).toBe(whole.stdout.trimEnd().split("\n").at(-1));
});

it("shows an object at a given time, and the events before and after", async () => {
  const shown = await replayOf(UNDO, { flags: ["--show", "deploy/web", "--at", "+5s"] });
  expect(shown.code).toBe(0);
  expect(shown.stdout).toMatch(/^# deployment\.apps\/web -n default at .* version \d+, since /);
  expect(shown.stdout).toMatch(/^# before: version \d+ at .*\n# next: version \d+ at /m);
  expect(shown.stdout).toContain("digest: ");
  expect((await replayOf(UNDO, { flags: ["--show", "deploy/web", "--at", "0"] })).stdout).toContain(": not created yet");
});

it.each([
  { flags: ["--key", "pod/x"], said: "pod/x is not in the capture" },
  { flags: ["--key", "web"], said: "web is not an object" },
  { flags: ["--faults", "fire"], said: 'not "fire"' },
  { flags: ["--until", "+900s"], said: "--until +900s is outside the capture" },
  { flags: ["--step"], said: "--step waits for Enter: it needs a terminal" },
])("rejects $flags in one line, with code 2", async ({ flags, said }) => {
  const { code, stdout, stderr } = await replayOf(UNDO, { flags });
  expect({ code, stdout, lines: stderr.trimEnd().split("\n").length }).toEqual({ code: 2, stdout: "", lines: 1 });
  expect(stderr).toContain(said);
});

const metaLine = (release: string, t = "2026-03-01T10:00:00Z"): string =>
  JSON.stringify({ t, k: "meta", format: 2, raw: true, kubernetes: `v${release}.0` });

/** Returns the output of `replay` for the rolling update, as if it had been recorded on this release. */
async function named(
  release: string,
  ...flags: readonly string[]
): Promise<{ readonly names: readonly string[] | null; readonly stderr: string }> {
  const lines = gunzipSync(await readFile(join(ROOT, "test/captures/rolling-update.watch.jsonl.gz")));
  const path = join(folder, `${release} ${flags.join(" ")}.jsonl`);
  await writeFile(path, `${metaLine(release)}\n${lines.toString()}`);
  const { stdout, stderr } = await replayOf(path, { flags });
  return { names: stdout.match(/(?<=create ReplicaSet )\S+/g), stderr };
}

it("names ReplicaSets by the release in the capture, unless --kubernetes sets it, and reports an unknown one", async () => {
  const [own, old, chosen, unknown] = await Promise.all([
    named(OWN_RELEASE.name),
    named("1.34"),
    named("1.36", "--kubernetes", "1.34"),
    named("1.20"),
  ]);
  expect(old.names).not.toEqual(own.names);
  expect(chosen).toEqual(old);
  expect(unknown.names).toEqual(own.names);
  expect(unknown.stderr).toBe(`warn: Kubernetes v1.20.0 of the capture is not supported: using the rules of ${OWN_RELEASE.name}\n`);
});

it("--closed computes the names of ReplicaSets as the recorded release does, or as the nearest release that act mode supports", async () => {
  const [recorded, closed, nearest] = await Promise.all([named("1.35"), named("1.35", "--closed"), named("1.34", "--closed")]);
  expect(closed).toEqual(recorded);
  expect(nearest.names).toEqual(recorded.names);
  expect(nearest.stderr).toBe("warn: act mode does not support Kubernetes 1.34: using the rules of 1.35\n");
});

it("follows an upgrade in the middle of a capture, as explain does, and uses the new release's hash for the next rollout", async () => {
  const text = gunzipSync(await readFile(join(ROOT, "test/captures/rolling-update.watch.jsonl.gz"))).toString();
  const path = join(folder, "upgrade.jsonl");
  const [upgradedAt, firstLater = ""] = ["2026-11-20T14:52:53Z", /^.*"2026-11-20T14:52:53.*$/m.exec(text)?.[0]];
  await writeFile(path, `${metaLine("1.36")}\n${text.replace(firstLater, () => `${metaLine("1.37", upgradedAt)}\n${firstLater}`)}`);
  const { stdout, stderr } = await replayOf(path);
  expect(stdout.match(/(?<=create ReplicaSet )\S+/g)).toEqual(["web-68b7c9b477", "web-65d6f949d6"]); // upstream's hashes in 1.36 and in 1.37
  expect(stderr).toBe("");
  const explained = await replayOf(path, { command: "explain", flags: ["deployment/web", "--all"] });
  expect(explained.stdout).toContain("→ create ReplicaSet web-65d6f949d6 with 1 replica");
});
