/**
 * Builds everything that is cached (design decision 5). Called by the watcher and write-through.
 *
 *   ST1 no value of a template, environment variable or secret is cached: pods are built field by field, templates are replaced by `{
 *       labels, digest, hashStates? }`, annotation values by digests unless a decision reads them.
 *   ST2 idempotent: stripped objects pass unchanged, so captures and retries may be stripped again.
 *   ST3 the input is not changed. The result shares labels, status and the rest of spec with it, so neither may be changed.
 *   ST4 key, uid, resourceVersion, ownerReferences, labels, finalizers and deletion fields are kept.
 *   ST5 a value in `annotations` is always treated as a value, and `annotationDigests` keeps only entries in
 *      digest format. So a value that looks like a digest is digested, and no value passes as a digest.
 *
 * It runs for every watch event, so it is hand-written and shares instead of copying where possible.
 */
import { isObject } from "@deltaloop/base";
import { isAllowedAnnotation, LAST_APPLIED } from "./annotation-allowlist.ts";
import type { CachedDeployment, CachedMeta, CachedPod, CachedReplicaSet, CachedTemplate, Cached } from "../objects/cached.ts";
import { type Digester, isAnnotationDigest } from "../pod-template/digest.ts";
import type { Labels, PodTemplateSpec } from "../objects/wire.ts";
import { MalformedObjectError } from "../objects/errors.ts";
import { isResourceVersion } from "../objects/resource-version.ts";
import { type CachedResource, objectKey } from "../objects/resources.ts";
import { listIn, messageIn } from "../protobuf/fields.ts";
import type { PartOf } from "../protobuf/fields.ts";
import { DELETION_COST, POD_FIELDS } from "./pod-fields.ts";

type JsonObject = Readonly<Record<string, unknown>>;
type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/**
 * Returns the cached shape of an API object, or of an object that is already stripped. A pod becomes replicaset §2's flat
 * projection. The workload kinds lose managedFields, the last-applied annotation, template values and most
 * annotation values.
 *
 *     strip("pods", { metadata: { name: "web-1", … }, spec: { … }, status: { … } }, digester)
 *       → { namespace: "shop", name: "web-1", uid: "…", resourceVersion: "812", phase: "Running", … }
 *
 * @throws {MalformedObjectError} when the object lacks metadata, name, namespace, uid, a decimal resourceVersion or,
 *   for a Deployment, its template, or has invalid ownerReferences. Throws no other error for any JSON.
 */
export function strip<R extends CachedResource>(resource: R, object: unknown, digester: Digester): Cached<R> {
  // Each branch builds the type of its own resource; TypeScript does not narrow R by the value of `resource`.
  return stripResource(resource, object, digester) as Cached<R>;
}

function stripResource(resource: CachedResource, object: unknown, digester: Digester): Cached {
  if (!isObject(object)) throw new MalformedObjectError(resource, "not an object");
  switch (resource) {
    case "pods":
      return isObject(object["metadata"]) ? projectPod(object) : flatPod(object);
    case "replicasets":
    case "replicationcontrollers":
      return stripWorkload(resource, object, digester);
    case "deployments": {
      const stripped = stripWorkload(resource, object, digester);
      if (stripped.spec.template === undefined) throw new MalformedObjectError(resource, "no spec.template", keyOf(stripped.metadata));
      // The template's presence has just been checked; the other fields are as the API server sent them.
      return stripped as CachedDeployment;
    }
    default:
      return resource satisfies never;
  }
}

