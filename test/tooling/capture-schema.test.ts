// Would catch: a published schema that recorded captures or the current output of the recorder and the importers violate, and a schema that
// accepts everything.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { KubeApiError } from "../../shared/kube/client/errors.ts";
import { importFiles } from "../../shared/replay/import/import.ts";
import { captureLines } from "../../shared/replay/import/imported.ts";
import { ImportReport } from "../../shared/replay/import/report.ts";
import { recordingWatch } from "../../shared/replay/capture-format/recorder.ts";

const ROOT = join(import.meta.dirname, "../..");
const CAPTURES = join(ROOT, "test/captures");
const schema = JSON.parse(readFileSync(join(ROOT, "docs/reference/capture.schema.json"), "utf8")) as object;
const fits = new Ajv2020({ allErrors: false }).compile(schema);
const digester = createDigester("a key of this test alone");

function wrongLines(lines: Iterable<string>): readonly string[] {
  return [...lines].flatMap((line, i) => (line === "" || fits(JSON.parse(line)) ? [] : [`${i + 1}: ${line.slice(0, 200)}`]));
}

describe("every line of a recorded file matches the published schema", () => {
  it.each(readdirSync(CAPTURES).filter((file) => file.endsWith(".watch.jsonl.gz")))("%s", (file) => {
    expect(
      wrongLines(
        gunzipSync(readFileSync(join(CAPTURES, file)))
          .toString()
          .split("\n"),
      ),
    ).toEqual([]);
  });
});

describe("what deltaloop writes matches the schema", () => {
  const pod = (resourceVersion: string): object => ({ kind: "Pod", metadata: { namespace: "shop", name: "p", uid: "u", resourceVersion } });

  it.each([true, false])("the recorder writes each kind of line (unredacted: %s)", async (raw) => {
    const lines: string[] = [];
    async function* watch(): AsyncGenerator<readonly string[]> {
      yield [
        JSON.stringify({ type: "MODIFIED", object: pod("8") }),
        JSON.stringify({ type: "BOOKMARK", object: { kind: "Pod", metadata: { resourceVersion: "9" } } }),
        JSON.stringify({ type: "ERROR", object: { kind: "Status", code: 410, reason: "Expired" } }),
        "{",
      ];
      throw new KubeApiError({ code: 410, reason: "Expired", message: "too old" });
    }
    const recorder = recordingWatch(
      {
        listPage: () => Promise.resolve({ resourceVersion: "7", items: raw ? [pod("5")] : [pod("5"), {}] }),
        watch,
        newestVersion: () => Promise.resolve("7"),
      },
      {
        write: (line) => lines.push(line),
        clock: { now: () => 0, after: () => Promise.resolve() },
        digester,
        raw,
        server: "s",
        kubernetes: "v1.37.2",
        keeps: true,
      },
    );
    const { signal } = new AbortController();
    await recorder.listPage("pods", {}, signal);
    await (async () => {
      for await (const _ of recorder.watch("pods", { allowWatchBookmarks: true, timeoutSeconds: 1 }, signal));
    })().catch(() => undefined);
    await recorder.listPage("pods", {}, signal);
    await recorder.restart();
    expect(wrongLines(lines)).toEqual([]);
    const kinds = lines.map((line) => (JSON.parse(line) as { readonly k?: string }).k ?? "event");
    expect(new Set(kinds)).toEqual(new Set(["meta", "item", "raw", "listend", "event", "close", "gap"]));
  });

  it.each([true, false])("an import matches the schema (redacted: %s)", async (redact) => {
    const report = new ImportReport();
    const imported = await importFiles([join(CAPTURES, "kshrk/basic-workloads.kshrk")], report);
    expect(wrongLines(captureLines(imported, { digester, redact, report }))).toEqual([]);
  });
});

const T = "2026-03-01T10:00:00Z";
const object = { metadata: { namespace: "shop", name: "p", uid: "u", resourceVersion: "7" } };
it.each([
  { name: "a missing time", line: { type: "ADDED", object } },
  { name: "an invalid time", line: { t: "yesterday", type: "ADDED", object } },
  { name: "an unknown type", line: { t: T, type: "CHANGED", object } },
  { name: "an event without object", line: { t: T, type: "ADDED" } },
  { name: "an object without metadata", line: { t: T, type: "ADDED", object: { kind: "Pod" } } },
  { name: "an annotation that is not a string", line: { t: T, type: "ADDED", object: { metadata: { annotations: { a: 1 } } } } },
  { name: "an unknown kind of line", line: { t: T, k: "note", text: "x" } },
  { name: "a list end without a resourceVersion", line: { t: T, k: "listend", r: "pods" } },
  { name: "a gap without an end", line: { t: T, k: "gap", r: "pods", from: "1", ms: 1 } },
  { name: "an unknown field", line: { t: T, k: "close", r: "pods", how: "clean", token: "x" } },
])("rejects an invalid line: $name", ({ line }) => expect(fits(line)).toBe(false));
