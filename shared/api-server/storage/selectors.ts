/**
 * Label and field selectors of a query: `app=web,tier!=db,env in (a,b),!canary`, `spec.nodeName=n1,status.phase!=Failed`.
 *
 * Source: k8s.io/apimachinery/pkg/labels/selector.go, pkg/fields/selector.go.
 */
import { badRequest } from "../scheme/api-error.ts";
import { isObject, type JsonObject, metaOf, ownAt, stringMap, textAt } from "@deltaloop/base";
import { matches, type Requirement, type Selector } from "@deltaloop/kube/selectors";
import type { ResourceDefinition } from "../scheme/resource-definitions.ts";

export type ObjectPredicate = (object: JsonObject) => boolean;

/** @throws {ApiError} 400 for a selector that cannot be parsed or has an unsupported field */
export function selectorOf(
  definition: ResourceDefinition,
  labelSelector: string | undefined,
  fieldSelector: string | undefined,
): ObjectPredicate | undefined {
  const predicates: ObjectPredicate[] = [];
  if (labelSelector !== undefined && labelSelector.trim() !== "") {
    const selects = parseLabelSelector(labelSelector);
    predicates.push((object) => selects(stringMap(metaOf(object)["labels"])));
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
  const requirements: Requirement[] = [];
  const comparisons: LabelPredicate[] = [];
  let rest = text.trim();
  while (rest !== "") {
    const match = REQUIREMENT.exec(rest);
    if (match?.groups === undefined) throw badRequest(`unable to parse requirement: found '${rest}'`);
    const { absent, key = "", set, values = "", op, value = "" } = match.groups;
    if (absent !== undefined) requirements.push({ key: absent, operator: "!", values: [] });
    else if (set !== undefined)
      requirements.push({ key, operator: set === "in" ? "in" : "notin", values: values.split(",").map((one) => one.trim()) });
    else if (op === undefined) requirements.push({ key, operator: "exists", values: [] });
    else if (op === ">") comparisons.push((labels) => Number(ownAt(labels, key) ?? Number.NaN) > Number(value));
    else if (op === "<") comparisons.push((labels) => Number(ownAt(labels, key) ?? Number.NaN) < Number(value));
    else requirements.push({ key, operator: op === "!=" ? "notin" : "=", values: [value] });
    rest = rest.slice(match[0].length).trim();
  }
  const selector: Selector = { kind: "Requirements", requirements };
  return (labels) => matches(selector, labels) && comparisons.every((holds) => holds(labels));
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

/** The field as upstream's selectable set prints it: a missing one as empty text, numbers in decimal. */
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
