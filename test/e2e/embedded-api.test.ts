/**
 * The in-memory API server compared with a real one: sequences of writes by several managers, and CustomResourceDefinitions with objects.
 * Catches: a response, warning, stored object or managed field that differs. The seeds are fixed; `node test/differential/embedded/run.ts`
 * runs other seeds.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isKnown, KNOWN } from "../differential/embedded/known.ts";
import { compareSchemas } from "../differential/embedded/schemas.ts";
import { playSequence } from "../differential/embedded/sequences.ts";
import { type Answer, ask, differencesOf } from "../differential/embedded/servers.ts";
import { startServers } from "../differential/embedded/start.ts";
import { eventually, whereRealPartsAre } from "../support/e2e.ts";

const FIRST = 1;
const SEQUENCES = 12;
const SCHEMAS = 6;
/** Schemas for which the servers' responses once differed. */
const FAILED_ONCE: readonly { readonly seed: number; readonly why: string }[] = [
  { seed: 628_835_818, why: "null in an apply for a value of additionalProperties" },
  { seed: 628_835_822, why: "null in an apply for a key of a list" },
  { seed: 44_965_154, why: "a number where a duration belongs" },
  { seed: 3, why: "a text that is no kind, and metadata of an embedded resource that are none" },
  { seed: 15, why: "null in an apply for an enum" },
  { seed: 53, why: "an unknown field in the metadata of an embedded resource" },
];

await whereRealPartsAre("custom resources and server-side apply beside a real API server", () => {
  describe("the in-memory API server compared with kube-apiserver", () => {
    let started: Awaited<ReturnType<typeof startServers>>;
    beforeAll(async () => {
      started = await startServers();
    });
    afterAll(async () => await started?.stop());

    it("returns the same objects and managedFields as kube-apiserver after random writes of several field managers", async () => {
      for (let seed = FIRST; seed < FIRST + SEQUENCES; seed += 1) {
        const difference = await playSequence(started.servers, seed);
        if (difference === undefined || isKnown(difference)) continue;
        expect.fail(`seed ${difference.seed}, step ${difference.step}: ${differencesOf(difference.real, difference.ours).join("\n")}`);
      }
    });

    it("agrees on CustomResourceDefinitions and their objects", async () => {
      const first = 101;
      const seeds = [...Array.from({ length: SCHEMAS }, (_, i) => first + i), ...FAILED_ONCE.map(({ seed }) => seed)];
      const { differences, requests } = await compareSchemas(started.servers, seeds);
      expect(requests).toBeGreaterThan(seeds.length);
      const unknown = differences.filter((difference) => !isKnown(difference));
      expect(unknown.map(({ seed: of, step, real, ours }) => `schema ${of}, ${step}: ${differencesOf(real, ours).join("\n")}`)).toEqual([]);
    });

    it.each(KNOWN)("the known difference still exists: $name", async ({ example, is }) => {
      const [real, ours] = await Promise.all(
        [started.servers.real, started.servers.ours].map(async (send) => {
          let answer: Answer | undefined;
          for (const request of example)
            answer = await eventually("an answer", async () => {
              const last = await ask(send, request);
              // A new custom resource is not served immediately.
              return last.code === 404 ? undefined : last;
            });
          return answer;
        }),
      );
      if (real === undefined || ours === undefined) throw new Error("no answer");
      expect(differencesOf(real, ours)).not.toEqual([]);
      expect(is({ real, ours })).toBe(true);
    });
  });
});
