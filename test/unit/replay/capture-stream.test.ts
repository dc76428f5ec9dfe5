// Streaming reads of long captures: order, truncation, limits and memory.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";

import { functionHandlers } from "../../../cli/functions/functions.ts";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { CACHED_RESOURCES } from "../../../shared/kube/objects/resources.ts";
import { captureCluster, HELD_MAX, play } from "../../../shared/replay/capture-format/capture-cluster.ts";
import { captureIn, LINES_HELD_MAX, openCapture, type Capture } from "../../../shared/replay/capture-format/capture-stream.ts";
import { CaptureError, type CaptureRecord } from "../../../shared/replay/capture-format/capture.ts";
import { bytesHeld, linesOf as capturedLines, type ByteSource } from "../../../shared/replay/capture-format/line-stream.ts";
import { replay } from "../../../shared/replay/engine/replay.ts";
import { UNWATCHED_MAX } from "../../../shared/replay/capture-format/timeline.ts";
import { WINDOW_LINES } from "../../../shared/replay/capture-format/time-window.ts";
import { longCapture } from "../../support/long-capture.ts";
import { silentLog } from "../../support/silent-log.ts";
import { heldCapture, parseCapture, readCapture } from "../../support/held-capture.ts";

const folder = mkdtempSync(join(tmpdir(), "deltaloop-stream-"));
afterAll(() => rmSync(folder, { recursive: true }));

const fileOf = (name: string, bytes: Uint8Array | string): string => {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
};
const linesOf = (count: number, life = { deployments: 3, pods: 4, stepMs: 20 }): readonly string[] => firstOf(longCapture(life), count);
const opened = (text: string): Promise<Capture> => captureIn(bytesHeld(Buffer.from(text)), "f");
const recordsOf = async (capture: Capture): Promise<readonly CaptureRecord[]> => {
  const records: CaptureRecord[] = [];
  for await (const batch of capture.batches()) records.push(...batch);
  return records;
};

function firstOf(lines: Iterator<string>, count: number): readonly string[] {
  return Array.from({ length: count }, () => String(lines.next().value));
}

