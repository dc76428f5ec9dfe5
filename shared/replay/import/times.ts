/** The time of an object's last write, derived from the object itself. */
import { isObject } from "../capture-format/capture.ts";
import type { CapturedObject } from "../capture-format/capture.ts";
import { metadataOf } from "./imported.ts";

/** Milliseconds since the epoch; 0 if the object has no times. */
export function newestTimeIn(object: CapturedObject): number {
  const { creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds, managedFields } = metadataOf(object);
  const status = isObject(object["status"]) ? object["status"] : {};
  // deletionTimestamp is the time by which the object is to be deleted.
  const grace = typeof deletionGracePeriodSeconds === "number" ? deletionGracePeriodSeconds * 1_000 : 0;
  return Math.max(
    timeOf(creationTimestamp),
    timeOf(object["lastTimestamp"]),
    timeOf(deletionTimestamp) - grace,
    timeOf(status["startTime"]),
    ...listOf(managedFields).map(({ time }) => timeOf(time)),
    ...listOf(status["conditions"]).flatMap(({ lastTransitionTime, lastUpdateTime }) => [
      timeOf(lastTransitionTime),
      timeOf(lastUpdateTime),
    ]),
  );
}

function timeOf(value: unknown): number {
  const ms = typeof value === "string" ? Date.parse(value) : Number.NaN;
  return Number.isNaN(ms) ? 0 : ms;
}

function listOf(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
