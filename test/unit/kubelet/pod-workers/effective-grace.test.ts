// Would catch: a grace period that grows or is lost, a kill without one, and a stop that is not shortened.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { effectiveGrace } from "../../../../shared/node-agent/kubelet/pod-workers/pod-worker.ts";
import type { RequestedGrace } from "../../../../shared/node-agent/kubelet/pod-workers/pod-worker.ts";

describe("effectiveGrace", () => {
  it.each<{ name: string; wishes: Partial<RequestedGrace>; seconds: number; shortened?: boolean }>([
    { name: "the one in the spec", wishes: {}, seconds: 30 },
    { name: "the pod's deletionGracePeriodSeconds", wishes: { deletion: 5 }, seconds: 5 },
    { name: "the pod's deletionGracePeriodSeconds, although it is longer than the spec's", wishes: { deletion: 60 }, seconds: 60 },
    { name: "the override of the kill", wishes: { deletion: 5, override: 2 }, seconds: 2 },
    { name: "deletionGracePeriodSeconds if the override is longer", wishes: { deletion: 5, override: 8 }, seconds: 5 },
    { name: "at least 1 when deletionGracePeriodSeconds is 0", wishes: { deletion: 0 }, seconds: 1 },
    { name: "at least 1 when deletionGracePeriodSeconds is 0, whatever the override", wishes: { deletion: 0, override: 30 }, seconds: 1 },
    { name: "at least 1 when the override is 0", wishes: { override: 0 }, seconds: 1 },
    { name: "at least 1 when the spec's is 0", wishes: { spec: 0 }, seconds: 1 },
    { name: "the recorded one", wishes: { recorded: 10 }, seconds: 10 },
    {
      name: "the recorded one, not a longer deletionGracePeriodSeconds or override",
      wishes: { recorded: 10, deletion: 20, override: 30 },
      seconds: 10,
    },
    { name: "the recorded one, not the shorter spec's", wishes: { recorded: 100, spec: 30 }, seconds: 100 },
    {
      name: "a deletionGracePeriodSeconds shorter than the recorded one",
      wishes: { recorded: 10, deletion: 4 },
      seconds: 4,
      shortened: true,
    },
    { name: "an override of 0, shorter than the recorded one", wishes: { recorded: 10, override: 0 }, seconds: 1, shortened: true },
    { name: "an override of 0, equal to the recorded one", wishes: { recorded: 1, override: 0 }, seconds: 1 },
  ])("[node-agent 51] the effective grace period is $name", ({ wishes, seconds, shortened = false }) => {
    expect(effectiveGrace({ recorded: 0, spec: 30, ...wishes })).toEqual({ seconds, shortened });
  });

  it("[node-agent 51] the grace period never increases once recorded, and a decrease is reported", () => {
    const seconds = fc.integer({ min: -5, max: 50 });
    const wish = fc.record({
      deletion: fc.option(seconds, { nil: undefined }),
      override: fc.option(seconds, { nil: undefined }),
      spec: seconds,
    });
    fc.assert(
      fc.property(fc.array(wish, { minLength: 1, maxLength: 8 }), (wishes) => {
        let recorded = 0;
        for (const next of wishes) {
          const grace = effectiveGrace({ recorded, ...next });
          expect(grace.seconds).toBeGreaterThanOrEqual(1);
          if (recorded > 0) expect(grace.seconds).toBeLessThanOrEqual(recorded);
          expect(grace.shortened).toBe(recorded > 0 && grace.seconds < recorded);
          recorded = grace.seconds;
        }
      }),
    );
  });
});
