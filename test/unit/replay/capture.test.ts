// Parsing of capture lines, and errors in files of other programs.
import { gzipSync } from "node:zlib";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { exactText } from "../../../shared/base/exact-json.ts";
import { CaptureError, readUnpacked } from "../../../shared/replay/capture-format/capture.ts";
import { openCapture } from "../../../shared/replay/capture-format/capture-stream.ts";
import type { ListPage } from "../../../shared/kube/client/kube.ts";
import { KubeApiError } from "../../../shared/kube/client/errors.ts";
import { captureCluster, type CaptureCluster } from "../../../shared/replay/capture-format/capture-cluster.ts";
import { recordingWatch } from "../../../shared/replay/capture-format/recorder.ts";
import { anyText } from "../../support/any-text.ts";
import { lineOf } from "../../../shared/kube/client/kube.ts";
import { heldCapture, objectChanges, parseCapture, readCapture } from "../../support/held-capture.ts";

const MINIMAL = `{"t":"2026-03-01T10:00:00.123456Z","type":"MODIFIED","object":{"kind":"Pod","metadata":{"namespace":"shop","name":"web-1","uid":"u","resourceVersion":"7"}}}`;

const withObject = (object: object): string => JSON.stringify({ t: "2026-03-01T10:00:00Z", r: "pods", type: "ADDED", object });
const nested = (depth: number): unknown => (depth === 0 ? 1 : [nested(depth - 1)]);

const TOP = mkdtempSync(join(tmpdir(), "deltaloop-capture-"));
afterAll(() => rmSync(TOP, { recursive: true }));

/** Writes a file with these bytes. */
function fileOf(name: string, bytes: Uint8Array): string {
  const path = join(mkdtempSync(join(TOP, "of-")), name);
  writeFileSync(path, bytes);
  return path;
}

test("rejects a gzip bomb at the limit", () => {
  const member = gzipSync(Buffer.alloc(2 ** 20, "\n"));
  const path = fileOf("bomb.gz", Buffer.concat(Array.from({ length: 257 }, () => member)));
  expect(() => readUnpacked(path)).toThrow(`${path}: capture contains more than 256 MiB unpacked; a replay supports no more`);
});

test("reports broken gzip data without a stack trace", async () => {
  const whole = gzipSync(MINIMAL);
  whole.fill(0xff, 20, 40);
  const path = fileOf("broken.gz", whole);
  await expect(openCapture(path)).rejects.toThrow(CaptureError);
  expect(() => readUnpacked(path)).toThrow(CaptureError);
});

const MANY = Array.from({ length: 40 }, (_, i) => MINIMAL.replace("web-1", `web-${i}`)).join("\n");

test("reads a truncated capture up to the cut, and reports it", () => {
  const whole = parseCapture(`${MANY}\n`, "f").length;
  fc.assert(
    fc.property(fc.nat(Buffer.byteLength(MANY) - 1), (at) => {
      const notes: string[] = [];
      const text = Buffer.from(MANY).subarray(0, at);
      const records = parseCapture(text, "f", (note) => notes.push(note));
      expect(records.length).toBeLessThan(whole);
      const cut = text.at(-1) !== undefined && text.at(-1) !== 0x0a && text.at(-1) !== "}".charCodeAt(0);
      if (cut) expect(notes).toEqual([expect.stringMatching(/^f:\d+: skipped the truncated last line$/)]);
      // All returned lines are complete, and are the first ones.
      expect(records).toEqual(parseCapture(`${MANY}\n`, "f").slice(0, records.length));
    }),
    { numRuns: 300 },
  );
});

test("reads a compressed capture that is truncated at any byte up to the cut", () => {
  const packed = gzipSync(MANY);
  const whole = parseCapture(MANY, "f");
  for (let at = 18; at < packed.length; at += 7) {
    const notes: string[] = [];
    const path = fileOf("cut.jsonl.gz", packed.subarray(0, at));
    const records = readCapture(path, (note) => notes.push(note));
    expect(records).toEqual(whole.slice(0, records.length));
    expect(notes[0]).toBe(`${path}: the gzip data is truncated; reading ends there`);
  }
});

