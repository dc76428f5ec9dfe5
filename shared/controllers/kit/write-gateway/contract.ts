/**
 * The writes that each controller may send to the API server: design.md's table of writes as data. The write gateway rejects all others,
 * and shared/controllers/registry/rights.ts derives the RBAC rules from it.
 */
import type { Controller, Resource } from "@deltaloop/kube/objects";
import type { PatchType } from "@deltaloop/kube/client";

/**
 * One kind of write. Paths are JSON pointers into the body, or, for a delete, into its preconditions.
 *
 *     { what: "release a pod", verb: "patch", resource: "pods", type: "…strategic-merge…", require: ["/metadata/uid", …],
 *       values: { "/metadata/ownerReferences/0/$patch": "delete" }, allow: ["/metadata/uid", …] }
 */
export interface ContractRow<R extends string = Resource> {
  readonly what: string;
  readonly verb: "create" | "patch" | "delete";
  readonly resource: R;
  readonly subresource?: "status";
  /** The patch type; only for patches. */
  readonly type?: PatchType;
  /**
   * Relation of the call's object to the run's owner (run-binding.ts): `self` the owner itself, `new` created for it and controlled
   * by it, `owned` already controlled by it, `orphan` without a controller, `released` controlled by it until now, `event` an
   * Event about it.
   */
  readonly of: "self" | "new" | "owned" | "orphan" | "released" | "event";
  /** Paths that must be present; a string must not be empty. `null` (remove this field) counts as present. */
  readonly require: readonly string[];
  readonly values?: Readonly<Record<string, string | boolean | null>>;
  /** Every leaf must be one of these paths or lie below one. */
  readonly allow: readonly string[];
}

const MERGE = "application/merge-patch+json";
const STRATEGIC = "application/strategic-merge-patch+json";

const IDENTITY = ["/metadata/uid", "/metadata/resourceVersion"];
const ONE_OWNER = "/metadata/ownerReferences/0";
/** Exactly one reference, which makes its owner the controller: a second entry would add a path `/metadata/ownerReferences/1`. */
const CONTROLLER_REFERENCE = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"].map(
  (field) => `${ONE_OWNER}/${field}`,
);
const IS_CONTROLLER = { [`${ONE_OWNER}/controller`]: true, [`${ONE_OWNER}/blockOwnerDeletion`]: true };

function adopt(resource: "pods" | "replicasets"): ContractRow {
  const paths = ["/metadata/uid", ...CONTROLLER_REFERENCE];
  return {
    what: `adopt ${resource}`,
    verb: "patch",
    resource,
    type: STRATEGIC,
    of: "orphan",
    require: paths,
    values: IS_CONTROLLER,
    allow: paths,
  };
}

function release(resource: "pods" | "replicasets"): ContractRow {
  const paths = ["/metadata/uid", `${ONE_OWNER}/$patch`, `${ONE_OWNER}/uid`];
  return {
    what: `release ${resource}`,
    verb: "patch",
    resource,
    type: STRATEGIC,
    of: "released",
    require: paths,
    values: { [`${ONE_OWNER}/$patch`]: "delete" },
    allow: paths,
  };
}

/**
 * A status patch must have the uid and version that the decision read, and every field that the controller manages, so that no older value
 * survives.
 */
function status(resource: Resource, fields: readonly string[], more: readonly string[] = []): ContractRow {
  const paths = [...IDENTITY, ...[...fields, "observedGeneration", "conditions"].map((field) => `/status/${field}`)];
  return {
    what: `status of ${resource}`,
    verb: "patch",
    resource,
    subresource: "status",
    type: MERGE,
    of: "self",
    require: paths,
    allow: [...paths, ...more],
  };
}

const CREATE_EVENT: ContractRow = {
  what: "create an Event",
  verb: "create",
  resource: "events",
  of: "event",
  require: ["/metadata/name", "/involvedObject/uid", "/reason", "/type"],
  allow: [
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/namespace",
    "/involvedObject",
    "/reason",
    "/message",
    "/type",
    "/count",
    "/firstTimestamp",
    "/lastTimestamp",
    "/source/component",
    "/reportingComponent",
  ],
};

