/** Accessors of captured objects, whole or stripped: a stripped pod is flat, all others have metadata. */
import { isObject } from "./capture.ts";
import type { CapturedObject, CaptureRecord, EvidenceRecord, ObjectIdentity } from "./capture.ts";

/**
 * The identity of a record's object, without parsing a skimmed line. Undefined for a record without object, a bookmark and an ERROR event.
 */
export function identityIn(record: CaptureRecord | EvidenceRecord): ObjectIdentity | undefined {
  if (record.identity !== undefined) return record.identity;
  const { object, type } = record;
  if (object === undefined || type === "BOOKMARK" || type === "ERROR") return undefined;
  const [uid, ownerUid] = [uidOf(object), ownerUidOf(object)];
  const { generation, deletionTimestamp } = metaOf(object);
  return {
    key: keyOf(object),
    ...(uid !== undefined && { uid }),
    ...(ownerUid !== undefined && { ownerUid }),
    ...(record.resource === "pods" && typeof deletionTimestamp === "string" && { isDeleted: true as const }),
    ...(typeof generation === "number" && { generation, available: availableOf(object) }),
  };
}

/** The API omits a zero. */
function availableOf(object: CapturedObject): number {
  const { availableReplicas } = asObject(object["status"]);
  return typeof availableReplicas === "number" ? availableReplicas : 0;
}

function metaOf(object: CapturedObject): CapturedObject {
  return (object["metadata"] as CapturedObject | undefined) ?? object; // the shape was checked when the capture was read
}

function isFlat(object: CapturedObject): boolean {
  return object["metadata"] === undefined;
}

/** `shop/web` */
export function keyOf(object: CapturedObject): string {
  const { namespace, name } = metaOf(object);
  return `${String(namespace)}/${String(name)}`;
}

export function versionOf(object: CapturedObject): string {
  return String(metaOf(object)["resourceVersion"] ?? "0");
}

export function labelsOf(object: CapturedObject): Readonly<Record<string, string>> {
  return (metaOf(object)["labels"] as Readonly<Record<string, string>> | undefined) ?? {};
}

export function withVersion(object: CapturedObject, resourceVersion: string): CapturedObject {
  return isFlat(object) ? { ...object, resourceVersion } : { ...object, metadata: { ...metaOf(object), resourceVersion } };
}

export function uidOf(object: CapturedObject): string | undefined {
  const { uid } = metaOf(object);
  return typeof uid === "string" ? uid : undefined;
}

/** The uid of its controller; the shape of owner references is unchecked. */
export function ownerUidOf(object: CapturedObject): string | undefined {
  const { ownerReferences } = metaOf(object);
  const references: readonly unknown[] = Array.isArray(ownerReferences)
    ? ownerReferences
    : isFlat(object)
      ? [{ controller: true, ...asObject(object["owner"]) }]
      : [];
  const found = references.map(asObject).find(({ controller }) => controller === true);
  return typeof found?.["uid"] === "string" ? found["uid"] : undefined;
}

function asObject(value: unknown): Readonly<Record<string, unknown>> {
  return isObject(value) ? value : {};
}

/** Whether the record is the bookmark that ends a watch's initial events. */
export function isInitialEnd({ type, object }: Pick<CaptureRecord, "type" | "object">): boolean {
  const metadata = object?.["metadata"] as { readonly annotations?: Readonly<Record<string, string>> } | undefined; // see metaOf
  return type === "BOOKMARK" && metadata?.annotations?.["k8s.io/initial-events-end"] === "true";
}
