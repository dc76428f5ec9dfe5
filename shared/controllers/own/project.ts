/**
 * What a view of a user controller keeps of an object: its visible fields, and digests of what the controller writes but may not see.
 *
 * PJ1 values of Secrets and ConfigMaps, pod template values and env values are never sent, whatever the mask.
 * PJ2 an object that does not concern this controller (outside `where` or `only`, or owned by another kind) is a row without content.
 * PJ3 a projection is idempotent: an object that was projected already stays as it is.
 */
import { isObject } from "@deltaloop/base";
import { controllerRef } from "@deltaloop/kube/objects";
import type { CachedObject, OwnView } from "@deltaloop/kube/objects";
import type { Digester } from "@deltaloop/kube/pod-template";
import { projected } from "@deltaloop/kube/strip";
import { apiVersionOf, isMetadataOnly } from "@deltaloop/sdk/definitions";
import type { Definition, KindData, Mask } from "@deltaloop/sdk/definitions";
import { contentOf, isManagedBy, sentText, statusContentOf } from "@deltaloop/sdk/writes";
import type { ObjectBody } from "@deltaloop/sdk/writes";

/** No field of an object can have this name: it is not a Go identifier's JSON name. */
const OWN = "~own";

/** Fields that a row stores in addition to the visible ones. */
export interface OwnFields {
  /** PJ2. */
  readonly isOut?: true;
  /** Digest of the content; of a kind that is watched as metadata, the resourceVersion. */
  readonly content?: string;
  /** Digest of the status. */
  readonly status?: string;
  /** The controller's manager has an entry in managedFields. */
  readonly isManaged?: true;
  /** The entry in managedFields is that of a create; the first change replaces it by that of an apply. */
  readonly isCreated?: true;
}

export type OwnObject = CachedObject & { readonly [OWN]?: OwnFields; readonly [field: string]: unknown };

export function ownFields(object: CachedObject): OwnFields {
  return (object as OwnObject)[OWN] ?? {}; // the row of a view of this module
}

interface Projection {
  readonly view: OwnView;
  readonly kind: KindData;
  readonly see: Mask;
  /** Annotations whose values are sent. */
  readonly annotations: readonly string[];
  readonly manager: string;
  /** Whether content and managers are digested, as of what the controller writes. */
  readonly isWritten: boolean;
  readonly isIn: (object: ObjectBody) => boolean;
}

export function projection({
  view,
  kind,
  see,
  annotations,
  manager,
  isWritten,
  isIn,
}: Projection): (object: unknown, digester: Digester) => CachedObject {
  return (object, digester) => {
    const base = projected(view, object, digester);
    const whole = object as ObjectBody & { readonly [OWN]?: OwnFields }; // projected() has checked its metadata
    const { metadata } = base;
    if (whole[OWN] !== undefined) return { ...whole, metadata: { ...metadata, ...annotated(whole, annotations) } } as CachedObject; // PJ3
    const { namespace, name, uid, resourceVersion } = metadata;
    const isManaged = isManagedBy(whole, manager) && { isManaged: true as const };
    // the four fields are all that identity needs
    if (!isIn(whole)) return outOf({ namespace, name, uid, resourceVersion } as CachedObject["metadata"], isManaged || {});
    const { apiVersion: _, kind: __, metadata: ___, ...fields } = whole;
    const shown = isMetadataOnly(kind) ? {} : (masked(see, fields, digester) as Readonly<Record<string, unknown>>); // a mask of fields
    // Lists have items without apiVersion and kind, and a watch has them.
    const same = { ...whole, apiVersion: apiVersionOf(kind), kind: kind.kind };
    const own: OwnFields = {
      ...((isWritten || isMetadataOnly(kind)) && {
        content: isMetadataOnly(kind) ? resourceVersion : digester.content(contentOf(same, manager)),
      }),
      ...(isWritten && kind.status && !isMetadataOnly(kind) && { status: digester.content(statusContentOf(same)) }),
      ...isManaged,
      ...(isCreatedBy(whole, manager) && { isCreated: true as const }),
    };
    return { ...shown, metadata: { ...metadata, ...annotated(whole, annotations) }, [OWN]: own } as CachedObject;
  };
}

function outOf(metadata: CachedObject["metadata"], own: OwnFields): CachedObject {
  return { metadata, [OWN]: { isOut: true, ...own } } as CachedObject; // read by ownFields
}

function annotated({ metadata }: ObjectBody, names: readonly string[]): { readonly annotations?: Readonly<Record<string, string>> } {
  const all = isObject(metadata["annotations"]) ? metadata["annotations"] : {};
  const kept = names.flatMap((name) => (typeof all[name] === "string" ? [[name, all[name]] as const] : []));
  return kept.length === 0 ? {} : { annotations: Object.fromEntries(kept) };
}

