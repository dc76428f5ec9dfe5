/**
 * The writes of upstream's controllers in a recorded cluster.
 *
 * UW1 an audit log of level RequestResponse has the author and the base version of each write.
 * UW2 without one, writes are derived from changes: only controllers write an owner's status, a ReplicaSet's size and annotations, a
 *    dependent's owner, and dependents themselves. `managedFields`, if present, exclude writes of users.
 * UW3 changes do not show who deletes or releases an object (the garbage collector may, too), so such a write is not certain.
 */
import { CACHED_RESOURCES, controllerOf, RESOURCES, controllerRef } from "@deltaloop/kube/objects";
import type { CachedResource, Controller } from "@deltaloop/kube/objects";
import { CaptureError, isObject } from "../capture-format/capture.ts";
import type { CapturedObject } from "../capture-format/capture.ts";
import { isTruncated } from "../import/audit.ts";
import { canonical } from "./canonical-write.ts";
import { placeOf } from "./states.ts";
import type { Change, LiveObject } from "./states.ts";

export interface UpstreamWrite {
  readonly controller: Controller;
  readonly verb: "create" | "update" | "delete";
  readonly resource: CachedResource;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  /** Time of the request, if known. */
  readonly atMs: number;
  /** The object after the write; for a delete, before it. For a created pod, the request's object if known. */
  readonly object: LiveObject;
  /** The version after the write; undefined for a delete derived from changes. */
  readonly version: string | undefined;
  /** Uid for a delete, if known, because earlier objects may have had the same name. */
  readonly uid?: string;
  /** The base version, known for status writes. */
  readonly madeOn: string | undefined;
  /** Whether the write is certainly the controller's; otherwise another client may have made it. */
  readonly isCertain: boolean;
}

/** `update deployments/status shop/web` */
export function labelOf({ verb, resource, subresource, namespace, name }: UpstreamWrite): string {
  return `${verb} ${resource}${subresource === "" ? "" : `/${subresource}`} ${namespace}/${name}`;
}

const USERS: Readonly<Record<string, Controller>> = {
  "system:serviceaccount:kube-system:deployment-controller": "deployment",
  "system:serviceaccount:kube-system:replicaset-controller": "replicaset",
  "system:serviceaccount:kube-system:replication-controller": "replicationcontroller",
};
const VERBS: Readonly<Record<string, UpstreamWrite["verb"]>> = { create: "create", update: "update", patch: "update", delete: "delete" };

interface AuditOptions {
  /** Returns the controller for writes of other users. */
  readonly writerOf?: (event: AuditEvent) => Controller | undefined;
  /** Called for a write whose objects the API server removed from its log; if absent, such a log is an error. */
  readonly onTruncated?: () => void;
}

/**
 * UW1: the writes that the API server accepted.
 *
 * @throws {CaptureError} when a write was audited below RequestResponse, without its object
 */
export function writesOfAudit(
  events: Iterable<CapturedObject>,
  file: string,
  { writerOf = ({ impersonatedUser, user }) => USERS[(impersonatedUser ?? user)?.username ?? ""], onTruncated }: AuditOptions = {},
): readonly UpstreamWrite[] {
  return [...events].flatMap((event) => {
    const audited = event as unknown as AuditEvent;
    const { verb, stage, requestURI = "", objectRef, responseStatus, requestObject, responseObject, requestReceivedTimestamp } = audited;
    if (stage !== "ResponseComplete" || /[?&]dryRun=/.test(requestURI)) return [];
    const controller = writerOf(audited);
    const resource = CACHED_RESOURCES.find((each) => each === objectRef?.resource && RESOURCES[each].group === (objectRef.apiGroup ?? ""));
    const done = VERBS[verb];
    if (!controller || !resource || !done || (responseStatus?.code ?? 0) >= 300) return [];
    if (!isObject(responseObject) && onTruncated && isTruncated(event)) {
      onTruncated();
      return [];
    }
    if (!isObject(responseObject))
      throw new CaptureError(`${file}: a write of ${resource} was audited below level RequestResponse, so its result is not in the log`);
    const { kind } = RESOURCES[resource];
    // Uses the request, because fields that admission adds to a pod do not come from the controller.
    const written = done === "create" && resource === "pods" ? { ...requestObject, kind } : { ...responseObject, kind };
    const { namespace = "", name = responseObject.metadata?.name ?? "", subresource = "" } = objectRef ?? {};
    const uid = responseObject.metadata?.uid ?? responseObject.details?.uid;
    return [
      {
        ...{ controller, verb: done, resource, subresource, namespace, name },
        ...(done === "delete" && uid !== undefined && { uid }),
        atMs: Date.parse(requestReceivedTimestamp),
        object: written as unknown as LiveObject, // an accepted write returns an object of the resource's type
        version: done === "delete" ? undefined : responseObject.metadata?.resourceVersion,
        madeOn: subresource === "status" && done === "update" ? requestObject?.metadata?.resourceVersion : undefined,
        isCertain: true,
      },
    ];
  });
}

