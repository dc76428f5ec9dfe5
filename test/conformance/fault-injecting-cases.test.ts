/**
 * The cases of test/fault-profile/cases.ts with deltaloop's controllers on memory adapters, behind a fault-injecting API server
 * over HTTP. A faster form of test/e2e/fault-injecting.test.ts, without a real API server and without upstream's controllers.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { CASES, playInTurns } from "../fault-profile/cases.ts";
import type { Case } from "../fault-profile/cases.ts";
import { startMemorySystem } from "../fault-profile/memory-system.ts";
import type { MemorySystem } from "../fault-profile/memory-system.ts";
import { expectedOutcome, outcomeOf } from "../fault-profile/outcome.ts";
import type { Outcome } from "../fault-profile/outcome.ts";
import { recordHistory } from "../support/history.ts";

/** All cases except the heavy ones, which need five hundred pods in one process. */
const QUICK = CASES.filter(({ turn }) => turn !== "heavy");
/** Limit in ms per case; includes the wait for earlier cases. */
const CASE_MS_MAX = 120_000;
/** Time in ms without writes after which a case has ended, because a test cannot see pending writes. */
const STILL_MS = 500;

describe("on memory adapters, behind a fault-injecting API server", () => {
  let system: MemorySystem;
  let played: ReturnType<typeof playInTurns<Outcome>>;
  beforeAll(async () => {
    system = await startMemorySystem();
    played = playInTurns(QUICK, play);
  });
  afterAll(async () => {
    await system?.close();
  });

  for (const given of QUICK)
    it(given.name, { timeout: CASE_MS_MAX }, async () => {
      expect(await played.get(given.id)).toEqual(expectedOutcome(given));
    });

  async function play(given: Case): Promise<Outcome> {
    const { road, client } = system;
    const namespace = given.id;
    await client.request("POST", "/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
    const history = await recordHistory(client, namespace);
    const polite = road.behave(...given.rules(namespace));
    try {
      await given.play({ namespace, client });
      await new Promise((resolve) => setTimeout(resolve, STILL_MS));
      return await outcomeOf(given, namespace, { client, exchanges: road.exchanges(), history });
    } finally {
      polite();
      await history.stop();
    }
  }
});
