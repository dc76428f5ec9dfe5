/** A recorded change in one line. */
import { RESOURCES } from "@deltaloop/kube/objects";
import type { Difference, ObjectChange, Entry } from "@deltaloop/replay/explain";

/** Names in one line. */
const NAMES_MAX = 3;

/** Neighbours that say the same of pods of one owner. */
export function alikeFrom(entries: readonly Entry[], index: number): Alike {
  const first = changeAt(entries, index);
  if (first === undefined) throw new Error("no change stands there");
  const alike: [ObjectChange, ...ObjectChange[]] = [first];
  for (let at = index + 1; first.resource === "pods"; at++) {
    const next = changeAt(entries, at);
    if (next?.resource !== "pods" || next.owner !== first.owner || predicateOf(next) !== predicateOf(first)) break;
    alike.push(next);
  }
  return alike;
}

function changeAt(entries: readonly Entry[], index: number): ObjectChange | undefined {
  const entry = entries[index];
  return entry?.kind === "change" ? entry.change : undefined;
}

type Alike = readonly [ObjectChange, ...ObjectChange[]];

export function changeText(changes: Alike): string {
  const [first] = changes;
  const { kind } = RESOURCES[first.resource];
  const names = changes.slice(0, NAMES_MAX).map(({ name }) => name);
  const more = changes.length - names.length;
  const who = `${kind}${changes.length > 1 ? "s" : ""} ${first.namespace}/${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
  return `${who} ${predicateOf(first, changes.length > 1)}`;
}

/** What is told of an object that is new: the rest is its manifest's. */
const AT_FIRST = new Set(["replicas", "paused", "revision", "owner", "phase"]);

export function predicateOf({ kind, differences, by, resource }: ObjectChange, isOfSeveral = false): string {
  const whose = by === undefined ? "" : ` (${byWhom(by)})`;
  if (kind === "goes") return `${isOfSeveral ? "are gone" : "is gone"}${whose}`;
  if (kind === "changes") return `${differences.map(differenceText).join(", ")}${whose}`;
  const first = differences.filter(({ field }) => AT_FIRST.has(field) && !(resource === "pods" && field === "owner"));
  const facts = first.map(({ field, to = "" }) => `${field} ${to}`).join(", ");
  const verb = kind === "stands" ? ["stand there", "stands there"] : ["appear", "appears"];
  return `${verb[isOfSeveral ? 0 : 1]}${facts === "" ? "" : `: ${facts}`}${whose}`;
}

/** So the API server calls a client that did not say who it is. */
function byWhom(by: string): string {
  return by === "unknown" ? "a client without a name" : by;
}

function differenceText(difference: Difference): string {
  const { says } = difference;
  return `${plainText(difference)}${says === undefined ? "" : `: ${says}`}`;
}

function plainText({ field, from, to }: Difference): string {
  const name = field.replace(
    /^status\.(.*?)(?:Replicas)?$/,
    (_, counter: string) => `status ${counter === "observedGeneration" ? "observed generation" : counter}`,
  );
  if (from === undefined && to === undefined) return `${name} changed`;
  if (field === "asked to end") return from === undefined ? "asked to end" : "its end is set anew";
  if (field === "node" && from === undefined) return `assigned to ${to}`;
  if (field === "paused") return to === "true" ? "paused" : "not paused any more";
  if (to === undefined) return name.startsWith("status ") ? `${name} ${from} → 0` : `no ${name} any more`;
  return from === undefined ? `${name} ${name.startsWith("status ") ? `0 → ${to}` : to}` : `${name} ${from} → ${to}`;
}
