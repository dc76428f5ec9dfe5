/**
 * The in-memory API server compared with a real one: fresh sequences of managers, and fresh CustomResourceDefinitions with objects. Catches: an
 * answer, a stored object or a managed field that differs. `node test/differential/embedded/run.ts` plays more.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createSystemRandom } from "../../shared/base/system/random.ts";
import { isKnown, KNOWN } from "../differential/embedded/known.ts";
import { compareSchemas } from "../differential/embedded/schemas.ts";
import { playSequence } from "../differential/embedded/sequences.ts";
import { type Answer, ask, differencesOf } from "../differential/embedded/servers.ts";
import { startServers } from "../differential/embedded/start.ts";
import { eventually, whereRealPartsAre } from "../support/e2e.ts";

const SEQUENCES = 12;
const SCHEMAS = 6;
const SEEDS = 1_000_000_000;

await whereRealPartsAre("custom resources and server-side apply beside a real API server", () => {
  describe("the in-memory API server compared with kube-apiserver", () => {
    let started: Awaited<ReturnType<typeof startServers>>;
    const seed = Math.floor(createSystemRandom().next() * SEEDS);
    beforeAll(async () => {
      started = await startServers();
    });
    afterAll(async () => await started?.stop());

    it(`returns the same objects and managedFields as kube-apiserver after random writes of several field managers (seed ${seed}`, async () => {
      for (let i = 0; i < SEQUENCES; i += 1) {
        const difference = await playSequence(started.servers, seed + i);
        if (difference === undefined || isKnown(difference)) continue;
        expect.fail(`seed ${difference.seed}, step ${difference.step}: ${differencesOf(difference.real, difference.ours).join("\n")}`);
      }
    });

    it(`agrees on CustomResourceDefinitions and their objects, from seed ${seed}`, async () => {
      const { differences, requests } = await compareSchemas(started.servers, seed, seed + SCHEMAS - 1);
      expect(requests).toBeGreaterThan(SCHEMAS);
      const unknown = differences.filter((difference) => !isKnown(difference));
      expect(unknown.map(({ seed: of, step, real, ours }) => `schema ${of}, ${step}: ${differencesOf(real, ours).join("\n")}`)).toEqual([]);
    });

    it.each(KNOWN)("still differs: $name", async ({ example, is }) => {
      const [real, ours] = await Promise.all(
        [started.servers.real, started.servers.ours].map(async (send) => {
          let answer: Answer | undefined;
          for (const request of example)
            answer = await eventually("an answer", async () => {
              const last = await ask(send, request);
              // A new kind is not served at once.
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
