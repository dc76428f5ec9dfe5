/** Printer columns of `kubectl get`. */
import type { CustomResourceData } from "../definition/kind.ts";
import type { SchemaNode } from "../definition/schema-node.ts";

export interface PrinterColumn {
  readonly name: string;
  readonly type: "integer" | "number" | "string" | "boolean" | "date";
  readonly jsonPath: string;
}

const JSON_PATH = /^((?:\.[A-Za-z_]\w*)+)(?:\[.*)?$/;

/** The fields of a JSONPath such as `.status.ready`, up to a filter; `undefined` for what is none. */
export function columnPath(jsonPath: string): readonly string[] | undefined {
  return JSON_PATH.exec(jsonPath)?.[1]?.slice(1).split(".");
}

/** The columns, and the age, which kubectl shows by itself only where there is no other column. */
export function printerColumns({ columns, spec, status }: CustomResourceData): readonly PrinterColumn[] {
  const root: SchemaNode = { properties: { spec, ...(status && { status }) } };
  const own = Object.entries(columns).map(([name, jsonPath]): PrinterColumn => ({ name, type: typeOf(root, jsonPath), jsonPath }));
  const age: PrinterColumn = { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" };
  return own.length === 0 || own.some(({ name }) => name === age.name) ? own : [...own, age];
}

function typeOf(root: SchemaNode, jsonPath: string): PrinterColumn["type"] {
  if (jsonPath.includes("[")) return "string";
  if (/^\.metadata\.(?:creation|deletion)Timestamp$/.test(jsonPath)) return "date";
  const node = columnPath(jsonPath)?.reduce<SchemaNode | undefined>((parent, name) => parent?.properties?.[name], root);
  if (node?.format === "date-time") return "date";
  return node?.type === "integer" || node?.type === "number" || node?.type === "boolean" ? node.type : "string";
}
