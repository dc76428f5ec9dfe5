/**
 * The cost of a recording: events replayed per second (each message once and in order), the time to print its history, the time to run it
 * again in the simulation, and the CPU cost of writing one watch event, compared with decoding the line, which the watching process does in
 * any case.
 */
import { join } from "node:path";
import { functionHandlers } from "../../cli/functions/functions.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { closedReplay } from "../../shared/replay/closed/closed.ts";
import { storyOf } from "../../shared/replay/explain/story.ts";
import { recordingWatch } from "../../shared/replay/capture-format/recorder.ts";
import { replay } from "../../shared/replay/engine/replay.ts";
import type { ReplayedSync } from "../../shared/replay/engine/sync-log.ts";
import type { Release } from "../../shared/kube/releases.ts";
import { releaseOfCapture } from "../captures/releases.ts";
import { silentLog } from "../support/silent-log.ts";
import { KIND_SAMPLES } from "./objects.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";
import { changesOf, heldCapture, lifeOf, objectChanges, readCapture } from "../support/held-capture.ts";

const ROUNDS = 9;
const LINES = 5_000;
const CAPTURE = join(import.meta.dirname, "../captures/rollover.watch.jsonl.gz");
const release = (): Release => releaseOfCapture("rollover");

export async function bench(): Promise<readonly BenchResult[]> {
  const digester = createDigester("a key of this bench alone, long enough");
  const records = readCapture(CAPTURE);
  const events = records.filter(({ kind }) => kind === "event").length;
  const replayed = async (): Promise<readonly ReplayedSync[]> => {
    const syncs: ReplayedSync[] = [];
    const options = { digester, seed: 1, release, log: silentLog, functions: functionHandlers, faults: () => ({}) };
    await replay(heldCapture(records), { ...options, onSync: (sync) => void syncs.push(sync) });
    return syncs;
  };
  const explained = async (): Promise<unknown> =>
    storyOf({ resource: "deployments", namespace: "default", name: "web" }, objectChanges(records, digester), await replayed());
  const lived = async (): Promise<unknown> => {
    const changes = changesOf(records, { name: CAPTURE, digester, malformed: () => undefined });
    const options = { digester, seed: 1, release, log: silentLog, functions: functionHandlers };
    return closedReplay(lifeOf(changes), { ...options, onSync: () => undefined, onPerson: () => undefined });
  };
  const times = await timed(replayed);
  return [
    benchResult(
      "events replayed, rollover",
      "1/s",
      times.map((ms) => (events / ms) * 1000),
    ),
    benchResult("explain of a Deployment, rollover", "ms", await timed(explained)),
    benchResult("replay --closed, rollover", "ms", await timed(lived)),
    ...(await recorded()),
  ];
}

/** Returns the milliseconds of each round. */
async function timed(work: () => Promise<unknown>): Promise<readonly number[]> {
  const rounds: number[] = [];
  for (let round = -2; round < ROUNDS; round++) {
    const start = performance.now();
    await work();
    if (round >= 0) rounds.push(performance.now() - start); // the first rounds warm up
  }
  return rounds;
}

/** Measures the cost of one pod event, in µs. */
async function recorded(): Promise<readonly BenchResult[]> {
  const pod = KIND_SAMPLES.find(({ resource }) => resource === "pods")?.object;
  const line = JSON.stringify({ type: "MODIFIED", object: pod });
  const decoded = await perLine(() => {
    for (let i = 0; i < LINES; i++) sink = JSON.parse(line);
    return Promise.resolve();
  });
  const against = { name: "decoding the line", value: benchResult("", "µs", decoded).value };
  const of = async (name: string, raw: boolean): Promise<BenchResult> =>
    benchResult(name, "µs", await perLine(() => written(line, raw)), against);
  const results = [await of("capture of one pod's event, stripped", false), await of("capture of one pod's event, whole", true)];
  if (sink === undefined) throw new Error("nothing was written");
  return results;
}

let sink: unknown;

async function perLine(work: () => Promise<void>): Promise<readonly number[]> {
  return (await timed(work)).map((ms) => (ms / LINES) * 1000);
}

async function written(line: string, raw: boolean): Promise<void> {
  async function* watch(): AsyncGenerator<readonly string[]> {
    for (let i = 0; i < LINES / 10; i++) yield Array.from({ length: 10 }, () => line);
  }
  const recorder = recordingWatch(
    { listPage: () => Promise.resolve({ resourceVersion: "1", items: [] }), watch, newestVersion: () => Promise.resolve("1") },
    {
      ...{ write: (text) => void (sink = text), clock: { now: Date.now, after: () => Promise.resolve() } },
      ...{ digester: createDigester("a key of this bench alone, long enough"), raw, server: "s" },
    },
  );
  const query = { allowWatchBookmarks: true, timeoutSeconds: 1 };
  for await (const group of recorder.watch("pods", query, new AbortController().signal)) sink = group;
}
