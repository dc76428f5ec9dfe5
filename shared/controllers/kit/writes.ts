/**
 * The writes that a sync decides on, as plain data for logs, tests and replay. A write names a template (uid, generation, digest)
 * and never holds one. `perform()` turns writes into calls; the write gateway enforces each controller's contract (design.md).
 */
import type { DeploymentStatus, ReplicaSetStatus, Labels } from "@deltaloop/kube/objects";

/** The object that a sync runs for. */
export interface Owner {
  readonly resource: "replicasets" | "replicationcontrollers" | "deployments";
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** The template that the decision read. A create is sent only if the live owner still has this generation and digest. */
export interface TemplateRef {
  readonly generation: number;
  readonly digest: string;
}

/** The size that the decision read. A pod is deleted only if the live owner still has this generation and replica count. */
export interface SizeRef {
  readonly generation: number;
  readonly replicas: number;
}

/**
 * Annotations to copy from the live owner. The write holds no values, so it can be logged: `perform()` reads the values of `keys`
 * live, if the owner's digests still equal those of the decision.
 */
export interface CopiedAnnotations {
  readonly keys: readonly string[];
  /** All digests of the owner, including those of annotations that are already copied. */
  readonly digests: Labels;
}

export type Write =
  | { readonly kind: "CreatePods"; readonly owner: Owner; readonly count: number; readonly template: TemplateRef }
  | {
      readonly kind: "DeletePod";
      readonly owner: Owner;
      readonly name: string;
      readonly uid: string;
      /** Version of the pod that was chosen. */
      readonly resourceVersion: string;
      readonly size: SizeRef;
    }
  | {
      readonly kind: "Adopt";
      readonly owner: Owner;
      readonly resource: "pods" | "replicasets";
      readonly name: string;
      readonly uid: string;
    }
  | {
      readonly kind: "Release";
      readonly owner: Owner;
      readonly resource: "pods" | "replicasets";
      readonly name: string;
      readonly uid: string;
    }
  | {
      readonly kind: "CreateReplicaSet";
      readonly owner: Owner;
      /** `<deployment>-<hash>`, truncated as in deployment §8.2. */
      readonly name: string;
      readonly hash: string;
      readonly template: TemplateRef;
      readonly replicas: number;
      readonly annotations: Labels;
      readonly copied?: CopiedAnnotations;
    }
  | {
      readonly kind: "PatchReplicaSet";
      readonly owner: Owner;
      readonly name: string;
      readonly uid: string;
      readonly resourceVersion: string;
      /** Changed keys only. */
      readonly replicas?: number;
      readonly minReadySeconds?: number;
      readonly annotations?: Labels;
      readonly copied?: CopiedAnnotations;
    }
  | {
      readonly kind: "DeleteReplicaSet";
      readonly owner: Owner;
      readonly name: string;
      readonly uid: string;
      readonly resourceVersion: string;
    }
  | {
      /** Ends a rollback request: applies the template and annotations of `to`, or only removes the request without `to`. */
      readonly kind: "RollBack";
      readonly owner: Owner;
      /** Version of the object that the decision read, or of the last response. */
      readonly resourceVersion: string;
      /** The annotations that request the rollback; the live owner must still have them. */
      readonly request: Labels;
      /** The owner's template, which the template of `to` replaces. */
      readonly template: TemplateRef;
      /** The target ReplicaSet, and its template's digest. */
      readonly to?: { readonly name: string; readonly uid: string; readonly digest: string };
    }
  | {
      readonly kind: "UpdateStatus";
      readonly owner: Owner;
      /** Version of the object that the decision read, or of the last response. */
      readonly resourceVersion: string;
      readonly status: ReplicaSetStatus | DeploymentStatus;
      /** Counters to remove from the stored status; sent as `null`. */
      readonly absent: readonly string[];
      /** Deployments: the revision annotation, which is sent with the status. */
      readonly annotations?: Labels;
    };

/** A Kubernetes Event to emit in addition to a write: best effort, never fails a sync. A repeated Event increments its count. */
export interface EventNote {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}
