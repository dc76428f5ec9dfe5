// Replays of recorded captures.
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { describe, expect, it, test } from "vitest";
import { functionHandlers } from "../../cli/functions/functions.ts";
import { faultsIn } from "../../cli/replay/replay-faults.ts";
import { recordedRelease } from "../../cli/capture/recorded-release.ts";
import { describeTrace } from "../../cli/explain/describe.ts";
import { ALL_RELEASES } from "../../shared/kube/releases.ts";
import type { Release } from "../../shared/kube/releases.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { openCapture } from "../../shared/replay/capture-format/capture-stream.ts";
import { replay, type ReplaySummary } from "../../shared/replay/engine/replay.ts";
import { releaseOfCapture } from "../captures/releases.ts";
import { heldCapture, readCapture } from "../support/held-capture.ts";

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
const capture = (name: string) => readCapture(new URL(`../captures/${name}.watch.jsonl.gz`, import.meta.url).pathname);

async function run(
  name: string,
  seed: number,
  release = releaseOfCapture(name),
  faults = "none",
): Promise<{ readonly lines: readonly string[]; readonly errors: readonly string[]; readonly summary: ReplaySummary }> {
  const lines: string[] = [];
  const errors: string[] = [];
  const summary = await replay(heldCapture(capture(name)), {
    digester: createDigester("a key of this test alone", ALL_RELEASES),
    seed,
    release: () => release,
    faults: faultsIn(faults),
    log: silent,
    functions: functionHandlers,
    onSync: (sync) => {
      if (sync.error !== undefined) errors.push(`${sync.key}: ${sync.error}`);
      for (const line of sync.lines) if (line.kind === "decided") lines.push(`${sync.controller} ${sync.key}: ${describeTrace(line)}`);
    },
  });
  return { lines, errors, summary };
}

it.each(ALL_RELEASES)("names ReplicaSets by the hash of the recorded cluster's release: $name", async (release) => {
  const { lines, errors } = await run("rolling-update", 1, release);
  const created = lines.flatMap((line) => /create ReplicaSet (\S+)/.exec(line)?.[1] ?? []);
  const recorded = capture("rolling-update").map(
    ({ object }) => (object as { readonly metadata?: { readonly name?: string } } | undefined)?.metadata?.name,
  );
  expect(errors).toEqual([]);
  expect(created.length).toBeGreaterThan(0);
  expect(created.every((name) => recorded.includes(name))).toBe(release.name === releaseOfCapture("rolling-update").name);
});

it("creates no ReplicaSet and starts no rollout when the cluster is upgraded during a rollout", async () => {
  const upgraded = await openCapture(new URL("../captures/healthy/cluster-upgraded.jsonl.gz", import.meta.url).pathname);
  const release = recordedRelease(undefined, upgraded);
  const lines: string[] = [];
  await replay(upgraded, {
    digester: createDigester("a key of this test alone", ALL_RELEASES),
    seed: 1,
    ...(release && { release }),
    log: silent,
    functions: functionHandlers,
    onSync: (sync) => {
      for (const line of sync.lines) if (line.kind === "decided") lines.push(describeTrace(line));
    },
  });
  upgraded.close();
  expect(upgraded.versions?.map(({ kubernetes }) => kubernetes.slice(0, 5))).toEqual(["v1.36", "v1.37"]);
  const created = lines.flatMap((line) => /create ReplicaSet (\S+)/.exec(line)?.[1] ?? []);
  expect(created).toEqual(["web-66598c8859", "web-549746967d"]);
});

describe("under message faults", () => {
  it.each(
    ["none", "duplicate", "delay", "lose", "reorder,duplicate,delay,lose"].flatMap((faults) => [1, 2, 3].map((seed) => ({ faults, seed }))),
  )("$faults, seed $seed: the cache ends in the stream's final state", async ({ faults, seed }) => {
    const options = {
      digester: createDigester("a key of this test alone"),
      seed,
      release: () => releaseOfCapture("undo"),
      log: silent,
      functions: functionHandlers,
      onSync: () => undefined,
    };
    const { cacheDigest } = await replay(heldCapture(capture("undo")), { ...options, faults: faultsIn(faults) });
    expect(cacheDigest).toBe((await firstRun("undo")).summary.cacheDigest);
  });
});

it("stops at the limit, and prints the output up to there", async () => {
  const records = capture("undo");
  const untilMs = (records[0]?.atMs ?? 0) + 3000;
  const times: number[] = [];
  const release = (): Release => releaseOfCapture("undo");
  const options = { digester: createDigester("a key of this test alone"), seed: 1, release, log: silent, functions: functionHandlers };
  const { cacheDigest } = await replay(heldCapture(records), { ...options, untilMs, onSync: ({ atMs }) => void times.push(atMs) });
  expect(times.length).toBeGreaterThan(0);
  expect(Math.max(...times)).toBeLessThanOrEqual(untilMs);
  expect(cacheDigest).not.toBe((await firstRun("undo")).summary.cacheDigest);
});

