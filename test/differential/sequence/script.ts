/** The actions of users and nodes in a history, at random: plain data, so that it can run twice. */
import { diceOf, type Dice } from "../dice.ts";
import { deploymentScript } from "./deployment-script.ts";
import { lossScript } from "./loss-script.ts";
import { raceScript } from "./race-script.ts";
import { replicaScript } from "./replica-script.ts";
import type { CachedResource, Controller } from "../../../shared/kube/objects/resources.ts";
import type { Fields, REFUSALS } from "../shared-api-server.ts";

export type Act =
  /** Somebody edits. */
  | { readonly kind: "spec"; readonly resource: CachedResource; readonly name: string; readonly change: Fields }
  | { readonly kind: "annotate"; readonly resource: CachedResource; readonly name: string; readonly annotations: Fields }
  /** All of them get an annotation. */
  | { readonly kind: "touch"; readonly resource: CachedResource; readonly note: string }
  | { readonly kind: "create"; readonly resource: CachedResource; readonly body: object }
  /** The name that the next ReplicaSet of that Deployment would get is taken; then it is changed so. */
  | { readonly kind: "collide"; readonly name: string; readonly change: Fields }
  /** A Deployment is deleted, but not what it owns; and then the garbage collector has done its part. */
  | { readonly kind: "orphan" | "orphaned"; readonly resource: CachedResource; readonly name: string }
  /** This number of pods get a node and become Ready. */
  | { readonly kind: "ready"; readonly count: number }
  | { readonly kind: "unready" | "fail" | "remove" | "terminate" | "release"; readonly count: number }
  /** Of pods that are being deleted the node says that they have gone. */
  | { readonly kind: "reap" }
  /** A ready pod that is nobody's and matches nothing; and then all such pods match. */
  | { readonly kind: "stray" | "match" }
  /** Requests of that kind are refused, `times` of them after `skip`. */
  | {
      readonly kind: "refuse";
      readonly verb: "create" | "change" | "delete";
      readonly resource: string;
      readonly refusal: keyof typeof REFUSALS;
      readonly skip: number;
      readonly times: number;
    }
  | { readonly kind: "heal" }
  /** News of these are lost; and then their watch ends, so that they are listed. */
  | { readonly kind: "blind"; readonly resource: CachedResource }
  | { readonly kind: "see"; readonly resource: CachedResource }
  /** The newest ReplicaSet is deleted, its pods are not; and then pods whose owner is gone. */
  | { readonly kind: "discard" | "litter" }
  /** The newest pod that has no node is deleted. */
  | { readonly kind: "snatch" };

export interface Script {
  readonly controllers: readonly Controller[];
  readonly begin: readonly { readonly resource: CachedResource; readonly body: object }[];
  /** In the order of their times, which count from the beginning. */
  readonly acts: readonly (Act & { readonly atMs: number })[];
  readonly endMs: number;
  /** How much later than everything else news of pods comes. */
  readonly podsLagMs: number;
  /** How much later than the deed ours has the answer to a write; upstream's time stands still for it. */
  readonly answersLateMs?: number;
  /** How far apart the two may be: a doorbell that waits comes at a whole second, and the news that ring one linger for up to 100 ms. */
  readonly apartMs: number;
  /** How often all is looked at though nothing happened; never, if absent. */
  readonly resyncMs?: number;
  /** From then on only that brings anything about, and when it does is chance. */
  readonly asleepFromMs?: number;
}

/** Of a Deployment and its ReplicaSets; of a ReplicaSet or ReplicationController alone; of a Deployment whose news and wake-ups are
 * lost; of a ReplicaSet whose own writes are overtaken. */
export type Life = (typeof LIVES)[number];
export const LIVES = ["deployment", "replicas", "losses", "races"] as const;

const SCRIPTS: Readonly<Record<Life, (dice: Dice) => Script>> = {
  deployment: deploymentScript,
  replicas: replicaScript,
  losses: lossScript,
  races: raceScript,
};

export function scriptOf(life: Life, seed: number): Script {
  const dice = diceOf(seed);
  return SCRIPTS[life](dice);
}
