/**
 * The cases of test/rude/cases.ts with our controllers on memory adapters, behind a rude API server over HTTP. What it would catch,
 * test/e2e/rude.test.ts says; here without the real API server and without upstream beside it, so it is the quicker one to run.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { CASES, playInTurns, type Case } from "../rude/cases.ts";
import { startMemorySystem, type MemorySystem } from "../rude/memory-system.ts";
import { expectedOutcome, outcomeOf, type Outcome } from "../rude/outcome.ts";
import { recordHistory } from "../support/history.ts";

/** Five hundred pods in one process with everything else are no quick case. */
const QUICK = CASES.filter(({ turn }) => turn !== "heavy");
/** Each waits for those before it. */
const CASE_MS_MAX = 120_000;
/** Nobody is told of a write that would still come. */
const STILL_MS = 500;

describe("on memory adapters, behind a rude API server", () => {
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
    const polite = road.behave(...given.manners(namespace));
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
