/**
 * The points at which a directed plan injects its fault, from the trace of a run without faults. The patterns are those of "Automatic
 * Reliability Testing For Cluster Management Controllers" (Sieve, OSDI '22):
 *
 * | Pattern | Sieve's name | Fault |
 * |---|---|---|
 * | `crash` | intermediate states | the function is killed when the API server has executed this write |
 * | `stale` | stale states | the watch stands still from this event until a later event of the same object has happened |
 * | `hidden` | unobserved states | this event of an object is never seen, only the later one that supersedes it |
 */
import type { CachedResource } from "../../../shared/kube/objects/resources.ts";
import type { LiveObject } from "../../support/scripted-api.ts";

export type Plan =
  | { readonly pattern: "crash"; readonly write: number }
  | { readonly pattern: "stale" | "hidden"; readonly resource: CachedResource; readonly from: number; readonly until: number };

/** What happened in a run, in order. */
export interface Recorded {
  /** The functions' writes, as `create pods`; Events are left out. */
  readonly writes: readonly string[];
  /** The events of each watch after its initial objects. */
  readonly events: ReadonlyMap<CachedResource, readonly RecordedEvent[]>;
}

export interface RecordedEvent {
  readonly key: string;
  /** The event's type and the parts of the object that changed, as `MODIFIED spec`. */
  readonly change: string;
}

export const PLANS_MAX = 200;

/** All plans of the run, in order, each with the pair of fault and step that it covers. */
export function plansOf({ writes, events }: Recorded): readonly { readonly plan: Plan; readonly covers: string }[] {
  const crashes = writes.map((write, index) => ({ plan: { pattern: "crash", write: index } as const, covers: `crash after ${write}` }));
  const holds = [...events].flatMap(([resource, seen]) =>
    seen.flatMap((event, from) => {
      const until = seen.findIndex(({ key }, index) => index > from && key === event.key);
      const later = seen[until];
      if (later === undefined) return [];
      return (["stale", "hidden"] as const).map((pattern) => ({
        plan: { pattern, resource, from, until },
        covers: `${pattern} ${resource}: ${event.change}, then ${later.change}`,
      }));
    }),
  );
  return [...crashes, ...holds];
}

/** At most PLANS_MAX plans: one of each covered pair, then a second one of each, and so on, the first and the last of a pair first. */
export function chosenPlans(recorded: Recorded): readonly Plan[] {
  const pairs = Map.groupBy(plansOf(recorded), ({ covers }) => covers);
  const spread = [...pairs.values()].map((plans) => fromBothEnds(plans.map(({ plan }) => plan)));
  const rounds = Math.max(0, ...spread.map((plans) => plans.length));
  const chosen = Array.from({ length: rounds }, (_, round) => spread.flatMap((plans) => plans.slice(round, round + 1))).flat();
  return chosen.slice(0, PLANS_MAX);
}

function fromBothEnds<T>(all: readonly T[]): readonly T[] {
  return all.map((_, at) => all[at % 2 === 0 ? at / 2 : all.length - (at + 1) / 2] as T); // the index is within the list
}

/** The parts of an object that an event changed. */
export function changeOf(type: string, before: LiveObject | undefined, after: LiveObject): string {
  if (type !== "MODIFIED" || before === undefined) return type;
  const parts: readonly (readonly [string, (object: LiveObject) => unknown])[] = [
    ["spec", ({ spec }) => spec],
    ["status", ({ status }) => status],
    ["labels", ({ metadata }) => metadata.labels],
    ["annotations", ({ metadata }) => metadata.annotations],
    ["owner", ({ metadata }) => metadata.ownerReferences],
    ["deletion", ({ metadata }) => metadata.deletionTimestamp],
  ];
  const changed = parts.flatMap(([name, of]) => (JSON.stringify(of(before)) === JSON.stringify(of(after)) ? [] : [name]));
  return `MODIFIED ${changed.join(" and ")}`.trim();
}
