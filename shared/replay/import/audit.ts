/**
 * An API server's audit log (audit.k8s.io/v1, one event per line): each write's answer is the state that a watch showed. It must have
 * been written at level RequestResponse, for below that no answer is in it.
 */
import { CACHED_RESOURCES, RESOURCES } from "../../api/resources.ts";
import type { CachedResource } from "../../api/resources.ts";
import { maxResourceVersion } from "../../api/resource-version.ts";
import { CaptureError, RFC_3339, isObject } from "../capture.ts";
import type { CapturedObject } from "../capture.ts";
import { inVersionOrder, metadataOf, placeOf, versionOf } from "./imported.ts";
import type { Imported, ImportedEvent } from "./imported.ts";
import { objectAt } from "./json-values.ts";
import type { JsonValue } from "./json-values.ts";
import type { ImportReport } from "./report.ts";

interface Answer {
  readonly atMs: number;
  readonly resource: CachedResource;
  readonly verb: string;
  readonly subresource: string;
  readonly name: string;
  readonly namespace: string;
  readonly object: CapturedObject;
}

const WRITES = new Set(["create", "update", "patch", "delete", "deletecollection"]);
/** Their answer is the object itself. */
const WHOLE = new Set(["", "status", "resize", "ephemeralcontainers"]);

export function isAuditEvent(value: CapturedObject): boolean {
  return typeof value["apiVersion"] === "string" && value["apiVersion"].startsWith("audit.k8s.io/");
}

export function importAudit(values: Iterable<JsonValue>, report: ImportReport): Imported {
  const answers: Answer[] = [];
  for (const { value, place } of values)
    for (const event of eventsOf(value)) {
      const answer = answerOf(event, place, report);
      if (answer) answers.push(answer);
    }
  const events = asWatched(statesOf(answers, report), report);
  return { format: "audit", startMs: events[0]?.atMs ?? 0, endMs: events.at(-1)?.atMs ?? 0, lists: new Map(), events };
}

/** An EventList is what a webhook is sent. */
function eventsOf(value: CapturedObject): readonly CapturedObject[] {
  return Array.isArray(value["items"]) ? value["items"].filter(isObject) : [value];
}

/** Undefined for what changed nothing that is watched. */
function answerOf(event: CapturedObject, place: string, report: ImportReport): Answer | undefined {
  if (!isAuditEvent(event)) throw new CaptureError(`${place}: is no event of audit.k8s.io`);
  const { verb, stage, level, requestURI, stageTimestamp, responseObject } = event;
  const reference = isObject(event["objectRef"]) ? event["objectRef"] : {};
  const status = isObject(event["responseStatus"]) ? event["responseStatus"] : {};
  const resource = CACHED_RESOURCES.find(
    (each) => each === reference["resource"] && RESOURCES[each].group === (reference["apiGroup"] ?? ""),
  );
  const code = typeof status["code"] === "number" ? status["code"] : 0;
  if (!resource || typeof verb !== "string" || !WRITES.has(verb) || stage !== "ResponseComplete" || code < 200 || code > 299)
    return undefined;
  if (typeof requestURI === "string" && /[?&]dryRun=/.test(requestURI)) return undefined;
  const { subresource = "", namespace = "", name = "" } = reference;
  if (typeof subresource !== "string" || typeof namespace !== "string" || typeof name !== "string")
    throw new CaptureError(`${place}: objectRef holds no strings`);
  if (level !== "RequestResponse" || responseObject === undefined)
    throw new CaptureError(`${place}: a write of ${resource} was audited below level RequestResponse, so what it left is not in the log`);
  const atMs = typeof stageTimestamp === "string" && RFC_3339.test(stageTimestamp) ? Date.parse(stageTimestamp) : Number.NaN;
  if (Number.isNaN(atMs)) throw new CaptureError(`${place}: stageTimestamp is no RFC 3339 time`);
  if (subresource === "scale") return lost(report, "a write of /scale: its answer is a Scale; the next write shows the size");
  if (!WHOLE.has(subresource)) return lost(report, "a pod's binding or eviction, whose answer is no pod; its next write shows what it did");
  return { atMs, resource, verb, subresource, namespace, name, object: objectAt(responseObject, place) };
}