test.each(["capture.kshrk", "capture.zip"])("%s is rejected with a hint to deltaloop import", async (name) => {
  const path = fileOf(name, Buffer.from("PK\x03\x04 and what follows"));
  await expect(openCapture(path)).rejects.toThrow(`${path}: file is not a capture; convert a .kshrk archive with \`deltaloop import\``);
});

const line = fc.record(
  {
    t: fc.oneof(fc.constant("2026-03-01T10:00:00Z"), fc.json(), fc.date({ noInvalidDate: false }).map(String)),
    r: fc.oneof(fc.constantFrom("pods", "deployments", "events"), fc.jsonValue()),
    k: fc.oneof(fc.constantFrom("item", "listend", "event", "close", "meta", "__proto__"), fc.jsonValue()),
    type: fc.oneof(fc.constantFrom("ADDED", "BOOKMARK"), fc.jsonValue()),
    object: fc.oneof(fc.record({ kind: fc.constant("Pod"), metadata: fc.jsonValue() }), fc.jsonValue()),
    rv: fc.jsonValue(),
  },
  { requiredKeys: [] },
);

test.each([
  { name: "bytes", content: fc.uint8Array({ maxLength: 500 }).map((bytes) => Buffer.from(bytes)) },
  { name: "text", content: anyText(500).map((text) => Buffer.from(text)) },
  { name: "JSON lines", content: fc.array(fc.jsonValue(), { maxLength: 5 }).map(linesOf) },
  { name: "almost valid lines", content: fc.array(line, { maxLength: 5 }).map(linesOf) },
])("reads a file or rejects it with an error, whatever $name it contains", ({ content }) => {
  fc.assert(
    fc.property(content, (bytes) => {
      try {
        parseCapture(bytes, "f");
      } catch (error) {
        expect(error).toBeInstanceOf(CaptureError);
      }
    }),
    { numRuns: 300 },
  );
});

function linesOf(values: readonly unknown[]): Buffer {
  return Buffer.from(values.map((value) => JSON.stringify(value)).join("\n"));
}

test("accepts a raw watch event with its time", () => {
  expect(parseCapture(MINIMAL, "f")).toMatchObject([
    { atMs: Date.parse("2026-03-01T10:00:00.123Z"), resource: "pods", kind: "event", type: "MODIFIED" },
  ]);
});

test("reads a gzipped capture like a plain one", () => {
  const path = join(mkdtempSync(join(TOP, "of-")), "c.jsonl.gz");
  writeFileSync(path, gzipSync(`${MINIMAL}\n`));
  expect(readCapture(path)).toEqual(parseCapture(MINIMAL, "f"));
});

test("drops an undecodable line in the middle, counts it, and reports it without its content", () => {
  const notes: string[] = [];
  const text = `ame":"x"}}\n${MINIMAL}\n{"t":"2026${SECRET}\n\0\0\0\n${MINIMAL}\n`;
  expect(parseCapture(text, "f", (note) => notes.push(note))).toHaveLength(2);
  expect(notes).toEqual(["f: skipped 3 truncated lines, as after a crash, a rotation or a full disk; the first is line 1"]);
});