/** Increments the count of an Event. Source: client-go tools/record/events_cache.go eventObserve. */
const PATCH_EVENT: ContractRow = {
  what: "count an Event",
  verb: "patch",
  resource: "events",
  type: STRATEGIC,
  of: "event",
  require: ["/count", "/lastTimestamp", "/message"],
  allow: ["/count", "/lastTimestamp", "/message"],
};

const CREATE_POD: ContractRow = {
  what: "create a pod",
  verb: "create",
  resource: "pods",
  of: "new",
  require: ["/metadata/name", "/metadata/generateName", "/metadata/labels", ...CONTROLLER_REFERENCE],
  values: IS_CONTROLLER,
  allow: [
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/generateName",
    "/metadata/labels",
    "/metadata/annotations",
    "/metadata/finalizers",
    ...CONTROLLER_REFERENCE,
    "/spec",
  ],
};

/** Requires the pod's uid and the version that the decision saw. */
const DELETION = { require: ["/uid", "/resourceVersion"], allow: ["/uid", "/resourceVersion"] } as const;

const DELETE_POD: ContractRow = { what: "delete a pod", verb: "delete", resource: "pods", of: "owned", ...DELETION };

const ROLLBACK_REQUEST = "/metadata/annotations/deprecated.deployment.rollback.to";

const REPLICA_COUNTERS = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"];

/** The writes that the gateway of each controller lets through. */
export const CONTRACT: { readonly [C in Controller]: readonly ContractRow[] } = {
  replicaset: [
    CREATE_POD,
    DELETE_POD,
    adopt("pods"),
    release("pods"),
    status("replicasets", [...REPLICA_COUNTERS, "terminatingReplicas"]),
    CREATE_EVENT,
    PATCH_EVENT,
  ],
  replicationcontroller: [
    CREATE_POD,
    DELETE_POD,
    adopt("pods"),
    release("pods"),
    status("replicationcontrollers", REPLICA_COUNTERS),
    CREATE_EVENT,
    PATCH_EVENT,
  ],
  deployment: [
    {
      what: "create a ReplicaSet",
      verb: "create",
      resource: "replicasets",
      of: "new",
      require: ["/metadata/name", "/metadata/labels", "/spec/replicas", "/spec/selector", "/spec/template", ...CONTROLLER_REFERENCE],
      values: IS_CONTROLLER,
      allow: [
        "/apiVersion",
        "/kind",
        "/metadata/name",
        "/metadata/namespace",
        "/metadata/labels",
        "/metadata/annotations",
        ...CONTROLLER_REFERENCE,
        "/spec/replicas",
        "/spec/minReadySeconds",
        "/spec/selector",
        "/spec/template",
      ],
    },
    {
      what: "size, annotations and minReadySeconds of a ReplicaSet",
      verb: "patch",
      resource: "replicasets",
      type: MERGE,
      of: "owned",
      require: IDENTITY,
      allow: [...IDENTITY, "/spec/replicas", "/spec/minReadySeconds", "/metadata/annotations"],
    },
    { what: "delete a ReplicaSet", verb: "delete", resource: "replicasets", of: "owned", ...DELETION },
    adopt("replicasets"),
    release("replicasets"),
    status(
      "deployments",
      ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas", "terminatingReplicas", "collisionCount"],
      ["/metadata/annotations/deployment.kubernetes.io~1revision"],
    ),
    {
      what: "roll a Deployment back",
      verb: "patch",
      resource: "deployments",
      type: MERGE,
      of: "self",
      require: [...IDENTITY, ROLLBACK_REQUEST],
      // Removing a rollback request is the only change to a Deployment itself.
      values: { [ROLLBACK_REQUEST]: null },
      allow: [...IDENTITY, "/metadata/annotations", "/spec/template"],
    },
    CREATE_EVENT,
    PATCH_EVENT,
  ],
};
