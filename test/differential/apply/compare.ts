/** Runs sequences in both implementations and returns the first difference. */
import { createHash } from "node:crypto";
import type { JsonObject } from "../../../shared/base/json.ts";
import { clone, ensureObject } from "../../../shared/base/json.ts";
import {
  ApplyConflictError,
  appliedObject,
  type FieldWrite,
  managedAfterUpdate,
  type ManagedKind,
} from "../../../shared/api-server/apply/field-manager.ts";
import { goJson } from "../../../shared/api-server/apply/go-json.ts";
import { setOf } from "../../../shared/api-server/apply/field-set.ts";
import { fieldElement } from "../../../shared/api-server/apply/path-element.ts";
import { SequenceMaker, type Step, type Subject } from "./sequence.ts";

/** The result of a write. */
export interface Made {
  readonly object?: JsonObject;
  readonly error?: string;
  readonly causes?: readonly string[];
}

export interface Played {
  readonly subject: Subject;
  readonly steps: readonly Step[];
  readonly made: readonly Made[];
}

/** The start time of Go's fake clock. */
const START_MS = Date.parse("2000-01-01T00:00:00Z");

export function playOurs(seed: number): Played {
  const maker = new SequenceMaker(seed);
  const { subject } = maker;
  const steps: Step[] = [];
  const made: Made[] = [];
  let live: JsonObject | undefined;
  let nowMs = START_MS;
  for (let i = 0; i < maker.length; i += 1) {
    const step = maker.next(live);
    steps.push(clone(step as unknown as JsonObject) as unknown as Step); // each step is JSON
    nowMs += step.afterSeconds * 1000;
    const result = write(subject, live, step, new Date(nowMs).toISOString().replace(/\.\d+Z/, "Z"));
    if (result.object !== undefined) {
      const meta = ensureObject(result.object, "metadata");
      meta["uid"] = "uid";
      meta["resourceVersion"] = String(i + 1);
      live = clone(result.object);
    }
    made.push(result);
  }
  return { subject, steps, made };
}

function write({ kind, schema, typeIn }: Subject, live: JsonObject | undefined, step: Step, now: string): Made {
  const { apiVersion, subresource, manager, force, operation } = step;
  const managedKind: ManagedKind = {
    schema,
    apiVersion,
    kind,
    typeIn,
    empty: { apiVersion, kind },
    resetFields: (sub) => setOf([fieldElement(sub === "status" ? "spec" : "status")]),
  };
  const write: FieldWrite = { kind: managedKind, subresource, manager, now };
  const before = live ?? managedKind.empty;
  const next = clone(step.object);
  try {
    if (operation === "apply") return { object: appliedObject(before, next, { ...write, force }) };
  } catch (error) {
    if (error instanceof ApplyConflictError)
      return { error: error.message, causes: error.causes.map((cause) => `conflict with ${cause.manager}|${cause.path}`) };
    return { error: error instanceof Error ? error.message : String(error) };
  }
  const meta = ensureObject(next, "metadata");
  let managed = before["metadata"] && ensureObject(clone(before), "metadata")["managedFields"];
  try {
    managed = managedAfterUpdate(before, next, write);
  } catch {
    // The live object keeps its fields.
  }
  delete meta["managedFields"];
  if (managed !== undefined) meta["managedFields"] = managed;
  return { object: next };
}

/** Returns the index of the first step with a difference, or undefined. */
export function firstDifference({ made }: Played, upstream: readonly Made[]): number | undefined {
  const i = made.findIndex((ours, at) => textOf(ours) !== textOf(upstream[at]));
  return i === -1 ? undefined : i;
}

/**
 * Returns the compared text of a write, without upstream's list of causes and its choice among several problems, which depend on the order
 * of a Go map.
 */
function textOf(made: Made | undefined): string {
  if (made === undefined) return "nothing";
  const { object, error, causes } = made;
  if (object !== undefined) return goJson(object);
  return causes === undefined ? "refused" : `${error} ${causes.toSorted().join(" ")}`;
}

/** Returns a digest of all writes of a sequence, for the recording. */
export function digestOf(made: readonly Made[]): string {
  return createHash("sha256").update(made.map(textOf).join("\n")).digest("hex").slice(0, 12);
}

export function reportOf(seed: number, { subject, steps, made }: Played, upstream: readonly Made[], at: number): string {
  const live = made.slice(0, at).findLast(({ object }) => object !== undefined)?.object;
  const lines = { kind: subject.kind, types: subject.types, live, step: steps[at], ours: made[at], upstream: upstream[at] };
  return [`seed ${seed}, step ${at}`, ...Object.entries(lines).map(([name, value]) => `  ${name}: ${JSON.stringify(value)}`)].join("\n");
}
