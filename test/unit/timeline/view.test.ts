/**
 * The content of the timeline page. Would catch: a filter that hides an owner, a link that restores another view, and marks that no zoom
 * level separates.
 */
import { describe, expect, it } from "vitest";
import type { TimelineInput, TimelineObject } from "../../../shared/timeline/input.ts";
import { commandOf } from "../../../shared/timeline/page/format.ts";
import { clustersOf, leadOf, modelOf } from "../../../shared/timeline/page/model.ts";
import { hashOf, initialView, visibleLanes } from "../../../shared/timeline/page/view.ts";
import type { View } from "../../../shared/timeline/page/view.ts";

function object(kind: TimelineObject["kind"], name: string, more: Partial<TimelineObject> = {}): TimelineObject {
  return { kind, namespace: "shop", name, from: 0, changes: [], ...more };
}

const INPUT: TimelineInput = {
  ...{ version: 1, source: "my capture.jsonl", startMs: 0, endMs: 10_000, redacted: true },
  objects: [
    object("Deployment", "web"),
    object("ReplicaSet", "web-a", { owner: 0, images: ["app:v1"] }),
    object("Pod", "web-a-1", { owner: 1, states: [[0, "waiting", "ErrImagePull"]] }),
    object("Pod", "web-a-2", { owner: 1, states: [[0, "ready"]] }),
    object("ReplicaSet", "bare", { namespace: "other" }),
  ],
  marks: [0, 100, 9_000].map((at) => ({ kind: "event" as const, at, object: 2, title: "Failed" })),
  ...{ verdicts: [], gaps: [] },
  findings: [
    {
      workload: 0,
      level: "cause",
      cause: "no image",
      confidence: "certain",
      objects: [2],
      evidence: [],
      help: [],
      from: 0,
      begin: { clock: "checked" },
    },
  ],
};
const MODEL = modelOf(INPUT);
const WHOLE = initialView(MODEL, "");

function shown(view: Partial<View>): readonly string[] {
  return visibleLanes(MODEL, { ...WHOLE, ...view }).map((lane) => lane.object.name);
}

describe("the filter", () => {
  it.each<[string, Partial<View>, readonly string[]]>([
    ["nothing", {}, ["web", "web-a", "web-a-1", "web-a-2", "bare"]],
    ["a kind", { kind: "ReplicaSet" }, ["web", "web-a", "bare"]],
    ["a namespace", { namespace: "other" }, ["bare"]],
    ["the objects of a finding", { finding: 0, only: true }, ["web", "web-a", "web-a-1"]],
    ["the reason of a state", { text: "errimage" }, ["web", "web-a", "web-a-1"]],
    ["an image", { text: "app:v1" }, ["web", "web-a"]],
    ["the title of a mark", { text: "failed" }, ["web", "web-a", "web-a-1"]],
    ["a kind and a text", { kind: "Pod", text: "a-2" }, ["web", "web-a", "web-a-2"]],
    ["a collapsed workload", { closed: new Set([1]) }, ["web", "web-a", "bare"]],
  ])("the filter by %s shows the matching objects with their owners", (_, view, names) => {
    expect(shown(view)).toEqual(names);
  });
});

it("restores a view from the URL's hash", () => {
  const view: View = {
    ...{
      from: 1_000,
      to: 5_000,
      at: 2_000,
      lane: 2,
      mark: "2.m1",
      finding: 0,
      only: true,
      text: "a & b=c",
      kind: "Pod",
      namespace: "shop",
    },
    ...{ asTable: true, byNode: true, closed: new Set([0, 1]) },
  };
  expect(initialView(MODEL, hashOf(view, false))).toEqual(view);
});

it.each(["#lane=99&finding=7&kind=Node&mark=x&from=abc&at=1e99&closed=99", "#%E0%A4%A", "#from=5&to=1"])(
  "opens with the URL hash %s and ignores its invalid values",
  (hash) => {
    const { lane, finding, mark, from, to, at, closed } = initialView(MODEL, hash);
    expect([lane, finding, mark, closed.size]).toEqual([undefined, undefined, undefined, 0]);
    expect(to).toBeGreaterThan(from);
    expect(at).toBe(INPUT.endMs);
  },
);

it("draws marks that are close together as one, and separately when zoomed in", () => {
  const marks = MODEL.lanes[2]?.marks ?? [];
  const times = (from: number, to: number): readonly (readonly number[])[] =>
    clustersOf(marks, { from, to }, (to - from) / 50).map((cluster) => cluster.map(({ at }) => at));
  expect(times(0, 10_000)).toEqual([[0, 100], [9_000]]);
  expect(times(0, 1_000)).toEqual([[0], [100]]);
});

it("draws a group of marks at the time of the most important one", () => {
  const marks = (["sync", "event", "change", "sync"] as const).map((kind, i) => ({
    kind,
    at: i,
    lane: 0,
    title: kind,
    id: `0.m${i}`,
    isWarning: false,
  }));
  expect(leadOf(marks)).toMatchObject({ kind: "change", at: 2 });
  expect(leadOf(marks.filter(({ kind }) => kind === "sync"))).toMatchObject({ at: 0 });
});

describe("the terminal command", () => {
  const [deployment] = INPUT.objects;
  it.each<[string, Pick<TimelineInput, "cluster">, string | undefined]>([
    ["a capture", {}, "deltaloop explain 'my capture.jsonl' deploy/web -n shop --at +2.0s"],
    ["a cluster", { cluster: { options: "--context prod" } }, "deltaloop explain deploy/web -n shop --context prod"],
    ["the current context", { cluster: { options: "" } }, "deltaloop explain deploy/web -n shop"],
    ["the demo's cluster, which no kubeconfig reaches", { cluster: {} }, undefined],
  ])("explains an object of %s", (_, more, command) => {
    expect(deployment && commandOf(modelOf({ ...INPUT, ...more }), deployment, 2_000)).toBe(command);
  });
});
