/** Runs one script with upstream's controllers and with ours, each on its own API server. */
import type { Judge } from "../judge.ts";
import { differencesOf, played, type Played } from "./compare.ts";
import { playOurs } from "./ours.ts";
import { scriptOf, type Life, type Script } from "./script.ts";
import { playUpstream } from "./upstream.ts";
import { Scenario } from "./scenario.ts";

/** Values of `patience` in judge.ts. */
const PATIENCES = [1, 0, ...Array.from({ length: 10 }, (_, nth) => nth + 2)];

export interface Sequence {
  readonly script: Script;
  readonly upstream: Played;
  readonly ours: Played;
  readonly differences: readonly string[];
}

/**
 * Plays a script with both sides. Upstream's order of syncs (Deployment or ReplicaSets first) is random, and intermediate writes of the
 * Deployment depend on it. So upstream runs again with other values of `patience`, and only differences that occur in every run count.
 */
export async function playSequence(life: Life, seed: number, judge: Judge): Promise<Sequence> {
  const script = scriptOf(life, seed);
  const ours = await playedOn(script, (scenario) => playOurs(scenario, script));
  const [first = 0, ...others] = life === "deployment" || life === "losses" ? PATIENCES : [];
  const upstream = await playedOn(script, (scenario) => playUpstream(scenario, script, judge, first));
  let differences = differencesOf(script, upstream, ours);
  for (const patience of others) {
    if (differences.length === 0) break;
    const again = await playedOn(script, (scenario) => playUpstream(scenario, script, judge, patience));
    const still = new Set(differencesOf(script, again, ours).map(({ about }) => about));
    differences = differences.filter(({ about }) => still.has(about));
  }
  return { script, upstream, ours, differences: differences.map(({ text }) => text) };
}

async function playedOn({ begin }: Script, play: (scenario: Scenario) => Promise<void>): Promise<Played> {
  const scenario = await Scenario.create(begin);
  await play(scenario);
  const all = await played(scenario);
  scenario.server.close();
  return all;
}
