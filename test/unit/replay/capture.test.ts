// Would catch: a capture line that is taken for what it is not, a mistake without its place, a bookmark taken for an object.
import { gzipSync } from "node:zlib";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createDigester } from "../../../shared/api/digest.ts";
import { CaptureError, parseCapture, readCapture } from "../../../shared/replay/capture.ts";
import { recordingWatch } from "../../../shared/replay/recorder.ts";

const MINIMAL = `{"t":"2026-03-01T10:00:00.123456Z","type":"MODIFIED","object":{"kind":"Pod","metadata":{"namespace":"shop","name":"web-1","uid":"u","resourceVersion":"7"}}}`;

test("a raw watch event with its time is enough", () => {
  expect(parseCapture(MINIMAL, "f")).toMatchObject([
    { atMs: Date.parse("2026-03-01T10:00:00.123Z"), resource: "pods", kind: "event", type: "MODIFIED" },
  ]);
});

test("a gzipped capture is read like a plain one", () => {
  const path = join(mkdtempSync(join(tmpdir(), "capture-")), "c.jsonl.gz");
  writeFileSync(path, gzipSync(`${MINIMAL}\n`));
  expect(readCapture(path)).toEqual(parseCapture(MINIMAL, "f"));
});

test.each([
  { name: "a cut line", text: `${MINIMAL}\n{"t":"2026`, want: /^f:2: not JSON/ },
  { name: "a line without time", text: `{"type":"ADDED","object":{"kind":"Pod"}}`, want: /^f:1: t is no RFC 3339 time/ },
  {
    name: "an event without object",
    text: `{"t":"2026-03-01T10:00:00Z","r":"pods","type":"ADDED"}`,
    want: /^f:1: an event needs type and object/,
  },
  { name: "an unknown kind", text: `{"t":"2026-03-01T10:00:00Z","r":"pods","k":"dance"}`, want: /^f:1: unknown kind "dance"/ },
])("$name is named with its place", ({ text, want }) => {
  expect(() => parseCapture(text, "f")).toThrowError(CaptureError);
  expect(() => parseCapture(text, "f")).toThrowError(want);
});

test("foreign resources and notes are passed over", () => {
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

async function record(raw: boolean): Promise<readonly string[]> {
  const lines: string[] = [];
  async function* watch(): AsyncGenerator<readonly string[]> {
    yield [
      JSON.stringify({ type: "MODIFIED", object: deployment }),
      JSON.stringify({
        type: "ERROR",
        object: { kind: "Status", code: 403, reason: "Forbidden", message: SECRET, details: { causes: [SECRET] } },
      }),
      `{"type":"MODIFIED","object":{"env":"${SECRET}"`,
    ];
  }
  const kube = recordingWatch(
    { listPage: () => Promise.resolve({ resourceVersion: "7", items: [deployment, { broken: SECRET }] }), watch },
    {
      write: (line) => lines.push(line),
      clock: { now: () => 0, after: () => Promise.resolve() },
      digester: createDigester("a key of this test alone"),
      raw,
      server: "s",
    },
  );
  const { signal } = new AbortController();
  await kube.listPage("deployments", {}, signal);
  for await (const _ of kube.watch("deployments", { allowWatchBookmarks: true, timeoutSeconds: 1 }, signal));
  return lines;
}

test("a capture holds no value of a template, annotation or denial, not even of what could not be decoded, and no key", async () => {
  const text = (await record(false)).join("\n");
  expect(text).not.toContain(SECRET);
  expect(text).not.toContain(Buffer.from(SECRET).toString("base64").slice(0, 6));
  expect(text).not.toContain("a key of this test");
  expect(parseCapture(text, "f").map(({ kind }) => kind)).toEqual(["item", "listed", "event", "event", "close"]);
});

test("a raw capture says so and holds what came", async () => {
  const lines = await record(true);
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({ k: "meta", raw: true });
  expect(lines.join("\n")).toContain(SECRET);
});
