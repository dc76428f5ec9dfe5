/**
 * Server-side printing of `kubectl get` tables.
 *
 * Source: kubernetes/pkg/printers/internalversion/printers.go (columns), apiserver/pkg/endpoints/handlers/response.go (Table).
 */
import { isObject, type Json, type JsonObject, metaOf } from "@deltaloop/base";
import type { ResourceDefinition } from "../scheme/resource-definitions.ts";
import { printerFor } from "./table-columns.ts";

export interface TableOptions {
  readonly nowMs: number;
  /** Content of a row besides its cells: `Metadata` (default), `Object` or `None`. */
  readonly includeObject: string | undefined;
  readonly noHeaders?: boolean;
  /** A bookmark has no row. */
  readonly isBookmark?: boolean;
}

export function wantsTable(accept: string): boolean {
  return accept.split(",").some((one) => one.includes("as=Table") && one.includes("v=v1;") !== one.includes("v=v1beta1"));
}

/** `body` is an object, a list, or a Status, which is returned unchanged. */
export function tableOf(definition: ResourceDefinition, body: JsonObject, options: TableOptions): JsonObject {
  if (body["kind"] === "Status") return body;
  const items = body["items"];
  const isList = Array.isArray(items);
  const objects = isList ? items.filter(isObject) : options.isBookmark === true ? [] : [body];
  const printer = printerFor(definition);
  const { resourceVersion, continue: next, remainingItemCount } = metaOf(body);
  const metadata = Object.fromEntries(
    Object.entries({ resourceVersion, continue: next, remainingItemCount }).filter(([, value]) => value !== undefined),
  );
  const columns = printer.columns.map(({ name, type, format, priority }) => ({
    name,
    type: type ?? "string",
    format: format ?? "",
    description: "",
    priority: priority ?? 0,
  }));
  return {
    kind: "Table",
    apiVersion: "meta.k8s.io/v1",
    // The values are JSON, without undefined ones.
    metadata: metadata as JsonObject,
    columnDefinitions: options.noHeaders === true ? null : columns,
    rows: objects.map((object) => ({ cells: printer.cells(object, options.nowMs), object: rowObject(object, options.includeObject) })),
  };
}

function rowObject(object: JsonObject, includeObject: string | undefined): Json {
  switch (includeObject) {
    case "None":
      return null;
    case "Object":
      return object;
    default:
      return { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata: metaOf(object) };
  }
}
