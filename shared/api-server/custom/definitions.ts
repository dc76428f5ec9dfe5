/** The resources that a CustomResourceDefinition declares. */
import { isObject, type JsonObject, listAt, objectAt, objectsAt, textAt } from "@deltaloop/base";
import { define, type ResourceDefinition } from "../scheme/resource-definitions.ts";
import { conditionOf } from "./conditions.ts";
import type { Schema } from "./structural.ts";

/** One definition for each version, the preferred one first; none while its names are not accepted. */
export function definitionsOf(crd: JsonObject): ResourceDefinition[] {
  const isAccepted = ["NamesAccepted", "Established"].some((type) => conditionOf(crd, type)?.["status"] === "True");
  if (!isAccepted) return [];
  const spec = objectAt(crd, "spec") ?? {};
  const names = objectAt(objectAt(crd, "status"), "acceptedNames") ?? {};
  const versions = objectsAt(spec, "versions");
  const schemas = new Map(versions.map((version) => [textAt(version, "name") ?? "", schemaOf(version)]));
  const common = {
    group: textAt(spec, "group") ?? "",
    resource: textAt(names, "plural") ?? "",
    singular: textAt(names, "singular") ?? "",
    kind: textAt(names, "kind") ?? "",
    namespaced: spec["scope"] === "Namespaced",
    shortNames: listAt(names, "shortNames").map(String),
    categories: listAt(names, "categories").map(String),
    builtInKind: "",
    generation: "all but metadata" as const,
    unconditionalUpdate: false,
  };
  return versions
    .toSorted((a, b) => compareVersions(textAt(a, "name") ?? "", textAt(b, "name") ?? ""))
    .map((version) => {
      const subresources = objectAt(version, "subresources") ?? {};
      return define({
        ...common,
        version: textAt(version, "name") ?? "",
        subresources: (["status", "scale"] as const).filter((name) => isObject(subresources[name])),
        selectableFields: objectsAt(version, "selectableFields").map((field) => (textAt(field, "jsonPath") ?? "").replace(/^\./u, "")),
        custom: {
          listKind: textAt(names, "listKind") ?? "",
          isServed: version["served"] === true,
          storageVersion:
            textAt(
              versions.find(({ storage }) => storage === true),
              "name",
            ) ?? "",
          isTerminating: conditionOf(crd, "Terminating")?.["status"] === "True",
          schemas,
          columns: objectsAt(version, "additionalPrinterColumns"),
          scale: objectAt(subresources, "scale"),
        },
      });
    });
}

function schemaOf(version: JsonObject): Schema {
  return objectAt(objectAt(version, "schema"), "openAPIV3Schema") ?? {};
}

const KUBE_VERSION = /^v(\d+)(?:(alpha|beta)(\d+))?$/u;
const STAGES = ["alpha", "beta", ""];

/** GA before beta before alpha, later before earlier, then all others. Source: apimachinery/pkg/version/helpers.go. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [KUBE_VERSION.exec(a), KUBE_VERSION.exec(b)];
  if (left === null || right === null) return left === right ? (a < b ? -1 : 1) : left === null ? 1 : -1;
  const stage = (match: RegExpExecArray): number => STAGES.indexOf(match[2] ?? "");
  return stage(right) - stage(left) || Number(right[1]) - Number(left[1]) || Number(right[3] ?? 0) - Number(left[3] ?? 0);
}
