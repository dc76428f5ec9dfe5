/**
 * Label and field selectors as they stand in a query: `app=web,tier!=db,env in (a,b),!canary`, `spec.nodeName=n1,status.phase!=Failed`.
 *
 * Source: k8s.io/apimachinery/pkg/labels/selector.go, pkg/fields/selector.go.
 */
import { badRequest } from "../scheme/api-error.ts";
import { isObject, type JsonObject, metaOf, stringMap, textAt } from "@deltaloop/base";
import type { ResourceDefinition } from "../scheme/resource-definitions.ts";

export type ObjectPredicate = (object: JsonObject) => boolean;

/** @throws {ApiError} 400 for a selector that does not parse or names a field the resource cannot be selected by. */
export function selectorOf(
  definition: ResourceDefinition,
  labelSelector: string | undefined,
  fieldSelector: string | undefined,
): ObjectPredicate | undefined {
  const predicates: ObjectPredicate[] = [];
  if (labelSelector !== undefined && labelSelector.trim() !== "") {
    const matches = parseLabelSelector(labelSelector);
    predicates.push((object) => matches(stringMap(metaOf(object)["labels"])));
  }
  if (fieldSelector !== undefined && fieldSelector.trim() !== "") predicates.push(parseFieldSelector(definition, fieldSelector));
  const [first, second] = predicates;
  if (first === undefined) return undefined;
  return second === undefined ? first : (object) => first(object) && second(object);
}

type LabelPredicate = (labels: Readonly<Record<string, string>>) => boolean;

const REQUIREMENT =
  /^\s*(?:(?<not>!)\s*(?<absent>[^\s,=!()<>]+)|(?<key>[^\s,=!()<>]+)(?:\s+(?<set>in|notin)\s*\((?<values>[^()]*)\)|\s*(?<op>==|=|!=|>|<)\s*(?<value>[^\s,=!()<>]*))?)\s*(?:,|$)/u;

/** @throws {ApiError} 400. */
export function parseLabelSelector(text: string): LabelPredicate {
  const predicates: LabelPredicate[] = [];
  let rest = text.trim();
  while (rest !== "") {
    const match = REQUIREMENT.exec(rest);
    if (match?.groups === undefined) throw badRequest(`unable to parse requirement: found '${rest}'`);
    predicates.push(requirement(match.groups));
    rest = rest.slice(match[0].length).trim();
  }
  return (labels) => predicates.every((predicate) => predicate(labels));
}

function requirement(groups: { readonly [name: string]: string | undefined }): LabelPredicate {
  const { absent, key = "", set, values = "", op, value = "" } = groups;
  if (absent !== undefined) return (labels) => !Object.hasOwn(labels, absent);
  if (set !== undefined) {
    const wanted = new Set(values.split(",").map((one) => one.trim()));
    return set === "in" ? (labels) => wanted.has(labels[key] ?? "\0") : (labels) => !wanted.has(labels[key] ?? "\0");
  }
  switch (op) {
    case undefined:
      return (labels) => Object.hasOwn(labels, key);
    case "!=":
      return (labels) => labels[key] !== value;
    case ">":
      return (labels) => Number(labels[key] ?? Number.NaN) > Number(value);
    case "<":
      return (labels) => Number(labels[key] ?? Number.NaN) < Number(value);
    default:
      return (labels) => labels[key] === value;
  }
}

function parseFieldSelector(definition: ResourceDefinition, text: string): ObjectPredicate {
  const terms = text.split(",").map((term) => {
    const match = /^\s*(?<field>[^=!]+?)\s*(?<op>==|!=|=)\s*(?<value>.*?)\s*$/u.exec(term);
    const { field = "", op = "", value = "" } = match?.groups ?? {};
    if (match === null) throw badRequest(`invalid selector: '${text}'; can't understand '${term}'`);
    const known =
      field === "metadata.name" || (definition.namespaced && field === "metadata.namespace") || definition.selectableFields.includes(field);
    if (!known) throw badRequest(`field label not supported: ${field}`);
    const path = field === "source" ? ["source", "component"] : field.split(".");
    return (object: JsonObject) => (fieldText(object, path) === value) === (op !== "!=");
  });
  return (object) => terms.every((term) => term(object));
}

/** The field as upstream's selectable set prints it: missing is the empty text, numbers in decimal. */
function fieldText(object: JsonObject, path: readonly string[]): string {
  let at: JsonObject = object;
  for (const step of path.slice(0, -1)) {
    const next = at[step];
    if (!isObject(next)) return "";
    at = next;
  }
  const last = path.at(-1) ?? "";
  const value = at[last];
  return textAt(at, last) ?? (typeof value === "number" || typeof value === "boolean" ? String(value) : "");
}
