/** Twenty things that people do to a Deployment, with functions that die on the way, drawn from a seed. */
import { createSeededRandom } from "../../../shared/adapters/memory/random.ts";
import { DESIRED_REPLICAS } from "../../../shared/deployment/annotations.ts";
import type { Death } from "./rig.ts";
import { CrashRig } from "./rig.ts";
import { imageOf, noTwins, sizeOf, template, web } from "./workloads.ts";

const STEPS = 20;
const CALLS_MAX = 1_500;
const DEATH_SHARE = 0.02;
const SURGE = 1;

/**
 * All along: no two ReplicaSets of one template, no more asked for than the greatest size since the last rest and the surge, and, once
 * all were ready, never fewer ready than the least size since then; but where a template comes back whose ReplicaSet was being shrunk,
 * upstream's own arithmetic goes below that (deployment Q15). At the end: as wanted, and nothing extra.
 * @throws {Error} naming the seed and what did not hold
 */
export async function liveRandomly(seed: number): Promise<{ readonly stats: { readonly deaths: number; readonly calls: number } }> {
  const random = createSeededRandom(seed);
  const below = (n: number): number => Math.floor(random.next() * n);
  const deaths: Death[] = [];
  for (let call = 1; call <= CALLS_MAX; call++)
    if (random.next() < DEATH_SHARE) deaths.push({ call, when: below(2) === 0 ? "before" : "after" });
  /** Since the last rest. */
  const bounds = { most: 3, least: 0 };
  let broken: string | undefined;
  const rig = await CrashRig.create(deaths, (at) => {
    try {
      noTwins(at);
    } catch (error) {
      broken ??= String(error);
    }
    const asked = at.replicaSets.reduce((total, rs) => total + sizeOf(rs), 0);
    const ready = at.activePods.filter(({ status }) => status?.["phase"] === "Running").length;
    if (isOverstated(at)) bounds.least = 0;
    if (asked > bounds.most + SURGE) broken ??= `${asked} asked for, of at most ${bounds.most + SURGE}`;
    if (ready < bounds.least) broken ??= `${ready} ready, of at least ${bounds.least}`;
  });
  const holds = (): void => {
    if (broken !== undefined) throw new Error(`seed ${seed}: ${broken}`);
  };
  const wanted = (): number => sizeOf(rig.api.find("deployments", "web"));
  const isResting = { now: false };
  const rest = async (): Promise<void> => {
    await rig.settle();
    holds();
    const { spec } = rig.api.find("deployments", "web");
    isResting.now = true;
    bounds.most = Math.max(wanted(), rig.replicaSets.reduce((total, rs) => total + sizeOf(rs), 0) - SURGE);
    bounds.least = spec?.["paused"] === true ? 0 : wanted();
  };
  const change = async (spec: object): Promise<void> =>
    void (await rig.api.change("deployments", "web", (d) => ({ spec: { ...d.spec, ...spec } })));
  const resize = async (replicas: number): Promise<void> => {
    bounds.most = Math.max(bounds.most, replicas);
    // In the middle of a rollout old and new shrink in proportion, ready or not.
    bounds.least = isResting.now ? Math.min(bounds.least, replicas) : 0;
    await change({ replicas });
  };
  const annotate = async (annotations: object): Promise<void> =>
    void (await rig.api.change("deployments", "web", ({ metadata }) => ({
      metadata: { ...metadata, annotations: { ...metadata.annotations, ...annotations } },
    })));

  await rig.api.put("deployments", web({ revisionHistoryLimit: 2 }));
  await rest();
  for (let step = 0; step < STEPS; step++) {
    const { spec } = rig.api.find("deployments", "web");
    const roll = below(10);
    if (roll < 4) await change({ template: template(`v${below(5)}`) });
    else if (roll < 7) await resize(1 + below(6));
    else if (roll < 8) await change({ paused: spec?.["paused"] !== true });
    else if (roll < 9) await annotate({ "deprecated.deployment.rollback.to": "0" });
    else await annotate({ note: String(step) });
    isResting.now = false;
    if (below(3) === 0) await rest();
    else for (let rounds = below(6); rounds > 0; rounds--) await rig.round();
    holds();
  }
  await change({ paused: false });
  await rest();
  const image = imageOf(rig.api.find("deployments", "web"));
  const active = rig.replicaSets.filter((rs) => sizeOf(rs) > 0);
  const stats = { deaths: rig.deaths, calls: rig.calls };
  // One that has the right size and remembers another is never repaired, here as upstream: nothing rolls out (deployment Q3).
  if (active.length === 1 && active.every((rs) => rs.metadata.annotations?.[DESIRED_REPLICAS] !== String(wanted()))) return { stats };
  const left = active.map((rs) => `${imageOf(rs)}: ${sizeOf(rs)}`);
  if (left.join() !== `${image}: ${wanted()}`) throw new Error(`seed ${seed}: ${image} × ${wanted()} is wanted, there is ${left.join()}`);
  if (rig.activePods.length !== wanted()) throw new Error(`seed ${seed}: ${rig.activePods.length} pods, ${wanted()} wanted`);
  return { stats };
}

/** Whether the new ReplicaSet reports more available pods than it should have: its controller has not followed yet. */
function isOverstated({ api, replicaSets }: CrashRig): boolean {
  const [d] = api.all("deployments");
  const fresh = d && replicaSets.find((rs) => imageOf(rs) === imageOf(d));
  return fresh !== undefined && Number(fresh.status?.["availableReplicas"] ?? 0) > sizeOf(fresh);
}
