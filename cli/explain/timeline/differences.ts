/** The differences between two recorded versions of an object. */
import { templateDifferences } from "@deltaloop/replay/explain";
import type { ObjectChange, SeenOwner } from "@deltaloop/replay/explain";
import { fieldManagerOf } from "@deltaloop/replay/explain";
import type { Difference } from "@deltaloop/timeline/input";

interface Differences {
  readonly differences: readonly Difference[];
  /** The field manager of the first difference, if recorded. */
  readonly manager?: string | undefined;
}

/** Omits values that may be secret. If the templates are known, their fields replace the field `template`. */
export function differencesOf({ differences }: ObjectChange, before: SeenOwner | undefined, after: SeenOwner | undefined): Differences {
  const template = before?.template && after?.template ? templateDifferences(before.template, after.template) : [];
  const plain = differences.filter(({ field }) => field !== "template" || template.length === 0);
  const shown = [...template.map((each) => (each.from === undefined && each.to === "changed" ? { field: each.field } : each)), ...plain];
  const [first] = shown;
  return {
    differences: shown.map(({ field, from, to }) => ({ field, ...(from !== undefined && { from }), ...(to !== undefined && { to }) })),
    ...(first && after && { manager: fieldManagerOf(after, first.field) }),
  };
}

type Fields = Readonly<Record<string, unknown>>;
/** Omitted fields: the status is drawn; versions and managers change with each write. */
const LEFT_OUT = /^(?:status\b|metadata\.(?:managedFields|resourceVersion|generation))/;

/** Differences of unredacted objects field by field, values included; only for `--no-redact`. */
export function wholeDifferences(before: Fields, after: Fields): readonly Difference[] {
  const [was, is] = [leavesOf(before), leavesOf(after)];
  return [...new Set([...was.keys(), ...is.keys()])].flatMap((field) => {
    const [from, to] = [was.get(field), is.get(field)];
    return from === to || LEFT_OUT.test(field)
      ? []
      : [{ field, ...(from !== undefined && { from }), ...(to === undefined ? { to: "removed" } : { to }) }];
  });
}

function leavesOf(value: unknown, path = "", leaves = new Map<string, string>()): ReadonlyMap<string, string> {
  if (typeof value !== "object" || value === null) return leaves.set(path, String(value));
  for (const [name, each] of Object.entries(value)) leavesOf(each, path === "" ? name : `${path}.${name}`, leaves);
  return leaves;
}