const firstRuns = new Map<string, ReturnType<typeof run>>();

/** The run with seed 1, shared by several tests. */
function firstRun(name: string): ReturnType<typeof run> {
  const known = firstRuns.get(name) ?? run(name, 1);
  firstRuns.set(name, known);
  return known;
}

interface AuditEvent {
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly objectRef: { readonly resource: string; readonly name: string; readonly subresource?: string };
  readonly responseStatus: { readonly code: number };
  readonly responseObject?: { readonly spec?: { readonly replicas?: number } };
}

/** Sizes that upstream's deployment controller gave to ReplicaSets, as `web-68b7c9b477 2`. */
function upstreamSizes(name: string): ReadonlySet<string> {
  const lines = gunzipSync(readFileSync(new URL(`../captures/${name}.audit.jsonl.gz`, import.meta.url)))
    .toString()
    .trim()
    .split("\n");
  const events = lines.map((line) => JSON.parse(line) as AuditEvent);
  const own = events.filter(
    ({ user, objectRef, responseStatus }) =>
      user.username.endsWith(":deployment-controller") && objectRef.resource === "replicasets" && responseStatus.code < 300,
  );
  return new Set(
    own
      .filter(({ objectRef }) => objectRef.subresource === undefined)
      .map(({ objectRef, responseObject }) => `${objectRef.name} ${responseObject?.spec?.replicas}`),
  );
}

const SIZE =
  /: (?:create ReplicaSet (?<created>\S+) with (?<initial>\d+)|patch ReplicaSet (?<name>\S+): replicas (?:\d+ → )?(?<replicas>\d+))/;

// Upstream acts on the recorded stream within milliseconds, so what we decide a little later may already be done; but
// every size that we decide must be one that upstream chose at some time, and every ReplicaSet must be created with the same template.
// `unseen`: the number of ReplicaSets that upstream created before our decision, so they are already in the stream.
test.each([
  { name: "rolling-update", unseen: 0 },
  { name: "recreate", unseen: 0 },
  { name: "rollover", unseen: 0 },
  { name: "undo", unseen: 2 },
  { name: "pause-resume", unseen: 2 },
])("$name: decides only sizes that upstream decided, and misses at most $unseen of them", async ({ name, unseen }) => {
  const { lines } = await firstRun(name);
  const decided = lines.flatMap((line) => {
    const { created, initial, name: patched, replicas } = SIZE.exec(line)?.groups ?? {};
    return created === undefined && patched === undefined ? [] : [`${created ?? patched} ${initial ?? replicas}`];
  });
  const chosen = upstreamSizes(name);
  expect(decided.length).toBeGreaterThanOrEqual(2);
  expect(decided.filter((size) => !chosen.has(size))).toEqual([]);
  expect([...chosen].filter((size) => !decided.includes(size)).length).toBeLessThanOrEqual(unseen);
});

test("a rolling update ends with upstream's objects in the cache and upstream's names", async () => {
  const { lines, summary } = await firstRun("rolling-update");
  expect(lines.filter((line) => line.includes("create ReplicaSet"))).toEqual([
    "deployment default/web: create ReplicaSet web-68b7c9b477 with 3 replicas",
    "deployment default/web: create ReplicaSet web-dcdd8499d with 1 replica",
  ]);
  expect(summary).toMatchObject({ quarantined: 0, objects: { deployments: 1, replicasets: 2, replicationcontrollers: 0, pods: 3 } });
});

test.each(["rolling-update", "rollover", "recreate", "scale-up-down", "adopt-release", "rc-quota", "pause-resume", "undo"])(
  "the recording %s is read completely, without an error",
  async (name) => {
    const { errors, summary } = await firstRun(name);
    expect(errors).toEqual([]);
    expect(summary.syncs).toBeGreaterThan(0);
  },
);

test("[informer T84] the same seed gives the same decisions, and all seeds give the same final cache", async () => {
  const underFaults = (seed: number) => run("recreate", seed, releaseOfCapture("recreate"), "reorder,duplicate");
  const first = await underFaults(1);
  expect(await underFaults(1)).toEqual(first);
  const others = await Promise.all([2, 3, 4, 5].map(underFaults));
  for (const { summary } of others) expect(summary.cacheDigest).toBe(first.summary.cacheDigest);
  // Otherwise the seed would have no effect, and the test could not fail.
  expect(new Set([first, ...others].map(({ lines }) => lines.join("\n"))).size).toBeGreaterThan(1);
  expect((await firstRun("adopt-release")).summary.cacheDigest).not.toBe(first.summary.cacheDigest);
});
