/** DeleteOptions from the body, or from the query for clients that send none. */
import { fieldNotSupported, invalid } from "../scheme/api-error.ts";
import type { DeleteOptions, PropagationPolicy } from "../registry/deletion.ts";
import { type JsonObject, listAt, numberAt, objectAt, textAt } from "@deltaloop/base";

/** @throws {ApiError} 422 for an unknown propagation policy. */
export function deleteOptionsOf(query: (name: string) => string | undefined, body: JsonObject | undefined): DeleteOptions {
  const preconditions = objectAt(body, "preconditions");
  const gracePeriod = query("gracePeriodSeconds");
  return {
    uid: textAt(preconditions, "uid"),
    resourceVersion: textAt(preconditions, "resourceVersion"),
    gracePeriodSeconds: numberAt(body, "gracePeriodSeconds") ?? (gracePeriod === undefined ? undefined : Number(gracePeriod)),
    propagationPolicy: policyOf(textAt(body, "propagationPolicy") ?? query("propagationPolicy"), body?.["orphanDependents"] === true),
    dryRun: listAt(body, "dryRun").length > 0 || (query("dryRun") ?? "") !== "",
  };
}

/** `nil` is Go's print of an absent policy. */
const POLICIES = ["Foreground", "Background", "Orphan", "nil"];

function policyOf(text: string | undefined, orphanDependents: boolean): PropagationPolicy | undefined {
  switch (text) {
    case undefined:
    case "":
      return orphanDependents ? "Orphan" : undefined;
    case "Background":
    case "Foreground":
    case "Orphan":
      return text;
    default:
      throw invalid({ group: "meta.k8s.io", kind: "DeleteOptions" }, "", [fieldNotSupported("propagationPolicy", text, POLICIES)]);
  }
}
