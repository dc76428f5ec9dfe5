/** Reasons of a Deployment's sync (kit/reason.ts); the rules are those of docs/internals/spec/deployment.md. */
import type { Reason } from "../kit/reason.ts";

type None = Readonly<Record<never, never>>;
type Numbers<Names extends string> = Readonly<Record<Names, number>>;

/** Inputs of a rolling update: wanted and present sizes, and the surge. */
type Surge = Numbers<"replicas" | "maxSurge" | "total" | "size" | "to">;
/** One ReplicaSet that shrinks. */
type Cut = Numbers<"size" | "to">;

export type DeploymentReason =
  | Reason<"gone" | "selects everything" | "deployment ends", None>
  // §5.1.
  | Reason<"adopts" | "releases", { readonly selector: string; readonly labels: string }>
  // §4: the chosen branch.
  | Reason<"paused", None>
  | Reason<"asked to roll back", { readonly revision: string }>
  // §4.2: whether a ReplicaSet with replicas records another size of the Deployment.
  | Reason<"resized" | "not resized", Numbers<"replicas" | "remembered">>
  // §6, §8. `among`: ReplicaSets of the Deployment.
  | Reason<"template has a ReplicaSet" | "template has no ReplicaSet", Numbers<"among">>
  | Reason<
      "ReplicaSet behind",
      { readonly revision: string | undefined; readonly newest: string; readonly minReadySeconds: number; readonly its: number }
    >
  | Reason<"revision noted", { readonly revision: string; readonly its: string | undefined }>
  // §9: maxSurge or maxUnavailable, if it differs from `given`. `isRaised`: both were 0, which would block the rollout.
  | Reason<
      "in pods",
      {
        readonly field: "maxSurge" | "maxUnavailable";
        readonly given: number | string;
        readonly replicas: number;
        readonly pods: number;
        readonly isRaised: boolean;
      }
    >
  // §11.2: also the size of a ReplicaSet about to be created. `total`: size of all ReplicaSets together; `size`: size of this ReplicaSet.
  | Reason<"surge leaves room" | "surge is used up" | "has its size" | "is too large" | "has all at once", Surge>
  // §11.3.
  | Reason<"nothing old", None>
  | Reason<"old may go", Numbers<"total" | "replicas" | "maxUnavailable" | "newUnavailable" | "budget">>
  | Reason<"unavailable ones go", Cut & Numbers<"available" | "budget">>
  | Reason<"counts lie", Numbers<"size" | "available">>
  | Reason<"at the minimum" | "above the minimum", Numbers<"available" | "replicas" | "maxUnavailable" | "excess">>
  | Reason<"available ones go", Cut & Numbers<"excess">>
  | Reason<"newest by a live list is another", None>
  // §12. `by`: the status that reports pods, or a running pod.
  | Reason<"goes to 0", Numbers<"size">>
  | Reason<"old pods live", { readonly by: "status" | "pod"; readonly shows: number | string }>
  // §10.
  | Reason<"takes all", Numbers<"size" | "replicas">>
  | Reason<"saturated", Numbers<"replicas" | "available">>
  | Reason<"sizes stay", None>
  | Reason<"its share", Cut & Numbers<"replicas" | "maxSurge" | "total" | "toAdd">>
  // §14. `is`: why the ReplicaSet stays.
  | Reason<"history limit", Numbers<"limit" | "old" | "excess">>
  | Reason<"is history", { readonly revision: string | undefined }>
  | Reason<"is kept", { readonly is: "wanted" | "populated" | "unseen" }>
  // §15.1.
  | Reason<"rolls back" | "rollback finds nothing" | "rollback changes nothing", { readonly revision: string }>
  // §13.
  | Reason<
      "availability",
      { readonly available: number; readonly replicas: number; readonly maxUnavailable: number; readonly isEnough: boolean }
    >
  | Reason<
      "progress",
      {
        readonly verdict: "complete" | "moves" | "timed out" | "waits" | "settled" | "no deadline";
        readonly replicas: number;
        readonly total: number;
        readonly updated: number;
        readonly available: number;
        readonly deadlineSeconds: number | undefined;
        readonly since: string | undefined;
        readonly differs: boolean;
      }
    >
  // §13.5. `said`: the reason of the Progressing condition.
  | Reason<"pause noted", { readonly paused: boolean; readonly said: string | undefined }>
  | Reason<"looks at the deadline", { readonly afterMs: number; readonly deadlineSeconds: number; readonly since: string | undefined }>
  | Reason<"history at once", None>;