function lost(report: ImportReport, what: string): undefined {
  report.lost(what);
}

type State = Omit<ImportedEvent, "type"> & { readonly isGone: boolean; readonly isCreated: boolean };

/** Each state that a write left, in the order of their versions. */
function statesOf(answers: readonly Answer[], report: ImportReport): readonly State[] {
  const states: State[] = [];
  const known = new Map<string, CapturedObject>();
  const seen = new Set<string>();
  let newest = "0";
  // By when they were answered: a deletion whose answer is a bare Status is laid behind what is known until then.
  for (const { atMs, resource, verb, namespace, name, object } of answers.toSorted((a, b) => a.atMs - b.atMs)) {
    for (const each of Array.isArray(object["items"]) ? object["items"].filter(isObject) : [object]) {
      const isStatus = each["kind"] === "Status";
      const last = known.get(placeOf(resource, { metadata: { namespace, name } }));
      if (isStatus && (verb !== "delete" || !last)) {
        report.lost("a deletion of what the log had not shown before, or of many at once");
        continue;
      }
      const place = placeOf(resource, isStatus && last ? last : each);
      const isRemoved = isStatus || isGone(each);
      // The write that takes the last finalizer away is answered with the version before it.
      const isOld = isStatus || (isRemoved && seen.has(`${resource} ${versionOf(each)}`) && known.has(place));
      const state = isOld ? withVersion(isStatus && last ? last : each, newest, report) : each;
      const rv = versionOf(state);
      newest = maxResourceVersion(newest, rv);
      if (seen.has(`${resource} ${rv}`)) continue; // a write that changed nothing
      seen.add(`${resource} ${rv}`);
      if (isRemoved) known.delete(place);
      else known.set(place, state);
      states.push({ atMs, resource, object: state, isGone: isRemoved, isCreated: verb === "create" });
    }
  }
  return inVersionOrder(states);
}

/** A deletion has a version of its own. */
function withVersion(object: CapturedObject, newest: string, report: ImportReport): CapturedObject {
  report.invented("the version of a deletion, which its answer does not tell");
  return { ...object, metadata: { ...metadataOf(object), resourceVersion: String(BigInt(newest) + 1n) } };
}

/** What has been deleted, waits for nothing and is held by nobody, its write has removed. Source: registry/generic store.go. */
function isGone(object: CapturedObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds, finalizers } = metadataOf(object);
  const isHeld = Array.isArray(finalizers) && finalizers.length > 0;
  return typeof deletionTimestamp === "string" && !isHeld && (deletionGracePeriodSeconds ?? 0) === 0;
}

/** Nothing is answered before it is written, so what is written before another was so when that one was answered. */
function asWatched(states: readonly State[], report: ImportReport): readonly ImportedEvent[] {
  const held = new Map<string, CapturedObject>();
  let atMs = Infinity;
  const times = states
    .toReversed()
    .map((state) => (atMs = Math.min(atMs, state.atMs)))
    .toReversed();
  return states.flatMap(({ resource, object: answer, isGone: gone, isCreated }, index) => {
    const place = placeOf(resource, answer);
    const last = held.get(place);
    const object = whole(answer, last, report);
    if (!object) return [];
    if (gone) held.delete(place);
    else held.set(place, object);
    if (!last && !isCreated) report.invented("an object that first comes changed stands there as added");
    return [{ atMs: times[index] ?? 0, resource, object, type: gone ? "DELETED" : last ? "MODIFIED" : "ADDED" }];
  });
}

/** The garbage collector asks for metadata alone, and writes nothing else. */
function whole(answer: CapturedObject, last: CapturedObject | undefined, report: ImportReport): CapturedObject | undefined {
  if (answer["kind"] !== "PartialObjectMetadata") return answer;
  if (last) return { ...last, metadata: metadataOf(answer) };
  report.lost("a write that was answered with metadata alone, of an object that the log had not shown before");
  return undefined;
}
