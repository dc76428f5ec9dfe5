/** The timeline of a running cluster. Would catch: an update that lacks a change, and a page that differs from that of a capture. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { Ajv2020 } from "ajv/dist/2020.js";
import { expect, it } from "vitest";
import { LiveTimeline } from "../../../../cli/explain/timeline/live-timeline.ts";
import { merged } from "../../../../shared/timeline/page/merge.ts";
import type { TimelineInput } from "../../../../shared/timeline/input.ts";

const ROOT = join(import.meta.dirname, "../../../..");
const LINES = gunzipSync(readFileSync(join(ROOT, "test/captures/rollover.watch.jsonl.gz")))
  .toString()
  .trim()
  .split("\n");
const [START_MS, END_MS] = [LINES[0], LINES.at(-1)].map((line) => Date.parse((JSON.parse(line ?? "{}") as { readonly t: string }).t));
const SYNC = { controller: "deployment", key: "default/web", reasons: [], outcome: "retry", error: "failed" } as const;

function begun(): LiveTimeline {
  return new LiveTimeline({ source: "shop", startMs: START_MS ?? 0, isWhole: false });
}

it("sends updates that together form a complete page, which fits the schema", () => {
  const live = begun();
  const first = live.whole(START_MS ?? 0);
  let seen: TimelineInput = first;
  for (const [index, line] of LINES.entries()) {
    live.hear(line);
    if (index % 7 === 0) seen = merged(seen, live.update(Date.parse((JSON.parse(line) as { readonly t: string }).t)));
  }
  seen = merged(seen, live.update((END_MS ?? 0) + 60_000));
  const whole = live.whole((END_MS ?? 0) + 60_000);
  expect(seen).toEqual(whole);
  expect(first.objects).toEqual([]);
  const fits = new Ajv2020({ strictTuples: false }).compile(
    JSON.parse(readFileSync(join(ROOT, "shared/timeline/input.schema.json"), "utf8")) as object,
  );
  fits(JSON.parse(JSON.stringify(whole)));
  expect(fits.errors ?? []).toEqual([]);
  const sets = whole.objects.filter(({ kind }) => kind === "ReplicaSet");
  expect(sets.map(({ owner }) => whole.objects[owner ?? -1]?.kind)).toEqual(sets.map(() => "Deployment"));
  expect(sets.flatMap(({ images = [] }) => images).toSorted()).toEqual(["app:v1", "app:v2", "app:v3", "app:v4"]);
  expect(whole.verdicts).toMatchObject([{ health: "complete" }]);
});

it("shows a sync that is reported before its object, and drops a sync whose object never arrives", () => {
  const live = begun();
  const atMs = START_MS ?? 0;
  const before = begun();
  for (const line of LINES) before.hear(line);
  const { namespace, name } = before.update(atMs).objects.find(([, { kind }]) => kind === "Deployment")?.[1] ?? {};
  live.sync({ ...SYNC, key: `${namespace}/${name}`, atMs, lines: [] });
  live.sync({ ...SYNC, key: "shop/never", atMs, lines: [] });
  expect(live.update(atMs).marks).toEqual([]);
  for (const line of LINES) live.hear(line);
  const { marks } = live.update(atMs + 1_000);
  expect(marks.filter(({ kind }) => kind === "sync")).toMatchObject([{ isWarning: true, lines: ["nothing to do", "error: failed"] }]);
});

it("adds the owner to an object when the owner arrives later", () => {
  const live = begun();
  let seen: TimelineInput = live.whole(START_MS ?? 0);
  for (const resource of ["pods", "replicasets", "deployments"]) {
    for (const line of LINES) if (line.includes(`"r":"${resource}"`)) live.hear(line);
    seen = merged(seen, live.update(END_MS ?? 0));
  }
  expect(seen.objects.filter(({ owner }) => owner === undefined).map(({ kind }) => kind)).toEqual(["Deployment"]);
});

it("reports after 12 hours that the page is full", () => {
  const live = begun();
  expect(live.isFull((START_MS ?? 0) + 11 * 3_600_000)).toBe(false);
  expect(live.isFull((START_MS ?? 0) + 13 * 3_600_000)).toBe(true);
});
