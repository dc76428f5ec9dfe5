/** Cached objects and item changes with defaults, so that a test states only what matters to it. */
import type {
  Cached,
  CachedDeployment,
  CachedOwner,
  CachedPod,
  CachedReplicaSet,
  CachedReplicationController,
} from "../../shared/kube/objects/cached.ts";
import { ownerOfCached, podOwnerId, primaryAsOwner } from "../../shared/kube/objects/owner-id.ts";
import type { OwnerId } from "../../shared/kube/objects/owner-id.ts";
import { objectKey } from "../../shared/kube/objects/resources.ts";
import type { Controller, ObjectKey } from "../../shared/kube/objects/resources.ts";
import type { Labels } from "../../shared/kube/objects/wire.ts";
import { ACTING_RELEASES } from "../../shared/kube/releases.ts";
import type { Effect, ItemChange, ManifestRow, Row } from "../../shared/store/ports/store.ts";

const NAMESPACE = "shop";
const CREATED = "2026-03-01T10:00:00Z";

/** Example: `cachedPod({ name: "web-1", resourceVersion: "12", owner: ownedBy(rs) })`. */
export function cachedPod(overrides: Partial<CachedPod> = {}): CachedPod {
  const name = overrides.name ?? "web-1";
  return {
    namespace: NAMESPACE,
    name,
    uid: `uid-${name}`,
    resourceVersion: "1",
    labels: { app: "web" },
    creationTimestamp: CREATED,
    phase: "Pending",
    ...overrides,
  };
}

/** Options of the builders of primaries (Deployments, ReplicaSets and ReplicationControllers); the rest of the metadata is generated. */
export interface PrimaryOverrides {
  readonly namespace?: string;
  readonly name?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly generation?: number;
  readonly labels?: Labels;
  readonly owner?: CachedOwner;
  readonly deletionTimestamp?: string;
  readonly replicas?: number;
  /** The matchLabels of the selector. */
  readonly selector?: Labels;
  readonly digest?: string;
}

export function cachedReplicaSet(overrides: PrimaryOverrides = {}): CachedReplicaSet {
  return {
    metadata: metadata("rs", overrides),
    spec: {
      replicas: overrides.replicas ?? 1,
      selector: { matchLabels: overrides.selector ?? { app: "web" } },
      template: template(overrides),
    },
    status: {},
  };
}

export function cachedReplicationController(overrides: PrimaryOverrides = {}): CachedReplicationController {
  return {
    metadata: metadata("rc", overrides),
    spec: { replicas: overrides.replicas ?? 1, selector: overrides.selector ?? { app: "web" }, template: template(overrides) },
    status: {},
  };
}

export function cachedDeployment(
  overrides: PrimaryOverrides & { readonly strategy?: CachedDeployment["spec"]["strategy"] } = {},
): CachedDeployment {
  return {
    metadata: metadata("deploy", overrides),
    spec: {
      replicas: overrides.replicas ?? 1,
      selector: { matchLabels: overrides.selector ?? { app: "web" } },
      template: { ...template(overrides), hashStates: Object.fromEntries(ACTING_RELEASES.map(({ name }) => [name, 1])) },
      ...(overrides.strategy && { strategy: overrides.strategy }),
    },
    status: {},
  };
}

function metadata(
  prefix: string,
  { namespace = NAMESPACE, name = "web", owner, ...given }: PrimaryOverrides,
): CachedReplicaSet["metadata"] {
  return {
    namespace,
    name,
    uid: given.uid ?? `uid-${prefix}-${name}`,
    resourceVersion: given.resourceVersion ?? "1",
    generation: given.generation ?? 1,
    creationTimestamp: CREATED,
    ...(given.labels && { labels: given.labels }),
    ...(given.deletionTimestamp !== undefined && { deletionTimestamp: given.deletionTimestamp }),
    ...(owner && {
      ownerReferences: [
        { apiVersion: owner.kind === "ReplicationController" ? "v1" : "apps/v1", ...owner, controller: true, blockOwnerDeletion: true },
      ],
    }),
  };
}

