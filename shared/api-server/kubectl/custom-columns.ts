/**
 * Columns of `kubectl get` that a CustomResourceDefinition declares.
 *
 * Source: apiextensions-apiserver/pkg/registry/customresource/tableconvertor/tableconvertor.go.
 */
import { exactText, isObject, type Json, type JsonObject, nameOf, numberAt, textAt } from "@deltaloop/base";
import { since } from "./human-duration.ts";
import type { Column, Printer } from "./printer.ts";
import { findAll } from "../custom/json-path.ts";

const AGE: JsonObject = { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" };

export function customPrinter(declared: readonly JsonObject[]): Printer {
  const columns = declared.length === 0 ? [AGE] : declared;
  return {
    columns: [{ name: "Name", format: "name" }, ...columns.map(columnOf)],
    cells: (object, nowMs) => [nameOf(object), ...columns.map((column) => cellOf(column, object, nowMs))],
  };
}

function columnOf(column: JsonObject): Column {
  return {
    name: textAt(column, "name") ?? "",
    type: textAt(column, "type") ?? "string",
    format: textAt(column, "format") ?? "",
    priority: numberAt(column, "priority") ?? 0,
  };
}

function cellOf(column: JsonObject, object: JsonObject, nowMs: number): Json {
  const [value = null] = findAll(object, textAt(column, "jsonPath") ?? "");
  if (value === null) return null;
  switch (column["type"]) {
    case "integer":
      return typeof value === "number" ? Math.trunc(value) : typeof value === "bigint" ? value : null;
    case "number":
      return typeof value === "number" ? value : null;
    case "boolean":
      return typeof value === "boolean" ? value : null;
    case "date":
      return typeof value === "string" ? ageText(value, nowMs) : null;
    default:
      return typeof value === "string" ? value : isObject(value) || Array.isArray(value) ? exactText(value) : String(value);
  }
}

function ageText(time: string, nowMs: number): string {
  return Number.isNaN(Date.parse(time)) ? "<invalid>" : since(time, nowMs);
}
