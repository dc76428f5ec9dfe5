// Would catch: a log with repeated lines, and a picture that scrolls instead of being redrawn.
import { expect, test } from "vitest";
import { demoView } from "../../../../cli/dev/demo-view.ts";
import type { Scene } from "../../../../cli/dev/demo-view.ts";

function screen(isTTY: boolean): { readonly out: NodeJS.WriteStream; readonly text: () => string } {
  const written: string[] = [];
  // A stream with only the three members that the view uses.
  const out = { isTTY, columns: 80, write: (text: string) => written.push(text) > 0 } as unknown as NodeJS.WriteStream;
  return { out, text: () => written.join("") };
}

const scene: Scene = {
  step: "scale web to 6",
  elapsedMs: 1234,
  stack: "store memory",
  deployment: { name: "web", desired: 6, updated: 6, ready: 3, unavailable: 3 },
  replicaSets: [{ name: "web-1", image: "web:v1", desired: 6, pods: ["ready", "running", "pending", "terminating"] }],
  activity: ["sync-replicaset web-1: create 3 pods"],
  lag: "",
};

test("prints only changes without a terminal", () => {
  const { out, text } = screen(false);
  const view = demoView(out);
  view.show(scene);
  const once = text();
  view.show(scene);
  expect(text()).toBe(once);
  expect(once).toContain("sync-replicaset web-1: create 3 pods");
  expect(once).toContain("6/6 updated, 3 ready   web-1 ●◐○×");
});

test("redraws the picture on a terminal, and prints permanent lines above it", () => {
  const { out, text } = screen(true);
  const view = demoView(out);
  view.show(scene);
  const lines = text().split("\n").length - 1;
  view.show(scene);
  expect(text()).toContain(`\x1b[${lines}A`);
  view.say("complete");
  expect(text().endsWith("complete\x1b[K\n\x1b[J")).toBe(true);
});
