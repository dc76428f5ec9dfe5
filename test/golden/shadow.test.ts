/**
 * Writes of upstream's controllers in recorded clusters, compared with our syncs in the same states (shared/replay/shadow), in both
 * directions: each of upstream's writes is one of ours, and in states in which upstream writes nothing, ours writes nothing.
 */
import { afterAll, describe, expect, it } from "vitest";

import { classify, REST_MS, restAt, type Verdict } from "../../shared/replay/shadow/classify.ts";
import { labelOf, writesOfChanges, type UpstreamWrite } from "../../shared/replay/shadow/upstream-writes.ts";
import { shareOf } from "../support/share.ts";
import { readRecording } from "./shadow.ts";

/**
 * The share of a capture that `check` covers; the project `long` covers everything. Writes of different kinds alternate, so the share is
 * not a simple fraction.
 */
const CHECKED = 0.2;
const CAPTURES = [
  { name: "rolling-update", writes: 59, rests: 2 },
  { name: "rollover", writes: 143, rests: 2 },
  { name: "recreate", writes: 52, rests: 2 },
  { name: "pause-resume", writes: 117, rests: 3 },
  { name: "undo", writes: 148, rests: 4 },
  { name: "not-ready-first", writes: 26, rests: 4 },
  { name: "controller", writes: 24, rests: 4 },
  { name: "settled", writes: 50, rests: 5 },
  { name: "owner-deleted", writes: 20, rests: 5 },
  { name: "replica-set-deleted", writes: 12, rests: 5 },
  { name: "refused", writes: 34, rests: 3 },
  { name: "adopted", writes: 21, rests: 5 },
  { name: "controller-refused", writes: 13, rests: 4 },
  // Recordings without an audit log.
  { name: "adopt-release", writes: 0, rests: 4 },
  { name: "rc-quota", writes: 0, rests: 2 },
  { name: "scale-up-down", writes: 0, rests: 4 },
];

describe.each(CAPTURES)("$name", ({ name, writes, rests }) => {
  const recording = readRecording(name);
  const verdicts = new Map<Verdict["kind"], number>();
  afterAll(() => {
    if (verdicts.size === 0) return;
    const counts = [...verdicts].map(([kind, count]) => `${count} ${kind}`);
    process.stderr.write(`      measured: ${name}: upstream's writes among ours: ${counts.join(", ")}\n`);
  });

  it("the recording contains the expected number of upstream's writes", () => expect(recording.writes).toHaveLength(writes));

  const numbered = recording.writes.map((write, index) => ({ index, label: labelOf(write), write }));
  it.each(shareOf(numbered, writes * CHECKED))("our controllers decide the recorded write $index $label too", async ({ write }) => {
    const verdict = await classify(recording.history, write, recording.place);
    verdicts.set(verdict.kind, (verdicts.get(verdict.kind) ?? 0) + 1);
    expect(verdict).toMatchObject({ kind: expect.stringMatching(/^(?:exact|older|tie)$/) });
  });

  if (writes > 0)
    it("changes and audit log show the same writes", () => {
      const told = (each: UpstreamWrite): string =>
        `${each.controller} ${each.verb} ${each.resource} ${each.name} ${each.verb === "delete" ? "" : each.version}`;
      const byChanges = writesOfChanges(recording.changes);
      const audited = recording.writes.map(told);
      expect(audited.filter((write) => !byChanges.map(told).includes(write))).toEqual([]);
      expect(byChanges.filter((write) => write.isCertain && !audited.includes(told(write))).map(told)).toEqual([]);
    });

  it("our controllers write nothing while upstream is idle", async () => {
    const { changes } = recording.history;
    const idle = changes.flatMap(({ atMs }, index) =>
      (changes[index + 1]?.atMs ?? Infinity) - atMs < REST_MS ? [] : [{ count: index + 1, atMs }],
    );
    const seen = await Promise.all(idle.map((state) => restAt(recording.history, state, recording.place)));
    expect(seen.flat()).toEqual([]);
    expect(seen).toHaveLength(rests);
  });
});

// Would catch a window of half a second, and a tie decided by pods on a node that upstream does not count.
describe("a busy control plane", () => {
  const STALE = ["web-65494946f9", "web-68b7c9b477"];

  it("shadow mode reports upstream's writes that were based on a cache older than half a second", async () => {
    const { history, writes, place } = readRecording("stale-caches");
    const lags: number[] = [];
    for (const write of writes.filter(({ name }) => STALE.includes(name) || name === "web-68b7c9b477-rr557")) {
      const verdict = await classify(history, write, place);
      expect(verdict).toMatchObject({ kind: expect.stringMatching(/^(?:exact|older|tie)$/) });
      if (verdict.kind === "older") lags.push(verdict.lagMs);
    }
    expect(Math.max(...lags)).toBeGreaterThan(500);
    expect(Math.max(...lags)).toBeLessThanOrEqual(3_000);
  });

  it("upstream deletes pods of a bare ReplicaSet that rank equal to the pods that our controller chooses", async () => {
    const { history, writes, place } = readRecording("tied-deletions");
    const deletions = writes.filter(({ verb }) => verb === "delete");
    const kinds = await Promise.all(deletions.map(async (write) => (await classify(history, write, place)).kind));
    expect(kinds).toContain("tie");
    expect(kinds).not.toContain("unexplained");
  });
});
