// The verdict on recorded rollouts, at each second. Would catch a healthy rollout that is reported as failing, and an incident without its
// cause.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { openCapture } from "../../shared/replay/capture-format/capture-stream.ts";
import { StateCensus } from "../../shared/replay/incident/cluster-state.ts";
import { worstFirst } from "../../shared/replay/verdict/verdict.ts";

const CAPTURES = join(import.meta.dirname, "../captures");
const names = readdirSync(CAPTURES).filter((file) => file.endsWith(".watch.jsonl.gz"));
const healthy = readdirSync(join(CAPTURES, "healthy")).map((file) => join("healthy", file));
const digester = createDigester("a key of this test alone");

/** The expected kinds of causes at any time; the other captures, and the healthy ones from real nodes, have none. */
const CAUSES: Readonly<Record<string, readonly string[]>> = {
  "pause-resume": ["paused"],
  "rc-quota": ["quota exceeded"],
  "controller-refused": ["deleted", "quota exceeded"],
  "owner-deleted": ["deleted"],
  "replica-set-deleted": ["deleted"],
  refused: ["quota exceeded"],
  // Its third image cannot be pulled; the scripted kubelet reports no message.
  "stale-caches": ["image not pulled"],
};

it.each([...names, ...healthy])("finds the expected causes in %s, and no others", async (file) => {
  const causes = new Set<string>();
  let endMs = Infinity;
  for (let seconds = 1, untilMs = 0; untilMs < endMs; seconds++) {
    const census = new StateCensus(digester, (startMs) => (untilMs = startMs + seconds * 1_000));
    const capture = await openCapture(join(CAPTURES, file), { census });
    capture.close();
    ({ endMs } = capture);
    for (const { findings } of worstFirst(census.state())) for (const { level, kind } of findings) if (level === "cause") causes.add(kind);
  }
  expect([...causes].toSorted()).toEqual(CAUSES[file.replace(".watch.jsonl.gz", "")] ?? []);
});
