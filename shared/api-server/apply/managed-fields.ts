/**
 * `metadata.managedFields` and what is computed from it.
 *
 * Source: apimachinery/pkg/util/managedfields/internal/managedfields.go.
 */
import { isObject, type Json, type JsonObject, textAt } from "@deltaloop/base";
import { decodeFields, encodeFields } from "./field-set.ts";
import { compareText } from "./go-json.ts";
import type { Owned, Owners } from "./updater.ts";

/** A manager's entry without its fields. An applier is the same manager in each version. */
export interface ManagerInfo {
  readonly manager: string;
  readonly operation: "Apply" | "Update";
  readonly apiVersion: string;
  readonly subresource: string;
}

export interface Managed {
  readonly owners: Owners;
  /** RFC 3339, by identifier. */
  readonly times: ReadonlyMap<string, string>;
}

export const NOTHING_MANAGED: Managed = { owners: new Map(), times: new Map() };

/** The identifier of a manager, from which `managerOf` reads it. */
export function managerId({ manager, operation, apiVersion, subresource }: ManagerInfo): string {
  return JSON.stringify({
    ...(manager === "" ? {} : { manager }),
    operation,
    ...(operation === "Apply" ? {} : { apiVersion }),
    ...(subresource === "" ? {} : { subresource }),
  });
}

export function managerOf(id: string): ManagerInfo {
  const info = JSON.parse(id) as Partial<ManagerInfo>; // managerId wrote it
  return {
    manager: info.manager ?? "",
    operation: info.operation ?? "Update",
    apiVersion: info.apiVersion ?? "",
    subresource: info.subresource ?? "",
  };
}

/** @throws {SyntaxError} */
export function decodeManagedFields(entries: readonly Json[]): Managed {
  const owners = new Map<string, Owned>();
  const times = new Map<string, string>();
  for (const [i, entry] of entries.entries()) {
    if (!isObject(entry)) throw new SyntaxError(`managed fields entry ${i} is not an object`);
    const operation = textAt(entry, "operation");
    if (operation !== "Apply" && operation !== "Update") throw new SyntaxError("operation must be `Apply` or `Update`");
    const apiVersion = textAt(entry, "apiVersion") ?? "";
    if (apiVersion === "") throw new SyntaxError("apiVersion must not be empty");
    const fieldsType = textAt(entry, "fieldsType") ?? "";
    if (fieldsType === "") throw new SyntaxError(`missing fieldsType in managed fields entry ${i}`);
    if (fieldsType !== "FieldsV1") throw new SyntaxError(`invalid fieldsType ${JSON.stringify(fieldsType)} in managed fields entry ${i}`);
    const id = managerId({
      manager: textAt(entry, "manager") ?? "",
      operation,
      apiVersion,
      subresource: textAt(entry, "subresource") ?? "",
    });
    owners.set(id, { apiVersion, isApplied: operation === "Apply", fields: decodeFields(entry["fieldsV1"]) });
    const time = textAt(entry, "time");
    if (time === undefined) times.delete(id);
    else times.set(id, time);
  }
  return { owners, times };
}

/** Sorted by operation, time, manager, version and subresource; undefined if there are none. */
export function encodeManagedFields({ owners, times }: Managed): JsonObject[] | undefined {
  if (owners.size === 0) return undefined;
  const entries = [...owners].map(([id, owned]) => {
    const { manager, operation, subresource } = managerOf(id);
    return { id, manager, operation: owned.isApplied ? "Apply" : operation, subresource, owned, seconds: secondsOf(times.get(id)) };
  });
  entries.sort(
    (a, b) =>
      compareText(a.operation, b.operation) ||
      a.seconds - b.seconds ||
      compareText(a.manager, b.manager) ||
      compareText(a.owned.apiVersion, b.owned.apiVersion) ||
      compareText(a.subresource, b.subresource),
  );
  return entries.map(({ id, manager, operation, subresource, owned }): JsonObject => {
    const time = times.get(id);
    return {
      ...(manager === "" ? {} : { manager }),
      operation,
      apiVersion: owned.apiVersion,
      ...(time === undefined ? {} : { time }),
      fieldsType: "FieldsV1",
      fieldsV1: encodeFields(owned.fields),
      ...(subresource === "" ? {} : { subresource }),
    };
  });
}

/** Go counts a missing time as 0. */
export function secondsOf(time: string | undefined): number {
  return time === undefined ? 0 : Math.floor(Date.parse(time) / 1000);
}
