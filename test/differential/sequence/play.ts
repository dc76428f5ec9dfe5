/** One script, played by upstream's controllers and by ours, each on an API server of its own. */
import type { Judge } from "../judge.ts";
import { differencesOf, played } from "./compare.ts";
import type { Played } from "./compare.ts";
import { playOurs } from "./ours.ts";
import { scriptOf } from "./script.ts";
import type { Script } from "./script.ts";
import { playUpstream } from "./upstream.ts";
import { World } from "./world.ts";

export interface Sequence {
  readonly script: Script;
  readonly upstream: Played;
  readonly ours: Played;
  readonly differences: readonly string[];
}

export async function playSequence(seed: number, judge: Judge): Promise<Sequence> {
  const script = scriptOf(seed);
  const [theirs, mine] = [await World.create(script.begin), await World.create(script.begin)];
  await playUpstream(theirs, script, judge);
  await playOurs(mine, script);
  const [upstream, ours] = [await played(theirs), await played(mine)];
  theirs.server.close();
  mine.server.close();
  return { script, upstream, ours, differences: differencesOf(script, upstream, ours) };
}
