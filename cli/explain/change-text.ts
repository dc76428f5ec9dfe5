/** A recorded change in one line. */
import type { Difference, ObjectChange, Entry } from "@deltaloop/replay/explain";

import { objectName } from "./subject.ts";

/** Maximum number of names in one line. */
const NAMES_MAX = 3;

/** Adjacent changes that are equal for pods of one owner. */
export function alikeFrom(entries: readonly Entry[], index: number): Alike {
  const first = changeAt(entries, index);
  if (first === undefined) throw new Error("entry without a change");
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
  const names = changes.slice(0, NAMES_MAX).map(({ resource, name }) => objectName(resource, name));
  const more = changes.length - names.length;
  return `${names.join(", ")}${more > 0 ? ` and ${more} more` : ""} ${predicateOf(first)}`;
}

/** Fields of a new object that are printed; its manifest contains the others. */
const AT_FIRST = new Set(["replicas", "paused", "revision", "owner", "phase"]);

export function predicateOf({ kind, differences, by, resource }: ObjectChange): string {
  const whose = by === undefined ? "" : ` (${byWhom(by)})`;
  if (kind === "goes") return `deleted${whose}`;
  if (kind === "changes") return `${differences.map(differenceText).join(", ")}${whose}`;
  const first = differences.filter(({ field }) => AT_FIRST.has(field) && !(resource === "pods" && field === "owner"));
  const facts = first.map(({ field, to = "" }) => `${field} ${to}`).join(", ");
  const verb = kind === "stands" ? "existing" : "created";
  return `${verb}${facts === "" ? "" : `: ${facts}`}${whose}`;
}

/** The API server records a client without a User-Agent as unknown. */
function byWhom(by: string): string {
  return by === "unknown" ? "unknown client" : by;
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
  if (field === "asked to end") return from === undefined ? "marked for deletion" : "deletion time changed";
  if (field === "node" && from === undefined) return `assigned to ${to}`;
  if (field === "paused") return to === "true" ? "paused" : "resumed";
  if (to === undefined) return name.startsWith("status ") ? `${name} ${from} → 0` : `${name} removed`;
  return from === undefined ? `${name} ${name.startsWith("status ") ? `0 → ${to}` : to}` : `${name} ${from} → ${to}`;
}
