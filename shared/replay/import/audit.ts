/**
 * Imports an API server's audit log (audit.k8s.io/v1, one event per line): the response to each write is the state that a watch showed.
 * Level RequestResponse is required, because lower levels omit responses.
 */
import { CACHED_RESOURCES, RESOURCES, maxResourceVersion } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import { CaptureError, RFC_3339, isObject } from "../capture-format/capture.ts";
import type { CapturedObject } from "../capture-format/capture.ts";
import { auditEventsOf, isAuditEvent } from "./audit-envelope.ts";
import { inVersionOrder, metadataOf, placeOf, versionOf } from "./imported.ts";
import type { Imported, ImportedEvent } from "./imported.ts";
import { objectAt } from "./json-values.ts";
import type { JsonValue } from "./json-values.ts";
import type { ImportReport } from "./report.ts";
import { eventOf } from "./spool.ts";
import type { Kept, Spool } from "./spool.ts";

interface Answer {
  readonly atMs: number;
  readonly resource: CachedResource;
  readonly verb: string;
  readonly name: string;
  readonly namespace: string;
  readonly user: string | undefined;
  readonly object: CapturedObject;
}

/** The part of every write's response that is kept in memory; the object is in the spool. */
interface KeptAnswer extends Pick<Answer, "atMs" | "resource" | "verb" | "user"> {
  /** Place of the requested object. */
  readonly place: string;
  readonly kept: Kept;
}

const WRITES = new Set(["create", "update", "patch", "delete", "deletecollection"]);
const CREATED = 201;
/** Subresources whose response is the whole object. */
const WHOLE = new Set(["", "status", "resize", "ephemeralcontainers"]);

export async function importAudit(values: AsyncIterable<JsonValue>, spool: Spool, report: ImportReport): Promise<Imported> {
  const answers: KeptAnswer[] = [];
  for await (const { value, place } of values)
    for (const event of auditEventsOf(value, report)) {
      const answer = answerOf(event, place, report);
      if (answer === undefined) continue;
      const { object, resource, namespace, name, verb, user, atMs: at } = answer;
      answers.push({
        ...{ atMs: at, resource, verb: spool.one(verb), user: user === undefined ? undefined : spool.one(user) },
        ...{ place: spool.one(placeOf(resource, { metadata: { namespace, name } })), kept: spool.keep(resource, object) },
      });
    }
  const events = asWatched(statesOf(answers, spool, report), spool, report);
  return { format: "audit", startMs: events[0]?.atMs ?? 0, endMs: events.at(-1)?.atMs ?? 0, lists: new Map(), events };
}

/** Returns undefined for events that changed no watched object. */
function answerOf(event: CapturedObject, place: string, report: ImportReport): Answer | undefined {
  if (!isAuditEvent(event)) throw new CaptureError(`${place}: object is not an event of audit.k8s.io`);
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
    throw new CaptureError(`${place}: fields of objectRef are not strings`);
  if (responseObject === undefined && isTruncated(event))
    return lost(
      report,
      "a write whose objects the API server truncated in its audit log (audit.k8s.io/truncated); its next write shows the state",
    );
  if (level !== "RequestResponse" || responseObject === undefined)
    throw new CaptureError(`${place}: a write of ${resource} was audited below level RequestResponse, so its result is not in the log`);
  const atMs = typeof stageTimestamp === "string" && RFC_3339.test(stageTimestamp) ? Date.parse(stageTimestamp) : Number.NaN;
  if (Number.isNaN(atMs)) throw new CaptureError(`${place}: stageTimestamp is not an RFC 3339 time`);
  if (subresource === "scale") return lost(report, "a write of /scale: its response is a Scale; the object's next write shows the size");
  if (!WHOLE.has(subresource))
    return lost(report, "a binding or eviction of a pod: its response is not the pod; the pod's next write shows the effect");
  // The API server authorizes the impersonated user, which Rancher's proxy sets for every user.
  const { username } = [event["impersonatedUser"], event["user"]].find(isObject) ?? {};
  const user = typeof username === "string" && username !== "" ? username : undefined;
  // An update or a server-side apply creates the object if it does not exist.
  return { atMs, resource, verb: code === CREATED ? "create" : verb, namespace, name, user, object: objectAt(responseObject, place) };
}

/** Whether the API server truncated the event by removing its objects. Source: apiserver/plugin/pkg/audit/truncate. */
export function isTruncated({ annotations }: CapturedObject): boolean {
  return isObject(annotations) && annotations["audit.k8s.io/truncated"] === "true";
}