test.each([
  { name: "a single truncated line", text: `{"t":"2026\n`, want: /^f:1: not JSON/ },
  { name: "a line without time", text: `{"r":"pods","type":"ADDED"}`, want: /^f:1: t is not an RFC 3339 time/ },
  {
    name: "a newer format version",
    text: `{"k":"meta","format":3}`,
    want: /^f:1: capture has format 3; this version of deltaloop reads formats 1 and 2$/,
  },
  {
    name: "the output of kubectl get --watch",
    text: `{"type":"ADDED","object":{"kind":"Pod"}}`,
    want: /^f:1: expected a capture, found a line of a watch that kubectl printed; .*`deltaloop import FILE/,
  },
  {
    name: "an audit log",
    text: `{"kind":"Event","apiVersion":"audit.k8s.io/v1"}`,
    want: /^f:1: expected a capture, found a line of an audit log; convert it with `deltaloop import/,
  },
  {
    name: "a list from kubectl",
    text: `{"apiVersion":"v1","kind":"List","items":[]}`,
    want: /^f:1: expected a capture, found a list that kubectl printed/,
  },
  {
    name: "an object from kubectl",
    text: `{"apiVersion":"v1","kind":"Pod","metadata":{}}`,
    want: /^f:1: expected a capture, found an object that kubectl printed/,
  },
  {
    name: "kubectl's output over several lines",
    text: `{\n    "apiVersion": "v1"\n}`,
    want: /^f:1: not JSON .*with `deltaloop import`$/,
  },
  {
    name: "an event without object",
    text: `{"t":"2026-03-01T10:00:00Z","r":"pods","type":"ADDED"}`,
    want: /^f:1: an event needs type and object/,
  },
  { name: "an unknown kind", text: `{"t":"2026-03-01T10:00:00Z","r":"pods","k":"dance"}`, want: /^f:1: unknown kind "dance"/ },
  { name: "a null line", text: `${MINIMAL}\nnull`, want: /^f:2: line is not a JSON object$/ },
  { name: "a line that is a list", text: "[]", want: /^f:1: line is not a JSON object$/ },
  {
    name: "a time in a format that only JavaScript parses",
    text: `{"t":"1","r":"pods","k":"close"}`,
    want: /^f:1: t is not an RFC 3339 time$/,
  },
  {
    name: "a date far in the future",
    text: `${MINIMAL}\n${MINIMAL.replace("2026", "9999")}`,
    want: /^f:2: line is more than 24 hours from another line; a replay supports no longer span$/,
  },
  { name: "metadata that is not an object", text: withObject({ metadata: "web" }), want: /^f:1: metadata is not an object$/ },
  { name: "a name that is not a string", text: withObject({ metadata: { name: { toString: 1 } } }), want: /^f:1: name is not a string$/ },
  {
    name: "labels that are not strings",
    text: withObject({ metadata: { labels: { a: 1 } } }),
    want: /^f:1: labels is not a map of strings$/,
  },
  { name: "a deeply nested object", text: withObject({ x: nested(101) }), want: /^f:1: is nested more than 100 deep$/ },
])("reports $name with its position", ({ text, want }) => {
  expect(() => parseCapture(text, "f")).toThrow(CaptureError);
  expect(() => parseCapture(text, "f")).toThrow(want);
});

test("skips lines of other resources, and note lines", () => {
  const text = [
    `{"t":"2026-03-01T10:00:00Z","k":"meta"}`,
    `{"t":"2026-03-01T10:00:00Z","r":"events","type":"ADDED","object":{"kind":"Event"}}`,
    MINIMAL,
  ].join("\n");
  expect(parseCapture(text, "f")).toHaveLength(1);
});

const SECRET = "hunter2";
const deployment = {
  metadata: { namespace: "shop", name: "web", uid: "u", resourceVersion: "7", annotations: { "kapp.k14s.io/original": SECRET } },
  status: { conditions: [{ type: "ReplicaFailure", status: "True", message: `admission webhook "w" denied the request: ${SECRET}` }] },
  spec: {
    selector: { matchLabels: { app: "web" } },
    template: {
      metadata: { labels: { app: "web" } },
      spec: { containers: [{ name: "c", image: "i", env: [{ name: "PASSWORD", value: SECRET }] }] },
    },
  },
};

async function record(raw: boolean, kept: object = deployment): Promise<readonly string[]> {
  const lines: string[] = [];
  async function* watch(): AsyncGenerator<readonly string[]> {
    yield [
      exactText({ type: "MODIFIED", object: kept }),
      JSON.stringify({
        type: "ERROR",
        object: { kind: "Status", code: 403, reason: "Forbidden", message: SECRET, details: { causes: [SECRET] } },
      }),
      `{"type":"MODIFIED","object":{"env":"${SECRET}"`,
    ];
  }
  const kube = recordingWatch(
    {
      listPage: () => Promise.resolve({ resourceVersion: "7", items: [kept, { broken: SECRET }] }),
      watch,
      newestVersion: () => Promise.resolve("7"),
    },
    {
      write: (line) => lines.push(line),
      clock: { now: () => 0, after: () => Promise.resolve() },
      digester: createDigester("a key of this test alone"),
      raw,
      server: "s",
      kubernetes: "v1.36.3",
    },
  );
  const { signal } = new AbortController();
  // As with a Reflector, the pages of a list are captured, and other requests are not.
  expect(await kube.newestVersion("deployments", {}, signal)).toBe("7");
  const streamed = { sendInitialEvents: true, resourceVersionMatch: "NotOlderThan", allowWatchBookmarks: true, timeoutSeconds: 1 } as const;
  await expect(drained(kube.watch("deployments", streamed, signal))).rejects.toMatchObject({ code: 422 });
  await kube.listPage("deployments", {}, signal);
  for await (const _ of kube.watch("deployments", { allowWatchBookmarks: true, timeoutSeconds: 1 }, signal));
  return lines;
}