/** The projection of a whole pod (replicaset §2). It reads only the fields of the table, because a decoded protobuf pod has no others. */
function projectPod(pod: PartOf<typeof POD_FIELDS>): CachedPod {
  const metadata = messageIn(pod, POD_FIELDS, "metadata");
  const spec = messageIn(pod, POD_FIELDS, "spec");
  const status = messageIn(pod, POD_FIELDS, "status");
  const [META, SPEC, STATUS] = [POD_FIELDS.metadata[2], POD_FIELDS.spec[2], POD_FIELDS.status[2]];
  const out: Mutable<CachedPod> = identity("pods", metadata);

  if (isNonEmptyObject(metadata.labels)) out.labels = metadata.labels as Labels;
  const deletionCost = isObject(metadata.annotations) ? metadata.annotations[DELETION_COST] : undefined;
  if (typeof deletionCost === "string") out.deletionCost = deletionCost;
  for (const reference of listIn(metadata, META, "ownerReferences")) {
    if (reference.controller !== true) continue;
    out.owner = { kind: textOf(reference.kind), name: textOf(reference.name), uid: textOf(reference.uid) };
    break;
  }
  copyText(out, "creationTimestamp", metadata.creationTimestamp);
  copyText(out, "deletionTimestamp", metadata.deletionTimestamp);
  copyText(out, "nodeName", spec.nodeName);
  copyText(out, "phase", status.phase);
  for (const condition of listIn(status, STATUS, "conditions")) {
    if (condition.type !== "Ready") continue;
    out.ready = readyOf(condition.status, condition.lastTransitionTime);
    break;
  }
  const restarts = restartsMax(listIn(status, STATUS, "containerStatuses"), undefined);
  if (restarts > 0) out.restarts = restarts;
  const sidecarRestarts = restartsMax(listIn(status, STATUS, "initContainerStatuses"), sidecarNames(listIn(spec, SPEC, "initContainers")));
  if (sidecarRestarts > 0) out.sidecarRestarts = sidecarRestarts;
  return out;
}

/** Rebuilds an already projected pod, so that unknown fields are dropped (ST1). */
function flatPod(pod: JsonObject): CachedPod {
  if (typeof pod["name"] !== "string") throw new MalformedObjectError("pods", "no metadata");
  const out: Mutable<CachedPod> = identity("pods", pod);
  const { owner, ready, restarts, sidecarRestarts } = pod;
  if (isNonEmptyObject(pod["labels"])) out.labels = pod["labels"] as Labels;
  if (typeof pod["deletionCost"] === "string") out.deletionCost = pod["deletionCost"];
  if (isObject(owner)) out.owner = { kind: textOf(owner["kind"]), name: textOf(owner["name"]), uid: textOf(owner["uid"]) };
  copyText(out, "creationTimestamp", pod["creationTimestamp"]);
  copyText(out, "deletionTimestamp", pod["deletionTimestamp"]);
  copyText(out, "nodeName", pod["nodeName"]);
  copyText(out, "phase", pod["phase"]);
  if (isObject(ready)) out.ready = readyOf(ready["status"], ready["since"]);
  if (typeof restarts === "number" && restarts > 0) out.restarts = restarts;
  if (typeof sidecarRestarts === "number" && sidecarRestarts > 0) out.sidecarRestarts = sidecarRestarts;
  return out;
}

function readyOf(status: unknown, since: unknown): NonNullable<CachedPod["ready"]> {
  return typeof since === "string" ? { status: textOf(status), since } : { status: textOf(status) };
}

/** Returns the names of restartable init containers. Source: pkg/api/v1/pod/util.go IsRestartableInitContainer. */
function sidecarNames(initContainers: readonly { readonly name?: unknown; readonly restartPolicy?: unknown }[]): readonly unknown[] {
  return initContainers.flatMap(({ name, restartPolicy }) => (restartPolicy === "Always" ? [name] : []));
}

/** Highest restartCount of all containers, or of the named containers. */
function restartsMax(
  statuses: readonly { readonly name?: unknown; readonly restartCount?: unknown }[],
  names: readonly unknown[] | undefined,
): number {
  let max = 0;
  if (names?.length === 0) return max;
  for (const { name, restartCount } of statuses) {
    if (typeof restartCount === "number" && restartCount > max && (names === undefined || names.includes(name))) max = restartCount;
  }
  return max;
}

type Workload = Exclude<CachedResource, "pods">;

function stripWorkload(resource: Workload, object: JsonObject, digester: Digester): CachedReplicaSet {
  const metadata = object["metadata"];
  if (!isObject(metadata)) throw new MalformedObjectError(resource, "no metadata");
  identity(resource, metadata);
  const references = metadata["ownerReferences"] ?? [];
  if (!Array.isArray(references) || !references.every(isObject))
    throw new MalformedObjectError(resource, "ownerReferences is not a list of objects", keyOf(metadata));
  const { template, ...rest } = isObject(object["spec"]) ? object["spec"] : {};
  const spec = isObject(template) ? { ...rest, template: stripTemplate(template, resource === "deployments", digester) } : rest;
  const status = isObject(object["status"]) ? object["status"] : {};
  // `identity` has checked the required fields and the template is replaced; all other fields are as the API server sent them.
  return { metadata: stripMeta(metadata, digester), spec, status } as unknown as CachedReplicaSet;
}

