/** The reasons of a ReplicaSet's sync (kit/reason.ts); the rules are those of docs/internals/spec/replicaset.md. */
import type { ListReason } from "../kit/decision-basis.ts";
import type { Reason } from "../kit/reason.ts";

/** The criteria that rank pods for deletion (§8), in their order. */
export type VictimRule =
  | "no node"
  | "phase"
  | "not ready"
  | "deletion cost"
  | "pods on its node"
  | "ready since"
  | "ready about as long"
  | "restarts"
  | "sidecar restarts"
  | "created"
  | "about as old"
  | "uid";

/** Owner's `spec.replicas`, and the pods that count. */
type Size = Readonly<Record<"replicas" | "pods", number>>;

type Compared = Readonly<{ by: VictimRule; its: string; others: string }>;

type None = Readonly<Record<never, never>>;

export type ReplicaReason =
  | Reason<"gone", None>
  | Reason<"invalid selector", { readonly message: string }>
  // §6.
  | Reason<"adopts" | "releases", { readonly selector: string; readonly labels: string }>
  // §18.
  | Reason<"lists first" | "listed just now", { readonly why: ListReason }>
  // §18. A create from before the cache was listed again may still be executed, under a name that the Store does not know.
  | Reason<"calls may be late", { readonly afterMs: number }>
  // §7. `pending`: number of calls of earlier runs that got no response.
  | Reason<"waits for calls", { readonly pending: number }>
  | Reason<"owner ends", None>
  | Reason<"as many as wanted", Size>
  // Pods are missing; one sync creates at most `burst`.
  | Reason<"too few", Size & { readonly burst: number; readonly create: number }>
  | Reason<"too many", Size & { readonly burst: number; readonly remove: number }>
  // §7. An earlier delete of this pod got no response.
  | Reason<"deletes again", None>
  // §8. `its` and `others`: the compared values of this pod and of `survivor`, the first pod that stays.
  | Reason<"goes first", Compared & { readonly survivor: string }>
  // §8. Compares with `victim`, the last deleted pod. `pods`: the number of pods that the rule keeps; this is the first of them.
  | Reason<"stays", Compared & { readonly victim: string; readonly pods: number }>
  // §10.
  | Reason<
      "counts",
      {
        readonly pods: number;
        readonly fullyLabeled: number;
        readonly ready: number;
        readonly available: number;
        readonly terminating: number | undefined;
        readonly minReadySeconds: number;
        readonly generation: number;
        /** Whether the status differs from the stored status and must be written. */
        readonly differs: boolean;
      }
    >
  // §10.2. `reason` and `since` are the condition's.
  | Reason<"failed before" | "fails no more", { readonly reason: string | undefined; readonly since: string | undefined }>
  // §11.
  | Reason<
      "becomes available",
      { readonly afterMs: number; readonly ready: number; readonly available: number; readonly minReadySeconds: number }
    >;
