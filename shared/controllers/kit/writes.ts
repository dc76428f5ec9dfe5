/**
 * What a sync wants done, as plain data that can be logged, compared in a test and replayed. A write names a template
 * (uid, generation, digest); it never holds one. `perform()` turns writes into calls; the gateway knows which of them each
 * controller may ever send (design.md, table of writes).
 */
import type { DeploymentStatus, ReplicaSetStatus, Labels } from "@deltaloop/kube/objects";

/** The object a sync runs for. */
export interface Owner {
  readonly resource: "replicasets" | "replicationcontrollers" | "deployments";
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** The template a decision saw. A create is only sent if the live owner still has this generation and digest. */
export interface TemplateRef {
  readonly generation: number;
  readonly digest: string;
}

/** The size a decision saw. A pod is only deleted if the live owner still has this generation and this many replicas. */
export interface SizeRef {
  readonly generation: number;
  readonly replicas: number;
}

/**
 * Annotations to copy from the owner as it stands live. No value is here, so the write can still be logged: `perform()`
 * takes the values of `keys` from the live owner, if its digests are still those that the decision saw.
 */
export interface CopiedAnnotations {
  readonly keys: readonly string[];
  /** All of the owner's digests, those of annotations that are in place already too. */
  readonly digests: Labels;
}

export type Write =
  | { readonly kind: "CreatePods"; readonly owner: Owner; readonly count: number; readonly template: TemplateRef }
  | {
      readonly kind: "DeletePod";
      readonly owner: Owner;
      readonly name: string;
      readonly uid: string;
      /** Of the pod that was chosen. */
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
      /** `<deployment>-<hash>`, cut as deployment §8.2 says. */
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
      /** Ends a request for a rollback: with the template and annotations of `to`, or without a change if there is none. */
      readonly kind: "RollBack";
      readonly owner: Owner;
      /** Of the object the decision read, or of our own last response to it. */
      readonly resourceVersion: string;
      /** Annotations by which the owner asks for it, and must do so still when it is read live. */
      readonly request: Labels;
      /** The owner's own, which `to` replaces. */
      readonly template: TemplateRef;
      /** The ReplicaSet that is gone back to, and its template's digest. */
      readonly to?: { readonly name: string; readonly uid: string; readonly digest: string };
    }
  | {
      readonly kind: "UpdateStatus";
      readonly owner: Owner;
      /** Of the object the decision read, or of our own last response to it. */
      readonly resourceVersion: string;
      readonly status: ReplicaSetStatus | DeploymentStatus;
      /** Counters that must vanish from the stored status: sent as `null`. */
      readonly absent: readonly string[];
      /** Deployments: the revision annotation travels with the status. */
      readonly annotations?: Labels;
    };

/** A Kubernetes Event to emit beside a write: best effort, counted where it was told before, never fails a sync. */
export interface EventNote {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}