async function drained(lines: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of lines);
}

test("a capture contains no value of a template, annotation or denial message, even of undecodable objects, and no key", async () => {
  const text = (await record(false)).join("\n");
  expect(text).not.toContain(SECRET);
  expect(text).not.toContain(Buffer.from(SECRET).toString("base64").slice(0, 6));
  expect(text).not.toContain("a key of this test");
  expect(parseCapture(text, "f").map(({ kind }) => kind)).toEqual(["item", "listed", "event", "event", "close"]);
});

/** Returns the cluster of a capture after reading its lines. */
function clusterOf(lines: readonly string[]): CaptureCluster {
  const records = parseCapture(lines.join("\n"), "f");
  const cluster = captureCluster(heldCapture(records), ["pods"], { now: () => Infinity, after: () => Promise.resolve() });
  cluster.feed(records);
  cluster.end();
  return cluster;
}

describe("a relist in a capture", () => {
  const pod = (name: string, resourceVersion: string): object => ({
    kind: "Pod",
    metadata: { namespace: "shop", name, uid: `u-${name}`, resourceVersion },
  });
  const list = (...items: readonly object[]): ListPage => ({ resourceVersion: "20", items });

  async function relisted(
    keeps: boolean,
  ): Promise<{ readonly lines: readonly string[]; readonly recorder: ReturnType<typeof recordingWatch> }> {
    const lines: string[] = [];
    let nowMs = 0;
    const lists = [{ resourceVersion: "7", items: [pod("a", "5"), pod("b", "6")] }, list(pod("b", "6"), pod("c", "19"))];
    async function* watch(): AsyncGenerator<readonly string[]> {
      yield [JSON.stringify({ type: "MODIFIED", object: pod("a", "8") })];
      throw new KubeApiError({ code: 410, reason: "Expired", message: `too old: ${SECRET}` });
    }
    const recorder = recordingWatch(
      { listPage: () => Promise.resolve(lists.shift() ?? list()), watch, newestVersion: () => Promise.resolve("7") },
      {
        write: (line) => lines.push(line),
        clock: { now: () => (nowMs += 1000), after: () => Promise.resolve() },
        ...{ digester: createDigester("a key of this test alone"), raw: true, server: "s", keeps },
      },
    );
    const { signal } = new AbortController();
    await recorder.listPage("pods", {}, signal);
    await drained(recorder.watch("pods", { allowWatchBookmarks: true, timeoutSeconds: 1 }, signal)).catch(() => undefined);
    await recorder.listPage("pods", {}, signal);
    return { lines, recorder };
  }

  test("is preceded by a record of the gap with both versions, cause and duration", async () => {
    const { lines } = await relisted(false);
    const gap = lines.map((each) => JSON.parse(each) as { readonly k?: string }).filter(({ k }) => k === "gap");
    expect(gap).toMatchObject([{ r: "pods", from: "8", to: "20", why: "Expired", ms: expect.any(Number) as number }]);
    expect(lines.join("\n")).not.toContain(SECRET);
    const notes: string[] = [];
    parseCapture(lines.join("\n"), "f", (note) => notes.push(note));
    expect(notes).toEqual([
      expect.stringMatching(
        /^f:\d+: pods were listed again \(Expired\): of the changes between versions 8 and 20 only the result is known$/,
      ),
    ]);
  });

  test("a capture contains the changes made during the gap, for a replay", async () => {
    const { lines } = await relisted(false);
    const cluster = clusterOf(lines);
    expect([...cluster.versions("pods")]).toEqual([
      ["shop/b", "6"],
      ["shop/c", "19"],
    ]);
  });

  test("a capture contains the changes made during the gap, for an explanation", async () => {
    const { lines } = await relisted(false);
    const changes = objectChanges(parseCapture(lines.join("\n"), "f"), createDigester("a key of this test alone"));
    expect(changes.map(({ name, kind }) => `${name} ${kind}`)).toEqual(["a stands", "b stands", "c appears", "a goes"]);
  });

  test("a rotated file starts with the current state, so that it can be read alone", async () => {
    const { lines, recorder } = await relisted(true);
    const before = lines.length;
    expect(recorder.isListing).toBe(false);
    recorder.upgraded("v1.37.2");
    await recorder.restart();
    const [upgrade = "", ...file] = lines.slice(before);
    expect(JSON.parse(upgrade)).toMatchObject({ k: "meta", n: before, kubernetes: "v1.37.2" });
    expect(JSON.parse(file[0] ?? "")).toMatchObject({ k: "meta", n: 0, kubernetes: "v1.37.2" });
    const cluster = clusterOf(file);
    expect([...cluster.versions("pods").keys()]).toEqual(["shop/b", "shop/c"]);
    expect(await cluster.listPage("pods", {}, new AbortController().signal)).toMatchObject({ resourceVersion: "20" });
  });
});

