/**
 * Names and conditions in the status of a CustomResourceDefinition.
 *
 * Source: apiextensions-apiserver/pkg/controller/status/naming_controller.go, pkg/controller/establish,
 * apiextensions-apiserver/pkg/apihelpers/helpers.go SetCRDCondition.
 */
import { clone, ensureObject, type JsonObject, jsonEqual, listAt, nameOf, objectAt, objectsAt, textAt } from "@deltaloop/base";

export interface Condition {
  readonly type: "NamesAccepted" | "Established" | "Terminating";
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
}

export function conditionOf(crd: JsonObject, type: string): JsonObject | undefined {
  return objectsAt(objectAt(crd, "status"), "conditions").find((condition) => condition["type"] === type);
}

/** Sets a condition in place. Its time changes with its status. @param now RFC 3339 */
export function setCondition(crd: JsonObject, condition: Condition, now: string): void {
  const status = ensureObject(crd, "status");
  const old = conditionOf(crd, condition.type);
  const lastTransitionTime = old?.["status"] === condition.status ? (old["lastTransitionTime"] ?? now) : now;
  const { type, status: value, reason, message } = condition;
  const set: JsonObject = { type, status: value, lastTransitionTime, reason, message };
  const all = objectsAt(status, "conditions");
  status["conditions"] = old === undefined ? [...all, set] : all.map((one) => (one["type"] === type ? set : one));
}

/** The definition with accepted names and conditions; undefined if they are set. @param others of the server */
export function withAcceptedNames(crd: JsonObject, others: readonly JsonObject[], now: string): JsonObject | undefined {
  const wanted = objectAt(objectAt(crd, "spec"), "names") ?? {};
  const accepted = objectAt(objectAt(crd, "status"), "acceptedNames") ?? {};
  const group = objectAt(crd, "spec")?.["group"];
  const inGroup = others.filter((one) => objectAt(one, "spec")?.["group"] === group && nameOf(one) !== nameOf(crd));
  const taken = inGroup.map((one) => objectAt(objectAt(one, "status"), "acceptedNames") ?? {});
  const resources = new Set(taken.flatMap((names) => [names["plural"], names["singular"], ...listAt(names, "shortNames")]));
  const kinds = new Set(taken.flatMap((names) => [names["kind"], names["listKind"]]));
  const names: JsonObject = { ...accepted };
  let conflict: Condition | undefined;
  const accept = (field: string, reason: string, used: ReadonlySet<unknown>): void => {
    const wantedName = textAt(wanted, field) ?? "";
    if (wantedName !== (accepted[field] ?? "") && used.has(wantedName)) conflict = notAccepted(reason, [wantedName]);
    else names[field] = wantedName;
  };
  accept("plural", "PluralConflict", resources);
  accept("singular", "SingularConflict", resources);
  const shortNames = listAt(wanted, "shortNames").map(String);
  const used = shortNames.filter((name) => !listAt(accepted, "shortNames").includes(name) && resources.has(name));
  if (used.length > 0) conflict = notAccepted("ShortNamesConflict", used);
  else if (shortNames.length > 0) names["shortNames"] = shortNames;
  else delete names["shortNames"];
  accept("kind", "KindConflict", kinds);
  accept("listKind", "ListKindConflict", kinds);
  const categories = listAt(wanted, "categories");
  if (categories.length > 0) names["categories"] = [...categories];
  else delete names["categories"];

  const result = clone(crd);
  ensureObject(result, "status")["acceptedNames"] = names;
  setCondition(result, conflict ?? ACCEPTED, now);
  if (conditionOf(crd, "Established")?.["status"] !== "True")
    setCondition(result, conflict === undefined ? ESTABLISHED : NOT_ESTABLISHED, now);
  return jsonEqual(result, crd) ? undefined : result;
}

const ACCEPTED: Condition = { type: "NamesAccepted", status: "True", reason: "NoConflicts", message: "no conflicts found" };
const ESTABLISHED: Condition = {
  type: "Established",
  status: "True",
  reason: "InitialNamesAccepted",
  message: "the initial names have been accepted",
};
const NOT_ESTABLISHED: Condition = { type: "Established", status: "False", reason: "NotAccepted", message: "not all names are accepted" };

function notAccepted(reason: string, names: readonly string[]): Condition {
  const texts = names.map((name) => `${JSON.stringify(name)} is already in use`);
  const message = texts.length === 1 ? texts.join("") : `[${texts.join(", ")}]`;
  return { type: "NamesAccepted", status: "False", reason, message };
}
