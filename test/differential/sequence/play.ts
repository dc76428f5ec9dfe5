/** One script, played by upstream's controllers and by ours, each on an API server of its own. */
import type { Judge } from "../judge.ts";
import { differencesOf, played, type Played } from "./compare.ts";
import { playOurs } from "./ours.ts";
import { scriptOf, type Life, type Script } from "./script.ts";
import { playUpstream } from "./upstream.ts";
import { Scenario } from "./scenario.ts";

/** See judge.ts. */
const PATIENCES = [1, 0, ...Array.from({ length: 10 }, (_, nth) => nth + 2)];

export interface Sequence {
  readonly script: Script;
  readonly upstream: Played;
  readonly ours: Played;
  readonly differences: readonly string[];
}

/**
 * Who of a Deployment and its ReplicaSets is looked at first is chance in upstream, and what a Deployment says on its way hangs on it. So
 * upstream is asked again, with other patience, and of what differs only that counts which differs each time.
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
