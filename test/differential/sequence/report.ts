import type { Sequence } from "./play.ts";
import type { Life } from "./script.ts";

/** Formats the differences as text. */
export function reportOf(life: Life, seed: number, { script, differences }: Sequence): string {
  const lag = script.podsLagMs > 0 ? `, pods ${script.podsLagMs} ms late` : "";
  return [`sequence of ${life}, seed ${seed}${lag}`, ...differences.map((each) => `  ${each}`)].join("\n");
}

/** Yields the writes of both sides and the actions in between for one seed. */
export function* traceOf({ script, upstream, ours }: Sequence): Generator<string> {
  for (const { atMs, ...act } of script.acts) yield `${secondsOf(atMs)}  people    ${JSON.stringify(act)}`;
  for (const [who, { lines }] of Object.entries({ upstream, ours }))
    for (const { atMs, kind, object, text } of lines) yield `${secondsOf(atMs)}  ${who.padEnd(8)}  ${kind} ${object}: ${text}`;
}

function secondsOf(atMs: number): string {
  return (atMs / 1000).toFixed(3).padStart(9);
}
