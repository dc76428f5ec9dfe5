/** Names of writes: in records, and in what a person reads. */
import { idText } from "@deltaloop/sdk/writes";
import type { OwnWrite } from "@deltaloop/sdk/writes";

/** The id of a write's record. */
export function recordId(write: OwnWrite): string {
  return "id" in write ? idText(write.id) : write.kind;
}

/** `Deployment shop/a`, of a record's id. */
export function shownId(id: string): string {
  const [, kind = id, namespace = "", name = ""] = /^(\w+)\.[^/]*\/([^/]*)\/(.*)$/.exec(id) ?? [];
  return `${kind} ${namespace === "" ? "" : `${namespace}/`}${name}`.trim();
}

/** `create Deployment shop/a`, `status`. */
export function describe(write: OwnWrite): string {
  if (!("id" in write)) return write.kind;
  const { kind, namespace, name } = write.id;
  return `${write.kind} ${kind.kind} ${namespace === "" ? "" : `${namespace}/`}${name}`;
}