/** The fields read from an audit event. */
export interface AuditEvent {
  readonly verb: string;
  readonly stage: string;
  readonly requestURI?: string;
  readonly requestReceivedTimestamp: string;
  readonly user?: { readonly username?: string };
  readonly impersonatedUser?: { readonly username?: string };
  readonly objectRef?: {
    readonly apiGroup?: string;
    readonly resource?: string;
    readonly subresource?: string;
    readonly namespace?: string;
    readonly name?: string;
  };
  readonly responseStatus?: { readonly code?: number };
  readonly requestObject?: Partial<LiveObject>;
  /** For a delete, the object or a Status that names it. */
  readonly responseObject?: Partial<LiveObject> & { readonly details?: { readonly uid?: string } };
}

/** Age from which an ADDED object existed before. */
const NEW_MS = 5_000;

/** UW2, UW3. @param known the objects before the changes; updated to those after them */
export function writesOfChanges(changes: readonly Change[], known = new Map<string, LiveObject>()): readonly UpstreamWrite[] {
  return changes.flatMap((change) => {
    const place = placeOf(change.object);
    const before = known.get(place);
    if (change.deleted) known.delete(place);
    else known.set(place, change.object);
    return writesOf(change, before?.metadata.uid === change.object.metadata.uid ? before : undefined);
  });
}

function writesOf(change: Change, before: LiveObject | undefined): readonly UpstreamWrite[] {
  const { resource, object, version, atMs, deleted, listed } = change;
  const { namespace, name, creationTimestamp = "", deletionTimestamp } = object.metadata;
  const write = (
    controller: Controller | undefined,
    verb: UpstreamWrite["verb"],
    more: Partial<UpstreamWrite> = {},
  ): readonly UpstreamWrite[] =>
    controller === undefined
      ? []
      : [
          {
            controller,
            verb,
            resource,
            subresource: "",
            namespace,
            name,
            atMs,
            object,
            version,
            madeOn: undefined,
            isCertain: true,
            ...more,
          },
        ];
  const owner = ownerOf(object);
  // A listed object may have changed more than once, so no write is derived from it.
  if (listed) return [];
  if (before === undefined) return !deleted && Math.abs(Date.parse(creationTimestamp) - atMs) < NEW_MS ? write(owner, "create") : [];
  const isGoing = deleted || deletionTimestamp !== undefined;
  if (isGoing && before.metadata.deletionTimestamp === undefined) return write(ownerOf(before), "delete", { isCertain: false });
  if (deleted || isForeign(before, object)) return [];
  const own = controllerOf(resource);
  if (!alike(before.status, object.status)) return write(own, "update", { subresource: "status", madeOn: before.metadata.resourceVersion });
  if (!alike(before.metadata.ownerReferences, object.metadata.ownerReferences))
    return write(owner ?? ownerOf(before), "update", { isCertain: owner !== undefined });
  if (resource === "deployments") return revisionOf(before) === revisionOf(object) ? [] : write(own, "update");
  if (resource !== "replicasets") return [];
  const sized =
    alike(before.spec?.["replicas"], object.spec?.["replicas"]) && alike(before.metadata.annotations, object.metadata.annotations);
  return sized ? [] : write(owner, "update");
}

/** The controller that writes for this owner. */
function ownerOf({ metadata }: LiveObject): Controller | undefined {
  const kind = controllerRef(metadata)?.kind;
  const resource = CACHED_RESOURCES.find((each) => RESOURCES[each].kind === kind);
  return resource && controllerOf(resource);
}

function revisionOf({ metadata }: LiveObject): string | undefined {
  return metadata.annotations?.["deployment.kubernetes.io/revision"];
}

const MANAGER = "kube-controller-manager";

interface ManagedFields {
  readonly manager?: string;
}

/** Whether another manager's fields changed. */
function isForeign(before: LiveObject, object: LiveObject): boolean {
  const [a, b] = [before, object].map(({ metadata }) => (metadata as { readonly managedFields?: readonly ManagedFields[] }).managedFields);
  if (a === undefined || b === undefined) return false;
  const of = (fields: readonly ManagedFields[], isOwn: boolean): readonly ManagedFields[] =>
    fields.filter(({ manager }) => (manager === MANAGER) === isOwn);
  return alike(of(a, true), of(b, true)) && !alike(of(a, false), of(b, false));
}

function alike(a: unknown, b: unknown): boolean {
  return canonical({ a }) === canonical({ a: b });
}
