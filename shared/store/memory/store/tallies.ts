/** Fates of items (TY1). */
import { tableOf } from "@deltaloop/kube/objects";
import type { ItemOutcome, LaneTally } from "../../ports/store.ts";
import { FATES } from "../../ports/tallies.ts";
import type { Fate } from "../../ports/tallies.ts";
import type { MemoryData } from "./data.ts";

/** Counts `items` by `fates`. */
export function tally(
  data: MemoryData,
  { resource, lane }: Pick<LaneTally, "resource" | "lane">,
  items: number,
  fates: Readonly<Partial<Record<Fate, number>>>,
): void {
  if (items === 0) return;
  const id = `${resource}:${lane}`;
  const before = data.tallies.get(id) ?? { resource, lane, received: 0, fates: tableOf(FATES, () => 0) };
  const after = tableOf(FATES, (fate) => before.fates[fate] + (fates[fate] ?? 0));
  data.tallies.set(id, { resource, lane, received: before.received + items, fates: after });
}

export function fatesOf(outcomes: readonly ItemOutcome[]): Readonly<Partial<Record<Fate, number>>> {
  const applied = outcomes.filter((outcome) => outcome === "changed").length;
  const superseded = outcomes.filter((outcome) => outcome === "same" || outcome === "late" || outcome === "absent").length;
  return { applied, superseded };
}

export function tallies(data: MemoryData): readonly LaneTally[] {
  const views: readonly LaneTally["resource"][] = [...data.catalog.views, "unknown"];
  return [...data.tallies.values()].toSorted((a, b) => views.indexOf(a.resource) - views.indexOf(b.resource) || a.lane - b.lane);
}
