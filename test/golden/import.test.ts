/**
 * A scene recorded as a capture, as the JSON of a watch, and as an audit log must be the same after each import. Also imports archives of
 * other tools.
 */
import { readFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, describe, expect, it } from "vitest";
import { describeTrace } from "../../cli/explain/describe.ts";
import { functionHandlers } from "../../cli/functions/functions.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { OWN_RELEASE } from "../../shared/kube/releases.ts";
import { CACHED_RESOURCES } from "../../shared/kube/objects/resources.ts";
import { type CaptureRecord } from "../../shared/replay/capture-format/capture.ts";
import { importFiles } from "../../shared/replay/import/import.ts";
import { captureLines } from "../../shared/replay/import/imported.ts";
import { ImportReport } from "../../shared/replay/import/report.ts";
import { replay, type ReplaySummary } from "../../shared/replay/engine/replay.ts";
import { releaseOfCapture } from "../captures/releases.ts";
import { silentLog } from "../support/silent-log.ts";
import { heldCapture, parseCapture, readCapture } from "../support/held-capture.ts";

const TOP = mkdtempSync(join(tmpdir(), "deltaloop-import-"));
afterAll(() => rmSync(TOP, { recursive: true }));

/** Scenes whose audit log also contains every write of a pod. */
const SCENES = [
  "adopted",
  "controller",
  "controller-refused",
  "not-ready-first",
  "owner-deleted",
  "refused",
  "replica-set-deleted",
  "settled",
];
const fileOf = (name: string): string => new URL(`../captures/${name}`, import.meta.url).pathname;

interface Told {
  readonly summary: ReplaySummary;
  /** The decisions for each key, without repetitions. */
  readonly writes: ReadonlyMap<string, readonly string[]>;
}

/** @param name the recording whose release decides; default: the current release */
async function replayed(records: readonly CaptureRecord[], name?: string): Promise<Told> {
  const release = name === undefined ? OWN_RELEASE : releaseOfCapture(name);
  const writes = new Map<string, string[]>();
  const summary = await replay(heldCapture(records), {
    digester: createDigester("a key of this test alone"),
    seed: 1,
    release: () => release,
    log: silentLog,
    functions: functionHandlers,
    onSync: ({ controller, key, lines }) => {
      const said = lines
        .filter(({ kind }) => kind === "decided")
        .map(describeTrace)
        .join("; ");
      const id = `${controller} ${key}`;
      const known = writes.get(id) ?? [];
      if (said !== "" && said !== known.at(-1)) known.push(said);
      writes.set(id, known);
    },
  });
  return { summary, writes };
}

async function imported(
  paths: readonly string[],
  redact = true,
): Promise<{ readonly records: readonly CaptureRecord[]; readonly report: readonly string[]; readonly text: string }> {
  const report = new ImportReport();
  const lines = [...captureLines(await importFiles(paths, report), { digester: createDigester("another key"), redact, report })];
  const text = lines.join("\n");
  return { records: parseCapture(text, "imported"), report: report.lines(), text };
}

/** A capture as kubectl prints it: one file for each resource, indented, and without times. */
function asKubectl(name: string): readonly string[] {
  const folder = mkdtempSync(join(TOP, "kubectl-"));
  const lines = gunzipSync(readFileSync(fileOf(`${name}.watch.jsonl.gz`)))
    .toString()
    .trim()
    .split("\n");
  const events = lines.map((line) => JSON.parse(line) as { readonly r?: string; readonly type?: string; readonly object?: object });
  return CACHED_RESOURCES.map((resource) => {
    const path = join(folder, `${resource}.json`);
    const own = events.filter(({ r, type }) => r === resource && type !== undefined);
    writeFileSync(path, own.map(({ type, object }) => JSON.stringify({ type, object }, undefined, 4)).join("\n"));
    return path;
  });
}

/**
 * Returns the part of a recording that the audit log also contains: these logs lack bindings, so the states after a binding are omitted.
 */