describe("a recorder whose output is slow", () => {
  const pod = (i: number, resourceVersion: string): object => ({
    metadata: { namespace: "shop", name: `web-${i}`, uid: `u-${i}`, resourceVersion },
  });
  const OBJECTS = 1_000;

  test("writes the list at the start of a file in parts, followed by events received meanwhile", async () => {
    const lines: string[] = [];
    let waiting: (() => void) | undefined;
    let isSlow = false;
    async function* watch(): AsyncGenerator<readonly string[]> {
      yield await Promise.resolve([JSON.stringify({ type: "MODIFIED", object: pod(1, "2000") })]);
    }
    const items = Array.from({ length: OBJECTS }, (_, i) => pod(i, String(i + 1)));
    const recorder = recordingWatch(
      { listPage: () => Promise.resolve({ resourceVersion: "1500", items }), watch, newestVersion: () => Promise.resolve("7") },
      {
        ...{ write: (line: string) => lines.push(line), clock: { now: () => 0, after: () => Promise.resolve() }, raw: false, keeps: true },
        ...{ digester: createDigester("a key of this test alone"), server: "s", yieldsVersions: true },
        room: () => (isSlow ? new Promise<void>((resolve) => (waiting = resolve)) : Promise.resolve()),
      },
    );
    const { signal } = new AbortController();
    await recorder.listPage("pods", {}, signal);
    const before = lines.length;
    isSlow = true;
    const restarted = recorder.restart();
    const passed: string[] = [];
    const watched = (async () => {
      for await (const group of recorder.watch("pods", { allowWatchBookmarks: true, timeoutSeconds: 1 }, signal))
        passed.push(...group.map(lineOf));
    })();
    recorder.denied("nodes");
    await Promise.resolve();
    expect(lines.length - before).toBeLessThan(OBJECTS / 2);
    for (isSlow = false; waiting !== undefined;) {
      const proceed: () => void = waiting;
      waiting = undefined;
      proceed();
      await new Promise(setImmediate);
    }
    await Promise.all([restarted, watched]);
    expect(passed).toEqual([JSON.stringify({ type: "MODIFIED", object: { metadata: { resourceVersion: "2000" } } })]);
    const file = lines.slice(before).map((line) => JSON.parse(line) as { readonly n: number; readonly k?: string; readonly type?: string });
    expect(file.map(({ n }) => n)).toEqual(file.map((_, i) => i));
    const kinds = file.map(({ k, type }) => k ?? type);
    expect(kinds).toEqual(["meta", ...Array<string>(OBJECTS).fill("item"), "listend", "denied", "MODIFIED", "close"]);
  });
});

test("an unredacted capture is marked as such and contains everything received", async () => {
  const lines = await record(true);
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({ k: "meta", raw: true });
  expect(lines.join("\n")).toContain(SECRET);
});

test("a raw capture keeps every digit of a template, so that the template's digest equals the one in the cache", async () => {
  const { template, ...spec } = deployment.spec;
  const long = {
    ...deployment,
    spec: { ...spec, template: { ...template, spec: { ...template.spec, activeDeadlineSeconds: 2n ** 63n - 1n } } },
  };
  const records = parseCapture((await record(true, long)).join("\n"), "f");
  expect(records.filter(({ object }) => object?.["spec"] !== undefined).map(({ kind, object }) => [kind, object])).toEqual([
    ["item", long],
    ["event", long],
  ]);
});