/** Shares `metadata` if nothing is dropped. */
function stripMeta(metadata: JsonObject, digester: Digester): CachedMeta {
  if (!("managedFields" in metadata || "annotations" in metadata || "annotationDigests" in metadata)) {
    return metadata as unknown as CachedMeta; // `identity` has checked the fields that CachedMeta requires
  }
  const { managedFields: _managedFields, annotations, annotationDigests, ...out } = metadata;
  const { clear, digests } = stripAnnotations(annotations, annotationDigests, digester);
  return {
    ...out,
    ...(isNonEmptyObject(clear) && { annotations: clear }),
    ...(isNonEmptyObject(digests) && { annotationDigests: digests }),
  } as unknown as CachedMeta; // see above
}

/** Drops annotations that are not strings. A present value replaces an older digest. */
function stripAnnotations(annotations: unknown, known: unknown, digester: Digester): { readonly clear: Labels; readonly digests: Labels } {
  const clear: Record<string, string> = {};
  const digests: Record<string, string> = {};
  for (const [key, digest] of entriesOf(known)) {
    if (isAnnotationDigest(digest) && key !== LAST_APPLIED && !isAllowedAnnotation(key)) digests[key] = digest;
  }
  for (const [key, value] of entriesOf(annotations)) {
    if (typeof value !== "string" || key === LAST_APPLIED) continue;
    if (isAllowedAnnotation(key)) clear[key] = value;
    else digests[key] = digester.annotation(key, value);
  }
  return { clear, digests };
}

export function entriesOf(value: unknown): readonly (readonly [string, unknown])[] {
  return isObject(value) ? Object.entries(value) : [];
}

/** A template with a digest and without metadata and spec is already stripped. */
function stripTemplate(template: JsonObject, withHashStates: boolean, digester: Digester): CachedTemplate {
  const { digest, hashState, hashStates } = template;
  if (typeof digest === "string" && !("metadata" in template) && !("spec" in template)) {
    // Captures of earlier versions have a single state, that of 1.36.
    const states = typeof hashState === "number" ? { "1.36": hashState } : hashStates;
    return cachedTemplate(template["labels"], digest, isHashStates(states) ? states : undefined);
  }
  // `template` may be any JSON object. Digest and hash include fields that the layout does not know.
  const whole = template as unknown as PodTemplateSpec;
  const labels = isObject(template["metadata"]) ? template["metadata"]["labels"] : undefined;
  const made = digester.template(whole, withHashStates);
  return cachedTemplate(labels, made.digest, made.hashStates);
}

type HashStates = NonNullable<CachedTemplate["hashStates"]>;

function isHashStates(value: unknown): value is HashStates {
  return isObject(value) && Object.values(value).every((state) => typeof state === "number");
}

function cachedTemplate(labels: unknown, digest: string, hashStates: HashStates | undefined): CachedTemplate {
  const out: Mutable<CachedTemplate> = isNonEmptyObject(labels) ? { labels: labels as Labels, digest } : { digest };
  if (hashStates !== undefined) out.hashStates = hashStates;
  return out;
}

/** The four required fields of a cached object. */
function identity(resource: CachedResource, metadata: JsonObject): Pick<CachedPod, "namespace" | "name" | "uid" | "resourceVersion"> {
  const { namespace, name, uid, resourceVersion } = metadata;
  const key = keyOf(metadata);
  if (!isText(name)) throw new MalformedObjectError(resource, "no name");
  if (!isText(namespace)) throw new MalformedObjectError(resource, "no namespace", name);
  if (!isText(uid)) throw new MalformedObjectError(resource, "no uid", key);
  if (!isText(resourceVersion)) throw new MalformedObjectError(resource, "no resourceVersion", key);
  if (!isResourceVersion(resourceVersion)) throw new MalformedObjectError(resource, "resourceVersion is not a decimal integer", key);
  return { namespace, name, uid, resourceVersion };
}

/** The key, as far as it is known. */
function keyOf(metadata: { readonly namespace?: unknown; readonly name?: unknown }): string | undefined {
  return isText(metadata.namespace) && isText(metadata.name) ? objectKey(metadata.namespace, metadata.name) : undefined;
}

function copyText(out: Mutable<CachedPod>, field: "creationTimestamp" | "deletionTimestamp" | "nodeName" | "phase", value: unknown): void {
  if (isText(value)) out[field] = value;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function isNonEmptyObject(value: unknown): value is JsonObject {
  if (!isObject(value)) return false;
  for (const _key in value) return true;
  return false;
}
