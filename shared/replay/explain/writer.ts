/** The writer of a version, derived from `managedFields`; a stripped object has none. */
import { canonical } from "../shadow/canonical-write.ts";
import type { CapturedObject } from "../capture-format/capture.ts";

interface Entry {
  readonly manager: string;
  readonly time: unknown;
  /** The whole entry as text. */
  readonly text: string;
  /** The `fieldsV1` of the entry. */
  readonly fields: unknown;
}

/** Entries by manager, operation and subresource. */
export type Managers = ReadonlyMap<string, Entry>;

interface ManagedFields {
  readonly manager?: unknown;
  readonly operation?: unknown;
  readonly subresource?: unknown;
  readonly time?: unknown;
  readonly fieldsV1?: unknown;
}

export function managersOf(object: CapturedObject): Managers {
  const { managedFields } = (object["metadata"] ?? {}) as { readonly managedFields?: unknown };
  const entries = Array.isArray(managedFields) ? (managedFields as readonly (ManagedFields | null)[]) : []; // each field is checked when it is read
  return new Map(
    entries.flatMap((entry) => {
      if (typeof entry?.manager !== "string") return [];
      const { manager, operation, subresource, time, fieldsV1: fields } = entry;
      return [[`${manager}\n${String(operation)} ${String(subresource)}`, { manager, time, text: canonical(entry), fields }] as const];
    }),
  );
}

/**
 * The manager whose entry is new or has a new time. If two writes have the same second, so that no time differs, returns the manager that
 * owns all changed fields, because an update takes over ownership.
 *
 * @param fields the changed fields, named as in changes.ts
 */
export function writerOf(before: Managers, after: Managers, fields: readonly string[]): string | undefined {
  const renewed = [...after].filter(([id, { text, time }]) => {
    const known = before.get(id);
    return known === undefined || (known.text !== text && (known.time !== time || time === undefined));
  });
  const holders = renewed.length === 1 ? renewed : renewed.length === 0 ? [...after].filter(([, entry]) => holds(entry, fields)) : [];
  const names = new Set(holders.map(([, { manager }]) => manager));
  return names.size === 1 ? names.values().next().value : undefined;
}

/** The creator of a new object. */
export function creatorOf(managers: Managers): string | undefined {
  const whole = [...managers.keys()].filter((id) => id.endsWith(" undefined"));
  const names = new Set((whole.length > 0 ? whole : [...managers.keys()]).map((id) => managers.get(id)?.manager));
  return names.size === 1 ? names.values().next().value : undefined;
}

function holds({ fields }: Entry, changed: readonly string[]): boolean {
  return changed.length > 0 && changed.every((field) => has(fields, pathOf(field)));
}

function has(fields: unknown, [first, ...rest]: readonly string[]): boolean {
  if (first === undefined) return true;
  if (typeof fields !== "object" || fields === null || !Object.hasOwn(fields, first)) return false;
  return has((fields as Readonly<Record<string, unknown>>)[first], rest);
}

/** The path of a field in `fieldsV1`; a condition is identified by its type, which begins with a capital. */
function pathOf(field: string): readonly string[] {
  const counter = /^status\.(.+)$/.exec(field)?.[1];
  if (counter !== undefined) return ["f:status", `f:${counter}`];
  if (/^[A-Z]/.test(field) || field === "ready") return ["f:status", "f:conditions"];
  if (field === "phase") return ["f:status", "f:phase"];
  if (field === "labels") return ["f:metadata", "f:labels"];
  if (field === "owner") return ["f:metadata", "f:ownerReferences"];
  if (field === "node") return ["f:spec", "f:nodeName"];
  if (field === "revision") return ["f:metadata", "f:annotations", "f:deployment.kubernetes.io/revision"];
  if (field.startsWith("annotation ")) return ["f:metadata", "f:annotations", `f:${field.slice("annotation ".length)}`];
  return ["f:spec", `f:${field}`];
}