describe("a capture read as a stream", () => {
  it.each(["rollover", "rc-quota", "adopt-release"])("%s: a streamed read returns the same records as a complete read", async (name) => {
    const path = join(import.meta.dirname, `../../captures/${name}.watch.jsonl.gz`);
    const capture = await openCapture(path);
    const whole = readCapture(path);
    expect(await recordsOf(capture)).toEqual(whole);
    expect(await recordsOf(capture)).toEqual(whole);
    expect({ ...capture, batches: undefined, close: undefined }).toEqual({ ...heldCapture(whole), batches: undefined, close: undefined });
    capture.close();
  });

  it("a read returns the same records for any chunking and any order of nearby lines", async () => {
    const lines = linesOf(60);
    const want = parseCapture(lines.join("\n"), "f");
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(400), { minLength: 1 }), fc.nat(58), async (sizes, at) => {
        const swapped = [...lines.slice(0, at), ...lines.slice(at, at + 2).toReversed(), ...lines.slice(at + 2)];
        const bytes = Buffer.from(swapped.join("\n"));
        async function* chunks(): AsyncGenerator<Buffer> {
          for (let start = 0, i = 0; start < bytes.length; i++) {
            const size = 1 + (sizes[i % sizes.length] ?? 0);
            yield await Promise.resolve(bytes.subarray(start, start + size));
            start += size;
          }
        }
        const source: ByteSource = { head: bytes.subarray(0, 4), chunks, close: () => undefined };
        expect(await recordsOf(await captureIn(source, "f"))).toEqual(want);
      }),
      { numRuns: 50 },
    );
  });

  it("reads a truncated file up to the cut, and reports it once, even if compressed", async () => {
    const text = linesOf(40).join("\n");
    const whole = parseCapture(text, "f");
    const packed = gzipSync(text);
    const cuts = [
      ...Array.from({ length: 40 }, (_, i) => ({
        bytes: Buffer.from(text).subarray(0, 1000 + i * 97),
        said: /^.*:\d+: skipped the truncated last line/,
      })),
      ...Array.from({ length: 20 }, (_, i) => ({
        bytes: packed.subarray(0, 200 + i * 31),
        said: /the gzip data is truncated; reading ends there/,
      })),
    ];
    for (const { bytes, said } of cuts) {
      const notes: string[] = [];
      const capture = await openCapture(fileOf("cut.jsonl", bytes), { note: (note) => notes.push(note) });
      const records = await recordsOf(capture);
      expect(records).toEqual(whole.slice(0, records.length));
      if (notes.length > 0) expect(notes[0]).toMatch(said);
      expect(new Set(notes).size).toBe(notes.length);
      capture.close();
    }
  });

  it("rejects a gigabyte of blank lines in a megabyte of gzip data early", async () => {
    const member = gzipSync(Buffer.alloc(2 ** 20, "\n"));
    const path = fileOf("blank.jsonl.gz", Buffer.concat(Array.from({ length: 1_000 }, () => member)));
    const from = performance.now();
    await expect(openCapture(path)).rejects.toThrow(`${path}:100001: capture has more than 100000 blank lines; a replay supports no more`);
    expect(performance.now() - from).toBeLessThan(5_000);
  });

  it("groups the lines of one chunk, so that a chunk of blank lines takes little memory", async () => {
    const chunk = Buffer.from(`${"\n".repeat(1_200)}a\nb`);
    const groups: (readonly string[])[] = [];
    for await (const lines of capturedLines(bytesHeld(chunk).chunks(), "f"))
      groups.push(lines.map(({ number, text }) => `${number}${text}`));
    expect(groups.map(({ length }) => length)).toEqual([500, 500, 201, 1]);
    expect(groups.flat().slice(-3)).toEqual(["1200", "1201a", "1202b"]);
  });

  it("buffers a bounded number of lines, whatever the capture's length", async () => {
    const count = 5 * LINES_HELD_MAX;
    let [read, most] = [0, 0];
    const source: ByteSource = {
      head: Buffer.from("{"),
      async *chunks() {
        read = 0;
        for (const line of firstOf(longCapture({ deployments: 3, pods: 4, stepMs: 20 }), count)) {
          read++;
          yield await Promise.resolve(Buffer.from(`${line}\n`));
        }
      },
      close: () => undefined,
    };
    const capture = await captureIn(source, "f");
    expect(capture.records).toBe(count);
    let taken = 0;
    for await (const batch of capture.batches()) {
      most = Math.max(most, read - taken);
      taken += batch.length;
    }
    expect(taken).toBe(count);
    expect(most).toBeLessThanOrEqual(LINES_HELD_MAX);
    expect(most).toBeGreaterThan(WINDOW_LINES);
  });
});

describe("errors before the first event", () => {
  it.each([
    {
      name: "rejects a line that is too far out of order",
      text: [...linesOf(WINDOW_LINES + 200).slice(1), ...linesOf(1)].join("\n"),
      want: /^f:\d+: line is older than a line more than 1000 lines before it; sort the lines by t$/,
    },
    {
      name: "rejects an oversized line",
      text: `${linesOf(1).join("")}\n${"x".repeat(16 * 2 ** 20 + 1)}`,
      want: /^f:2: line is longer than 16 MiB$/,
    },
    {
      name: "rejects a date far in the future",
      text: linesOf(2).join("\n").replace("2026-03-01", "2029-03-01"),
      want: /^f:2: line is more than 24 hours from another line/,
    },
  ])("$name", async ({ text, want }) => {
    await expect(opened(text)).rejects.toThrow(CaptureError);
    await expect(opened(text)).rejects.toThrow(want);
  });

  it("rejects too many objects at one time, and does not count deleted objects", async () => {
    const pad = "x".repeat(2 ** 12);
    const limit = { standingBytesMax: 2 ** 20 };
    const pod = (i: number, type: string): string =>
      JSON.stringify({
        t: "2026-03-01T10:00:00Z",
        r: "pods",
        type,
        object: { metadata: { namespace: "shop", name: `web-${type === "LAST" ? 0 : i}`, uid: "u", resourceVersion: `${i}` }, pad },
      });
    const sourceOf = (types: (i: number) => readonly string[]): ByteSource => ({
      head: Buffer.from("{"),
      async *chunks() {
        for (let i = 0; i < 300; i++) for (const type of types(i)) yield await Promise.resolve(Buffer.from(`${pod(i, type)}\n`));
      },
      close: () => undefined,
    });
    await expect(
      captureIn(
        sourceOf(() => ["ADDED"]),
        "f",
        limit,
      ),
    ).rejects.toThrow(/^f: more than 1 MiB of objects exist at one time/);
    await expect(
      captureIn(
        sourceOf(() => ["ADDED", "DELETED"]),
        "f",
        limit,
      ),
    ).resolves.toMatchObject({ records: 600 });
  }, 30_000);
});