function isCreatedBy({ metadata: { managedFields } }: ObjectBody, manager: string): boolean {
  const entries: readonly unknown[] = Array.isArray(managedFields) ? managedFields : [];
  return entries.some(
    (entry) => isObject(entry) && entry["manager"] === manager && entry["operation"] === "Update" && (entry["subresource"] ?? "") === "",
  );
}

function masked(mask: Mask, value: unknown, digester: Digester): unknown {
  if (mask === true) return scrubbed(value);
  if (mask === "digest") return digester.content(sentText(value));
  if (!isObject(value)) return undefined;
  const fields = Object.entries(mask).flatMap(([name, below]) => {
    const shown = value[name] === undefined ? undefined : masked(below, value[name], digester);
    return shown === undefined ? [] : [[name, shown] as const];
  });
  return Object.fromEntries(fields);
}

/** PJ1, for kinds whose schema is unknown here. */
function scrubbed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(scrubbed);
  if (!isObject(value)) return value;
  const fields = Object.entries(value).filter(
    ([name, field]) => !(name === "template" && isObject(field) && isObject(field["spec"])) && !(name === "env" && Array.isArray(field)),
  );
  return Object.fromEntries(fields.map(([name, field]) => [name, scrubbed(field)]));
}

/** Whether a primary is one that the controller syncs. */
export function isSelected({ where: { labels = {}, annotations = {}, namespaces = [], fields = {} } }: Definition): Projection["isIn"] {
  const matches = (wanted: Readonly<Record<string, string>>, found: unknown): boolean =>
    Object.entries(wanted).every(([key, value]) => isObject(found) && isPermitted([value], found[key]));
  return (object) =>
    matches(labels, object.metadata["labels"]) &&
    matches(annotations, object.metadata["annotations"]) &&
    (namespaces.length === 0 || namespaces.includes(object.metadata.namespace ?? "")) &&
    Object.entries(fields).every(([path, values]) => isPermitted(values, valueAt(object, path)));
}

function isPermitted(values: readonly string[], found: unknown): boolean {
  const text = typeof found === "string" || typeof found === "number" || typeof found === "boolean" ? String(found) : undefined;
  return text !== undefined && (values.includes("*") || values.includes(text));
}

export function valueAt(object: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((value, field) => (isObject(value) ? value[field] : undefined), object);
}

/** Whether the object's controller reference is of the primary's kind. */
export function isOwnedBy(primary: KindData): Projection["isIn"] {
  return (object) => {
    const reference = controllerRef(object.metadata as Parameters<typeof controllerRef>[0]); // its list was checked by projected()
    return reference?.kind === primary.kind && groupOf(reference.apiVersion) === primary.group;
  };
}

/** Whether all four parts of the controller reference are those of the primary. The slice alone does not show this: its name hashes three. */
export function isMine(primary: KindData, { name, uid }: { readonly name: string; readonly uid: string }, object: CachedObject): boolean {
  const reference = controllerRef(object.metadata);
  return (
    reference?.kind === primary.kind && groupOf(reference.apiVersion) === primary.group && reference.name === name && reference.uid === uid
  );
}

function groupOf(apiVersion: string): string {
  return apiVersion.includes("/") ? apiVersion.slice(0, apiVersion.indexOf("/")) : "";
}

/**
 * Whether a change of the object's row concerns its controller: visible fields, and content where the controller writes.
 * @param hasContent content matters although the object has no entry of the controller: it is owned, or watched as metadata alone
 */
export function isChanged(before: CachedObject, after: CachedObject, hasContent: boolean): boolean {
  const [a, b] = [seenOf(before), seenOf(after)];
  if (sentText(a) !== sentText(b)) return true;
  const [old, now] = [ownFields(before), ownFields(after)];
  const matters = hasContent || old.isManaged === true || now.isManaged === true;
  return matters && sentText(old) !== sentText(now);
}

/** The visible fields whose change enqueues the key; excludes the version, which every write changes. */
export function seenOf(object: CachedObject): unknown {
  const { [OWN]: own, metadata, ...fields } = object as OwnObject; // a row of a view of this module
  const { resourceVersion: _, annotationDigests: __, ...meta } = metadata;
  return { ...fields, metadata: meta, isOut: own?.isOut };
}

/** The object as a sync sees it. */
export function visibleOf(object: CachedObject): Readonly<Record<string, unknown>> & Pick<CachedObject, "metadata"> {
  const { [OWN]: _, metadata, ...fields } = object as OwnObject; // a row of a view of this module
  const { annotationDigests: __, ...meta } = metadata;
  return { ...fields, metadata: meta };
}
