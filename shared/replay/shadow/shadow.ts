/** A whole recording beside ours: each of upstream's writes, and each rest. */
import type { Verdict } from "./judge.ts";
import type { SyncPlace } from "./one-sync.ts";
import { canonical, differencesOf } from "./canonical-write.ts";
import { RecordedShadow } from "./recorded.ts";
import type { Finding } from "./recorded.ts";
import type { Change } from "./states.ts";
import type { UpstreamWrite } from "./upstream-writes.ts";

export type { Finding } from "./recorded.ts";

/** Of changes that somebody holds anyway, in the order of versions. @param audited upstream's writes where an audit log tells them; absent: as the changes tell them */
export async function* shadow(changes: readonly Change[], place: SyncPlace, audited?: readonly UpstreamWrite[]): AsyncGenerator<Finding> {
  yield* new RecordedShadow(place, { audited: audited && asked(audited) }).take({ changes, toldMs: Infinity });
}

async function* asked(writes: readonly UpstreamWrite[]): AsyncGenerator<UpstreamWrite> {
  for (const write of writes) yield await Promise.resolve(write);
}

/** Where an unexplained write differs from the most like it of ours; when ours wrote nothing of the kind, from what was there before. */
export function nearestDifferences({ want, ours, before }: Extract<Verdict, { kind: "unexplained" }>): readonly string[] {
  const alike = ours.filter((each) => shapeOf(each) === shapeOf(want)).map((each) => differencesOf(want, each, "ours"));
  const [nearest] = alike.toSorted((a, b) => a.length - b.length);
  return nearest ?? ["ours would have written nothing like it", ...(before === undefined ? [] : differencesOf(want, before, "before"))];
}

/** Which object's write it is, as far as said.ts tells. */
function shapeOf(said: unknown): string {
  const { name, pod } = said as { readonly name?: string; readonly pod?: string };
  return canonical([Object.keys(said as object).toSorted(), name, pod]);
}
