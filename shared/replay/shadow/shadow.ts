/** Compares a whole recording with deltaloop's syncs: each upstream write, and each idle state. */
import type { Verdict } from "./classify.ts";
import type { SyncPlace } from "./one-sync.ts";
import { canonical, differencesOf } from "./canonical-write.ts";
import { RecordedShadow } from "./recorded.ts";
import type { Finding } from "./recorded.ts";
import type { Change } from "./states.ts";
import type { UpstreamWrite } from "./upstream-writes.ts";

export type { Finding } from "./recorded.ts";

/**
 * Compares changes in memory, which are in the order of versions. @param audited upstream's writes from an audit log; if absent, they are
 * derived from the changes
 */
export async function* shadow(changes: readonly Change[], place: SyncPlace, audited?: readonly UpstreamWrite[]): AsyncGenerator<Finding> {
  yield* new RecordedShadow(place, { audited: audited && asIterator(audited) }).take({ changes, completeMs: Infinity });
}

async function* asIterator(writes: readonly UpstreamWrite[]): AsyncGenerator<UpstreamWrite> {
  for (const write of writes) yield await Promise.resolve(write);
}

/** The differences between an unexplained write and the most similar one of deltaloop's, or the previous object if there is no similar write. */
export function nearestDifferences({ want, ours, before }: Extract<Verdict, { kind: "unexplained" }>): readonly string[] {
  const alike = ours.filter((each) => shapeOf(each) === shapeOf(want)).map((each) => differencesOf(want, each, "deltaloop"));
  const [nearest] = alike.toSorted((a, b) => a.length - b.length);
  return nearest ?? ["deltaloop would have made no similar write", ...(before === undefined ? [] : differencesOf(want, before, "before"))];
}

/** Identifies the object of a canonical write. */
function shapeOf(said: unknown): string {
  const { name, pod } = said as { readonly name?: string; readonly pod?: string };
  return canonical([Object.keys(said as object).toSorted(), name, pod]);
}
