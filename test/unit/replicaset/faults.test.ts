// Random faults: surplus pods after lost responses, intents that block syncs, and keys that are never enqueued.
import { describe, expect, it } from "vitest";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { refusal, type Intercept, type LiveObject } from "../../support/scripted-api.ts";
import { SyncHarness } from "../../harness/sync/sync.ts";
import { pod, replicaSet } from "../../support/workloads.ts";
import { shareOf } from "../../support/share.ts";

const SEEDS = Array.from({ length: 150 }, (_, index) => index + 1);
/** Number of seeds run in `check`; the project `long` runs all. */
const CHECKED = 25;
const STEPS = 40;

function active(harness: SyncHarness): readonly LiveObject[] {
  const uid = harness.api.uid("replicasets", "web");
  return harness.pods.filter(
    ({ metadata }) => metadata.deletionTimestamp === undefined && metadata.ownerReferences?.some((reference) => reference.uid === uid),
  );
}

/**
 * One random history of a ReplicaSet: lost, missing and rejected responses, an interrupted stream, and users who delete, relabel and orphan
 * pods.
 */
async function live(seed: number): Promise<void> {
  const random = createSeededRandom(seed);
  const chance = (p: number): boolean => random.next() < p;
  const pick = <T>(of: readonly T[]): T | undefined => of[Math.floor(random.next() * of.length)];
  const harness = await SyncHarness.create();
  let wanted = 3;
  let wantedMax = 3;
  let adopted = 0;
  const set = async (replicas: number): Promise<void> => {
    wanted = replicas;
    wantedMax = Math.max(wantedMax, replicas);
    await harness.api.change("replicasets", "web", ({ spec }) => ({ spec: { ...spec, replicas } }));
  };
  await harness.api.put("replicasets", replicaSet({ replicas: wanted }));
  const faults: Intercept = ({ resource }) => {
    if (resource === "events" || chance(0.7)) return undefined;
    return pick(["lost", "never", refusal(403, "Forbidden", "exceeded quota"), refusal(500, "InternalError", "no")] as const);
  };
  for (let step = 0; step < STEPS; step++) {
    harness.api.script = { "*": faults };
    // A pod on a node is deleted gracefully, one without a node immediately.
    for (const { metadata, spec } of active(harness))
      if (spec?.["nodeName"] === undefined && chance(0.2)) await harness.api.bind(metadata.name, "n1");
    const some = pick(active(harness))?.metadata.name;
    const what = Math.floor(random.next() * 12);
    if (what < 5) await harness.sync();
    else if (what < 7) await harness.stream();
    else if (what === 7) await set(Math.floor(random.next() * 7));
    else if (what === 8 && some !== undefined) await harness.api.remove("pods", some);
    else if (what === 9) await harness.clock.advance(Math.floor(random.next() * 20_000));
    else if (what === 10 && some !== undefined)
      await harness.api.change("pods", some, ({ metadata }) => ({ metadata: { ...metadata, labels: { app: "other" } } }));
    else if (what === 11) {
      await harness.api.put("pods", pod({ name: `orphan-${step}`, nodeName: chance(0.5) ? "n1" : "" }));
      adopted++;
    }
    expect(active(harness).length, `seed ${seed}: more pods than were ever wanted`).toBeLessThanOrEqual(wantedMax + adopted);
  }
  harness.api.script = {};
  for (let round = 0; round < 12; round++) {
    await harness.stream();
    await harness.ring();
    await harness.clock.advance(10_000);
  }
  const own = active(harness);
  expect(own.filter(({ metadata }) => metadata.labels?.["app"] === "web").length, `seed ${seed}: wanted ${wanted}`).toBe(wanted);
  expect(own.length, `seed ${seed}: something was not released`).toBe(wanted);
  expect(harness.api.find("replicasets", "web").status, `seed ${seed}`).toMatchObject({ replicas: wanted });
  expect(harness.api.find("replicasets", "web").status, `seed ${seed}`).not.toHaveProperty("conditions");
}

describe("random faults", () => {
  it(
    `never creates surplus pods and ends with the desired number (${SEEDS.length} seeds, ${CHECKED} in the project check)`,
    { timeout: 60_000 },
    async () => {
      for (const seed of shareOf(SEEDS, CHECKED)) await live(seed);
    },
  );
});