function lost(report: ImportReport, what: string): undefined {
  report.lost(what);
}

interface State extends Pick<Answer, "atMs" | "resource" | "user"> {
  readonly kept: Kept;
  readonly isGone: boolean;
  readonly isCreated: boolean;
  /** Whether the response has only the object's metadata. */
  readonly isPartial: boolean;
}

/** The states after each write, in the order of versions. */
function statesOf(answers: readonly KeptAnswer[], spool: Spool, report: ImportReport): readonly State[] {
  const states: State[] = [];
  const known = new Map<string, Kept>();
  const seen = new Set<string>();
  let newest = "0";
  // Processes responses by time, because the response to a delete may be only a Status; the last known state is then the deleted one.
  for (const { atMs, resource, verb, place: requested, user, kept } of answers.toSorted((a, b) => a.atMs - b.atMs)) {
    const { object } = kept;
    for (const each of Array.isArray(object["items"]) ? object["items"].filter(isObject) : [object]) {
      const isStatus = each["kind"] === "Status";
      const last = known.get(requested);
      if (isStatus && (verb !== "delete" || !last)) {
        report.lost("a deletion of an object that the log did not contain before, or a deletecollection");
        continue;
      }
      const latest = isStatus && last ? last.object : each;
      const place = placeOf(resource, latest);
      const isRemoved = isStatus || isGone(each);
      // The response to the removal of the last finalizer has the previous version.
      const isOld = isStatus || (isRemoved && seen.has(`${resource} ${versionOf(each)}`) && known.has(place));
      const state = isOld ? withVersion(latest, newest, report) : each;
      const rv = versionOf(state);
      newest = maxResourceVersion(newest, rv);
      if (seen.has(`${resource} ${rv}`)) continue; // a known version means that the write changed nothing
      seen.add(`${resource} ${rv}`);
      const its = state === object ? kept : spool.keep(resource, state);
      if (isRemoved) known.delete(place);
      else known.set(place, its);
      const isPartial = state["kind"] === "PartialObjectMetadata";
      states.push({ atMs, resource, user, kept: its, isGone: isRemoved, isCreated: verb === "create", isPartial });
    }
  }
  return inVersionOrder(states);
}

/** Gives a deletion its own version. */
function withVersion(object: CapturedObject, newest: string, report: ImportReport): CapturedObject {
  report.assumed("the resourceVersion of a deletion, which the response does not contain");
  return { ...object, metadata: { ...metadataOf(object), resourceVersion: String(BigInt(newest) + 1n) } };
}

/** Whether the write removed the object, because it was deleted without grace period and finalizers. Source: registry/generic store.go. */
function isGone(object: CapturedObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds, finalizers } = metadataOf(object);
  const isHeld = Array.isArray(finalizers) && finalizers.length > 0;
  return typeof deletionTimestamp === "string" && !isHeld && (deletionGracePeriodSeconds ?? 0) === 0;
}

/**
 * The states as watch events. A write happens before its response, so the time of a version is at most that of the response to any newer
 * version.
 */
function asWatched(states: readonly State[], spool: Spool, report: ImportReport): readonly ImportedEvent[] {
  const stored = new Map<string, Kept>();
  let atMs = Infinity;
  const times = states
    .toReversed()
    .map((state) => (atMs = Math.min(atMs, state.atMs)))
    .toReversed();
  return states.flatMap((state, index) => {
    const { resource, user, isGone: gone, isCreated } = state;
    const last = stored.get(state.kept.place);
    const kept = whole(state, last, spool, report);
    if (!kept) return [];
    if (gone) stored.delete(kept.place);
    else stored.set(kept.place, kept);
    if (!last && !isCreated) report.assumed("an object whose first write is not a create; its first event is ADDED");
    const type = gone ? "DELETED" : last ? "MODIFIED" : "ADDED";
    return [eventOf(kept, { atMs: times[index] ?? 0, resource, type, ...(user !== undefined && { by: user }) })];
  });
}

/**
 * The whole object of a write whose response has only metadata, restored from the last state. Only the garbage collector makes such writes.
 */
function whole({ kept, isPartial, resource }: State, last: Kept | undefined, spool: Spool, report: ImportReport): Kept | undefined {
  if (!isPartial) return kept;
  if (last) return spool.keep(resource, { ...last.object, metadata: metadataOf(kept.object) });
  report.lost("a write with a metadata-only response, of an object that the log did not contain before");
  return undefined;
}