function template({ selector, digest }: PrimaryOverrides): { readonly labels: Labels; readonly digest: string } {
  return { labels: selector ?? { app: "web" }, digest: digest ?? "k1.f1.template" };
}

/** The owner of a pod or ReplicaSet: `cachedPod({ owner: ownedBy("ReplicaSet", rs) })`. */
export function ownedBy(
  kind: "Deployment" | "ReplicaSet" | "ReplicationController",
  owner: { readonly metadata: { readonly name: string; readonly uid: string } },
): CachedOwner {
  return { kind, name: owner.metadata.name, uid: owner.metadata.uid };
}

export function keyOf(object: Cached): ObjectKey {
  const { namespace, name } = identity(object);
  return objectKey(namespace, name);
}

/** An item's own fields; `expected` is usually filled in from the Store. */
export type ItemOptions = Partial<Pick<ItemChange, "effects" | "counted" | "lowers" | "unread">> & { readonly expected?: Row | undefined };

/** The object appears or changes. */
export function put(object: Cached, options: ItemOptions = {}): ItemChange {
  const { uid, resourceVersion } = identity(object);
  const owner = ownerOf(object);
  return { ...base(object, options), type: "put", uid, rv: resourceVersion, object, ...(owner !== undefined && { owner }) };
}

/** The object is deleted at `rv`. */
export function remove(object: Cached, rv: string, options: ItemOptions = {}): ItemChange {
  return { ...base(object, options), type: "delete", uid: identity(object).uid, rv };
}

function base(
  object: Cached,
  { expected, effects = [], counted = false, lowers = [], unread = false }: ItemOptions,
): Pick<ItemChange, "key" | "expected" | "effects" | "counted" | "lowers" | "unread"> {
  return { key: keyOf(object), ...(expected && { expected: expectation(expected) }), effects, counted, lowers, ...(unread && { unread }) };
}

/** The fields of a row that lookups use. */
export function expectation(row: Omit<Row, "object">): NonNullable<ItemChange["expected"]> {
  return { rv: row.rv, uid: row.uid, ...(row.owner !== undefined && { owner: row.owner }) };
}

/** An effect that queues `key` of `controller`, whose primary has this uid. */
export function effect(controller: Controller, primary: Cached, options: Partial<Pick<Effect, "urgency" | "self">> = {}): Effect {
  return { controller, key: keyOf(primary), uid: identity(primary).uid, urgency: "act", ...options };
}

/** An object's entry in a manifest. */
export function listed(object: Cached): ManifestRow {
  const { uid, resourceVersion } = identity(object);
  return { key: keyOf(object), uid, rv: resourceVersion };
}

function identity(object: Cached): {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
} {
  return "metadata" in object ? object.metadata : object;
}

/** Objects that builders make without `metadata` are pods, and only pods' owners are distinguished by kind and name. */
function ownerOf(object: Cached): OwnerId | undefined {
  return ownerOfCached("metadata" in object ? "replicasets" : "pods", object);
}

/** The index's name for a ReplicaSet of the builders' namespace as an owner of pods. */
export function replicaSetOwner(uid: string, name = uid): OwnerId {
  return podOwnerId(NAMESPACE, { kind: "ReplicaSet", name, uid });
}

/** A primary as the owner of its pods (of its ReplicaSets, if it is a Deployment): the name of slices and intents. */
export function asOwner(controller: Controller, primary: Cached): OwnerId {
  return primaryAsOwner(controller, keyOf(primary), identity(primary).uid);
}

/** An object as the index stores it. */
export function rowOf(object: Cached): Row {
  const { owner } = put(object);
  const { uid, resourceVersion: rv } = identity(object);
  return { key: keyOf(object), uid, rv, ...(owner !== undefined && { owner }), gone: false, object };
}