function knownToBoth(recorded: readonly CaptureRecord[], audited: readonly CaptureRecord[]): readonly (readonly CaptureRecord[])[] {
  const events = (records: readonly CaptureRecord[]): readonly CaptureRecord[] => records.filter(({ kind }) => kind === "event");
  const versionOf = ({ object }: CaptureRecord): number =>
    // every object of a capture has one
    Number(((object?.["metadata"] ?? object ?? {}) as Readonly<Record<string, unknown>>)["resourceVersion"]);
  const idOf = (record: CaptureRecord): string => `${record.resource} ${versionOf(record)}`;
  const times = new Map(events(audited).map((record) => [idOf(record), record]));
  const both = events(recorded).filter((record) => times.has(idOf(record)));
  const known = new Set(both.map(idOf));
  return [both, events(audited).filter((record) => known.has(idOf(record)))].map((records) =>
    records
      .toSorted((a, b) => (idOf(a) < idOf(b) ? -1 : 1))
      .map((record, index) => ({ ...record, atMs: (both[0]?.atMs ?? 0) + 100 * index })),
  );
}

describe.each(SCENES)("%s", (name) => {
  it("a capture, a watch and an audit log lead to the same final cache", async () => {
    const recorded = await replayed(readCapture(fileOf(`${name}.watch.jsonl.gz`)), name);
    const watched = await replayed((await imported(asKubectl(name))).records, name);
    const audited = await replayed((await imported([fileOf(`${name}.audit.jsonl.gz`)])).records, name);
    expect(watched.summary.cacheDigest).toBe(recorded.summary.cacheDigest);
    expect(audited.summary.cacheDigest).toBe(recorded.summary.cacheDigest);
  });

  it("yields equal decisions on states that both watch and audit log contain", async () => {
    const audit = await imported([fileOf(`${name}.audit.jsonl.gz`)], false);
    const [recorded = [], audited = []] = knownToBoth(readCapture(fileOf(`${name}.watch.jsonl.gz`)), audit.records);
    expect(recorded.length).toBeGreaterThan(15);
    expect((await replayed(audited, name)).writes).toEqual((await replayed(recorded, name)).writes);
  });
});

/** The input of apply-deltas for a recording, from the watcher's own packs. */
async function messagesOf(name: string): Promise<readonly string[]> {
  const events: string[] = [];
  const release = releaseOfCapture(name);
  await replay(heldCapture(readCapture(fileOf(`${name}.watch.jsonl.gz`))), {
    release: () => release,
    ...{ digester: createDigester("a key of this test alone"), seed: 1, log: silentLog, faults: () => ({}), onSync: () => undefined },
    functions: (wiring, onChanges) => {
      const handlers = functionHandlers(wiring, onChanges);
      return {
        ...handlers,
        applyDeltas: (event, context) => {
          events.push(JSON.stringify(event));
          return handlers.applyDeltas(event, context);
        },
      };
    },
  });
  return events;
}

const packsOf = (events: readonly string[]): string => {
  const path = join(mkdtempSync(join(TOP, "queue-")), "messages.json");
  writeFileSync(path, events.join("\n"));
  return path;
};

describe.each([...SCENES, "rollover", "undo", "rc-quota"])("%s, as messages of the queue", (name) => {
  it("a replay of queue messages leads to the same final cache, without missing messages", async () => {
    const recorded = await replayed(readCapture(fileOf(`${name}.watch.jsonl.gz`)), name);
    const { records, report, text } = await imported([packsOf(await messagesOf(name))]);
    expect((await replayed(records, name)).summary.cacheDigest).toBe(recorded.summary.cacheDigest);
    expect(report.filter((line) => line.startsWith("not imported"))).toEqual([]);
    expect(text).not.toContain('"k":"gap"');
  });
});

it("QM2 reports in capture and report where queue messages are missing", async () => {
  const events = await messagesOf("rollover");
  const half = events.length >> 1;
  const { report, text } = await imported([packsOf([...events.slice(0, half), ...events.slice(half + 3)])]);
  expect(text).toContain('"k":"gap"');
  expect(report.filter((line) => line.startsWith("not imported")).join("\n")).toMatch(
    /messages of (?:pods|replicasets|deployments) between two/,
  );
  const notes: string[] = [];
  parseCapture(text, "f", (note) => notes.push(note));
  expect(notes.join("\n")).toMatch(/^f:\d+: messages of \w+ are missing: changes between versions \d+ and \d+ are unknown/);
});

it.each(["auto-discovery", "basic-workloads", "crash-loop", "multi-namespace"])("%s.kshrk is imported and replayed", async (name) => {
  const { records, report } = await imported([fileOf(`kshrk/${name}.kshrk`)]);
  const { summary } = await replayed(records);
  expect(summary.quarantined).toBe(0);
  expect(summary.objects.deployments).toBeGreaterThan(0);
  expect(summary.objects.pods).toBeGreaterThan(0);
  expect(report.join("\n")).toContain("changes between two polls of a list");
});
