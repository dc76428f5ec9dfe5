// Would catch: a crash loop without back-off or with a longer one than upstream's, and a back-off that is not reset by a long run or a new
// image.
import { describe, expect, it } from "vitest";
import { restartBackOffKey, restartDecision } from "../../../../shared/node-agent/kubelet/pod-workers/back-off.ts";
import type { RestartDecision } from "../../../../shared/node-agent/kubelet/pod-workers/back-off.ts";
import type { ObservedContainer } from "../../../../shared/node-agent/kubelet/types/observed-pod.ts";
import type { BackOffEntry } from "../../../../shared/node-agent/ports/node-store.ts";
import { container, containerSpec, exited, nodePod, NOW_MS, observed } from "../fixtures.ts";

const FOO1 = containerSpec("foo1");

function decide(containers: readonly ObservedContainer[], entry?: BackOffEntry, nowMs = NOW_MS): RestartDecision {
  return restartDecision({ pod: nodePod(), container: FOO1, observed: observed({ containers }), entry, nowMs });
}

/** A minimal runtime: waits for each back-off, runs for the next of `runsMs`, and returns the length of each wait. */
function waits(runsMs: readonly number[]): readonly number[] {
  let entry: BackOffEntry | undefined;
  let nowMs = NOW_MS;
  return runsMs.map((runMs) => {
    const finishedAtMs = (nowMs += runMs);
    let decision = decide([exited("foo1", 1, { finishedAtMs })], entry, nowMs);
    if (!decision.start) {
      nowMs = decision.untilMs;
      expect(decide([exited("foo1", 1, { finishedAtMs })], entry, nowMs - 1).start).toBe(false);
      decision = decide([exited("foo1", 1, { finishedAtMs })], entry, nowMs);
    }
    if (!decision.start) throw new Error("still waiting when the wait is over");
    entry = decision.entry;
    return (nowMs - finishedAtMs) / 1000;
  });
}

describe("restartDecision", () => {
  it("[node-agent 91] waits 0, 10, 20, 40, 80, 160, 300, 300 s when a container exits immediately, and 0 after a run of 11 min", () => {
    expect(waits([0, 0, 0, 0, 0, 0, 0, 0, 660_000])).toEqual([0, 10, 20, 40, 80, 160, 300, 300, 0]);
  });

  it("[node-agent 91] after a long run, restarts immediately and then backs off from 10 s; a run of exactly 10 min is not long", () => {
    expect(waits([0, 0, 660_000, 0, 0])).toEqual([0, 10, 0, 10, 20]);
    expect(waits([0, 0, 600_000, 600_001])).toEqual([0, 10, 20, 0]);
  });

  it("measures the back-off from the exit, and reports it with the kubelet's message", () => {
    const foo1 = exited("foo1", 1, { finishedAtMs: NOW_MS - 4000 });
    expect(decide([foo1], { delayMs: 10_000, lastUpdateMs: NOW_MS - 5000 })).toEqual({
      start: false,
      delayMs: 10_000,
      untilMs: NOW_MS + 6000,
      message: "back-off 10s restarting failed container=foo1 pod=foo_new(12345678)",
    });
  });

  it.each([
    { delayMs: 40_000, want: "40s" },
    { delayMs: 80_000, want: "1m20s" },
    { delayMs: 160_000, want: "2m40s" },
    { delayMs: 300_000, want: "5m0s" },
  ])("the back-off message shows $delayMs ms as $want", ({ delayMs, want }) => {
    const decision = decide([exited("foo1", 1)], { delayMs, lastUpdateMs: NOW_MS - 11_000 });
    expect(decision).toMatchObject({ start: false, message: expect.stringContaining(`back-off ${want} restarting`) });
  });

  it("uses the newest exited instance of this container only", () => {
    const entry = { delayMs: 20_000, lastUpdateMs: NOW_MS - 30_000 };
    const instances = [
      exited("foo1", 1, { restartCount: 0, finishedAtMs: NOW_MS - 29_000 }),
      exited("foo1", 1, { restartCount: 1, finishedAtMs: NOW_MS - 5000 }),
      container({ state: "CONTAINER_CREATED", restartCount: 2 }),
      exited("foo2", 1, { restartCount: 9, finishedAtMs: NOW_MS - 1 }),
    ];
    expect(decide(instances, entry)).toMatchObject({ start: false, untilMs: NOW_MS + 15_000 });
  });

  it("keeps doubling after a long time without an agent, because only the container's running time counts", () => {
    const entry = { delayMs: 80_000, lastUpdateMs: NOW_MS - 900_000 };
    const foo1 = exited("foo1", 1, { finishedAtMs: NOW_MS - 890_000 });
    expect(decide([foo1], entry)).toEqual({ start: true, entry: { delayMs: 160_000, lastUpdateMs: NOW_MS } });
  });

  it("starts immediately and stores nothing without an exited instance", () => {
    const entry = { delayMs: 300_000, lastUpdateMs: NOW_MS };
    expect([decide([], entry), decide([container({ state: "CONTAINER_UNKNOWN" })], entry)]).toEqual([{ start: true }, { start: true }]);
  });

  it("backs off after exit code 0 as after any other, and does not delay a container without an exit time", () => {
    const entry = { delayMs: 10_000, lastUpdateMs: NOW_MS - 1000 };
    const { finishedAtMs: _, ...timeless } = exited("foo1", 0);
    expect(decide([exited("foo1", 0, { finishedAtMs: NOW_MS - 500 })], entry).start).toBe(false);
    expect(decide([timeless], entry)).toEqual({ start: true, entry: { delayMs: 20_000, lastUpdateMs: NOW_MS } });
  });
});

describe("restartBackOffKey", () => {
  it("the back-off key contains the pod, the container and its hash, so that a changed image starts without back-off", () => {
    expect(restartBackOffKey(nodePod(), containerSpec("foo1", { image: "foo:v1" }))).toBe("foo_new_12345678_foo1_a7ccf167");
    expect(restartBackOffKey(nodePod(), containerSpec("foo1", { image: "foo:v2" }))).not.toContain("a7ccf167");
  });
});
