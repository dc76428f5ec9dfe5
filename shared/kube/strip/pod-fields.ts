import type { Fields } from "../protobuf/fields.ts";

/** The annotation with which a pod's deletion rank is set. */
export const DELETION_COST = "controller.kubernetes.io/pod-deletion-cost";

const CONTAINER_STATUS = { name: [1, "string"], restartCount: [5, "int"] } as const satisfies Fields;

/**
 * The fields of a pod that the watcher reads: those of its projection (replicaset §2), and the managers that `isOwnWrite` compares. A list or
 * watch of pods as protobuf is decoded by this table, and `strip` can read no other field.
 *
 * Source: api core/v1/types.go, apimachinery meta/v1/types.go.
 */
export const POD_FIELDS = {
  metadata: [
    1,
    "message",
    {
      name: [1, "string"],
      namespace: [3, "string"],
      uid: [5, "string"],
      resourceVersion: [6, "string"],
      creationTimestamp: [8, "time"],
      deletionTimestamp: [9, "time"],
      labels: [11, "map"],
      annotations: [12, "map", [DELETION_COST]],
      ownerReferences: [13, "list", { kind: [1, "string"], name: [3, "string"], uid: [4, "string"], controller: [6, "bool"] }],
      managedFields: [17, "list", { manager: [1, "string"], time: [4, "time"] }],
    },
  ],
  spec: [2, "message", { initContainers: [20, "list", { name: [1, "string"], restartPolicy: [24, "string"] }], nodeName: [10, "string"] }],
  status: [
    3,
    "message",
    {
      phase: [1, "string"],
      conditions: [2, "list", { type: [1, "string"], status: [2, "string"], lastTransitionTime: [4, "time"] }],
      containerStatuses: [8, "list", CONTAINER_STATUS],
      initContainerStatuses: [10, "list", CONTAINER_STATUS],
    },
  ],
} as const satisfies Fields;
