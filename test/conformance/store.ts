/**
 * The conformance suite of Stores (shared/store/ports/store.ts; informer §10–§15). Catches: a rule of the index that lets an old version
 * win or a deleted object return, a watermark ahead of its lane, a wake-up lost between two appliers, a key that runs twice at once or
 * never, intents lowered by the wrong caller. Titles name the rule, contract or row of informer §21 that they test.
 *
 * unit/cache and simulation test T56, T57 (Lease), T02–T24 (reflector) and T60 (randomised model).
 */
import { afterEach, describe } from "vitest";

import { clockCases } from "./store/clock-jumps.ts";
import { drawnNameCases } from "./store/drawn-names.ts";
import { epochCases } from "./store/epochs.ts";
import { eventCases } from "./store/events.ts";
import { forgedCases } from "./store/forged.ts";
import { forgeryCases } from "./store/forgeries.ts";
import { guardCases } from "./store/guard.ts";
import { heartbeatCases } from "./store/heartbeats.ts";
import { gateCases } from "./store/gate.ts";
import { indexCases } from "./store/index-rules.ts";
import { intentCases } from "./store/intents.ts";
import { laneGrowthCases } from "./store/lane-growth.ts";
import { laneCases } from "./store/lanes.ts";
import { lossCases } from "./store/loss.ts";
import { lineageCases } from "./store/lineage.ts";
import { lookUpCases } from "./store/look-ups.ts";
import { manifestCases } from "./store/manifests.ts";
import { ownerCases } from "./store/owners.ts";
import { restoreCases } from "./store/restores.ts";
import { HOLE_LIMIT_MS, IDENTITY, StoreHarness, type Lanes, type StoreFactory, type StoreFixture } from "../harness/store/store.ts";
import { tallyCases } from "./store/tallies.ts";
import { workQueueCases } from "./store/work-queue.ts";
import { writeThroughCases } from "./store/write-through.ts";

/** Opens a new Store for one test; it is closed when the test ends. */
export type OpenStore = (lanes?: Lanes) => Promise<StoreHarness>;

export function storeConformance(name: string, factory: StoreFactory): void {
  describe(`Store on ${name}`, () => {
    const fixtures: StoreFixture[] = [];
    let stores = 0;
    const open: OpenStore = async (lanes) => {
      const fixture = await factory({
        deployment: "conformance",
        cluster: `cluster-${++stores}`,
        identity: IDENTITY,
        holeLimitMs: HOLE_LIMIT_MS,
      });
      fixtures.push(fixture);
      return new StoreHarness(fixture, lanes);
    };
    afterEach(async () => {
      for (const fixture of fixtures.splice(0)) await fixture.close();
    });

    describe("index: rows", () => {
      indexCases(open);
    });
    describe("index: look-ups", () => {
      lookUpCases(open);
    });
    describe("index: lanes", () => {
      laneCases(open);
      laneGrowthCases(open);
    });
    describe("index: manifests", () => {
      manifestCases(open);
    });
    describe("index: restores", () => {
      restoreCases(open);
    });
    describe("index: owners", () => {
      ownerCases(open);
    });
    describe("index: forged values", () => {
      forgedCases(open);
    });
    describe("epochs and fences", () => {
      epochCases(open);
    });
    describe("heartbeats", () => {
      heartbeatCases(open);
    });
    describe("loss", () => {
      lossCases(open);
    });
    describe("lineage", () => {
      lineageCases(open);
    });
    describe("jumps of the Redis server's clock", () => {
      clockCases(open);
    });
    describe("forgeries", () => {
      forgeryCases(open);
    });
    describe("item counts", () => {
      tallyCases(open);
    });
    describe("gate", () => {
      gateCases(open);
    });
    describe("guard", () => {
      guardCases(open);
    });
    describe("work queue", () => {
      workQueueCases(open);
    });
    describe("intents", () => {
      intentCases(open);
    });
    describe("generated pod names", () => {
      drawnNameCases(open);
    });
    describe("Events", () => {
      eventCases(open);
    });
    describe("write-through", () => {
      writeThroughCases(open);
    });
  });
}

export type { StoreFactory, StoreFixture, StoreFixtureOptions } from "../harness/store/store.ts";