describe("a replay of a long capture", () => {
  it("delivers all events and buffers a bounded number", async () => {
    const lines = linesOf(3 * HELD_MAX);
    const capture = await opened(lines.join("\n"));
    const clock = createVirtualClock(capture.startMs);
    const cluster = captureCluster(capture, CACHED_RESOURCES, clock);
    const ends = new AbortController();
    let [told, most] = [0, 0];
    const watched = async (resource: (typeof CACHED_RESOURCES)[number]): Promise<void> => {
      const { resourceVersion } = await cluster.listPage(resource, {}, ends.signal);
      const query = { resourceVersion, allowWatchBookmarks: true, timeoutSeconds: 1 };
      for await (const group of cluster.watch(resource, query, ends.signal)) told += group.length;
    };
    // Pods are watched only from the middle of the stream on: later watchers receive 410.
    const watching = CACHED_RESOURCES.filter((resource) => resource !== "pods").map((resource) => watched(resource).catch(() => undefined));
    await play(capture, cluster, clock, {
      untilMs: Infinity,
      see: () => (most = Math.max(most, cluster.buffered)),
    });
    const others = (await recordsOf(capture)).filter(({ kind, resource }) => kind === "event" && resource !== "pods").length;
    expect(told).toBe(others);
    expect(most).toBeLessThanOrEqual(HELD_MAX + UNWATCHED_MAX);
    await expect(
      cluster
        .watch("pods", { resourceVersion: "1", allowWatchBookmarks: true, timeoutSeconds: 1 }, ends.signal)
        [Symbol.asyncIterator]()
        .next(),
    ).rejects.toMatchObject({ code: 410 });
    ends.abort(new Error("over"));
    await Promise.all(watching);
  });

  it("ends with the same cache as a replay of a complete read", async () => {
    const text = linesOf(1_100).join("\n");
    const options = {
      digester: createDigester("a key of this test alone"),
      seed: 1,
      log: silentLog,
      functions: functionHandlers,
      onSync: (): void => undefined,
      faults: (): object => ({}),
      tailMs: 1_000,
    };
    const streamed = await replay(await opened(text), options);
    const records = parseCapture(text, "f");
    const atOnce: Capture = {
      ...heldCapture(records),
      async *batches() {
        yield await Promise.resolve(records);
      },
    };
    const whole = await replay(atOnce, options);
    expect({ objects: streamed.objects, cacheDigest: streamed.cacheDigest }).toEqual({
      objects: whole.objects,
      cacheDigest: whole.cacheDigest,
    });
  }, 30_000);

  it("fits into a small heap, though the file is larger", () => {
    const pad = "x".repeat(2 ** 18);
    const pod = (i: number): string =>
      JSON.stringify({
        t: new Date(Date.parse("2026-03-01T10:00:00Z") + i).toISOString(),
        type: i % 2 === 0 ? "ADDED" : "DELETED",
        object: {
          kind: "Pod",
          metadata: { namespace: "shop", name: "web-1", uid: `u${i >> 1}`, resourceVersion: `${i + 1}` },
          pad: `${pad}${i}`,
        },
      });
    const path = fileOf("large.jsonl", Array.from({ length: 400 }, (_, i) => `${pod(i)}\n`).join(""));
    const main = join(import.meta.dirname, "../../../cli/main.ts");
    const { status, stdout, stderr } = spawnSync(process.execPath, ["--max-old-space-size=64", main, "replay", path], { encoding: "utf8" });
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout).toContain("Cache at the end: 0 Deployments");
  }, 60_000);
});
