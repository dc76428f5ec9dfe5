/** Twenty random user requests to a Deployment, during which functions are killed. */
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { rawClientIn } from "../../support/raw-client.ts";
import { NAMESPACE } from "../../support/scripted-api.ts";
import { Bounds, wrongAtRest } from "./bounds.ts";
import type { Observed } from "./bounds.ts";
import { drawOperation, operate } from "./operations.ts";
import type { Operation } from "./operations.ts";
import type { Death } from "./rig.ts";
import { CrashRig } from "./rig.ts";
import { imageOf, sizeOf, web } from "./workloads.ts";

const STEPS = 20;
const CALLS_MAX = 1_500;
const DEATH_SHARE = 0.02;

/**
 * Checks the bounds (bounds.ts) after every call, and at the end the desired state without surplus objects.
 * @throws {Error} with the seed and the violation
 */
export async function liveRandomly(
  seed: number,
  trace: (line: string) => void = () => undefined,
): Promise<{ readonly stats: { readonly deaths: number; readonly calls: number } }> {
  const random = createSeededRandom(seed);
  const below = (n: number): number => Math.floor(random.next() * n);
  const deaths: Death[] = [];
  for (let call = 1; call <= CALLS_MAX; call++)
    if (random.next() < DEATH_SHARE) deaths.push({ call, when: below(2) === 0 ? "before" : "after" });
  const given = web({ revisionHistoryLimit: 2 });
  const bounds = new Bounds(given);
  let broken: string | undefined;
  let before = "";
  const rig = await CrashRig.create(deaths, (at) => {
    broken ??= bounds.broken(observed(at));
    const now = at.replicaSets
      .map((rs) => `${imageOf(rs)} ${sizeOf(rs)} (${String(rs.status?.["availableReplicas"] ?? 0)} available)`)
      .join(", ");
    if (now !== before) trace(`  ${at.calls}: ${now}${broken === undefined ? "" : `: ${broken}`}`);
    before = now;
  });
  const person = rawClientIn(rig.api.server);
  const rest = async (): Promise<void> => {
    await rig.settle();
    if (broken !== undefined) throw new Error(`seed ${seed}: ${broken}`);
    bounds.rested(observed(rig));
    trace("rest");
  };
  const act = async (operation: Operation): Promise<void> => {
    trace(JSON.stringify(operation));
    bounds.acted(operation);
    await operate(person, NAMESPACE, operation);
  };

  await rig.api.put("deployments", given);
  await rest();
  for (let step = 0; step < STEPS; step++) {
    await act(drawOperation(random, step, rig.api.find("deployments", "web").spec?.["paused"] === true));
    if (below(3) === 0) await rest();
    else for (let rounds = below(6); rounds > 0; rounds--) await rig.round();
    if (broken !== undefined) throw new Error(`seed ${seed}: ${broken}`);
  }
  await act({ kind: "pause", paused: false });
  await rest();
  const wrong = wrongAtRest(observed(rig));
  if (wrong !== undefined) throw new Error(`seed ${seed}: ${wrong}`);
  return { stats: { deaths: rig.deaths, calls: rig.calls } };
}

function observed({ api, replicaSets, activePods }: CrashRig): Observed {
  return { deployment: api.find("deployments", "web"), replicaSets, pods: activePods };
}
