/** Random actions of users and nodes in a history, as plain data, so that each history can run twice. */
import { diceOf, type Dice } from "../dice.ts";
import { deploymentScript } from "./deployment-script.ts";
import { lossScript } from "./loss-script.ts";
import { raceScript } from "./race-script.ts";
import { replicaScript } from "./replica-script.ts";
import type { CachedResource, Controller } from "../../../shared/kube/objects/resources.ts";
import type { Fields, REFUSALS } from "../shared-api-server.ts";

export type Act =
  /** A user edits the spec of an object. */
  | { readonly kind: "spec"; readonly resource: CachedResource; readonly name: string; readonly change: Fields }
  | { readonly kind: "annotate"; readonly resource: CachedResource; readonly name: string; readonly annotations: Fields }
  /** All objects of the resource get an annotation. */
  | { readonly kind: "touch"; readonly resource: CachedResource; readonly note: string }
  | { readonly kind: "create"; readonly resource: CachedResource; readonly body: object }
  /** Another object takes the name of the Deployment's next ReplicaSet; then the Deployment is changed. */
  | { readonly kind: "collide"; readonly name: string; readonly change: Fields }
  /** `orphan`: a Deployment is deleted, but not its dependents; `orphaned`: the garbage collector has removed their owner references. */
  | { readonly kind: "orphan" | "orphaned"; readonly resource: CachedResource; readonly name: string }
  /** Binds this number of pods to a node and makes them Ready. */
  | { readonly kind: "ready"; readonly count: number }
  | { readonly kind: "unready" | "fail" | "remove" | "terminate" | "release"; readonly count: number }
  /** The node confirms the termination of pods that are being deleted. */
  | { readonly kind: "reap" }
  /** `stray`: creates a ready orphan pod that no selector matches. `match`: changes the labels of all such pods so that they match. */
  | { readonly kind: "stray" | "match" }
  /** Rejects requests of this kind: after the first `skip`, the next `times`. */
  | {
      readonly kind: "refuse";
      readonly verb: "create" | "change" | "delete";
      readonly resource: string;
      readonly refusal: keyof typeof REFUSALS;
      readonly skip: number;
      readonly times: number;
    }
  | { readonly kind: "heal" }
  /** `blind`: events of the resource are dropped. `see`: the watch ends, so that the resource is listed again. */
  | { readonly kind: "blind"; readonly resource: CachedResource }
  | { readonly kind: "see"; readonly resource: CachedResource }
  /** `discard`: deletes the newest ReplicaSet without its pods. `litter`: deletes those pods. */
  | { readonly kind: "discard" | "litter" }
  /** Deletes the newest pod without a node. */
  | { readonly kind: "snatch" };

export interface Script {
  readonly controllers: readonly Controller[];
  readonly begin: readonly { readonly resource: CachedResource; readonly body: object }[];
  /** The actions sorted by time, counted from the start of the history. */
  readonly acts: readonly (Act & { readonly atMs: number })[];
  readonly endMs: number;
  /** Additional delay of pod events in ms. */
  readonly podsLagMs: number;
  /** Delay in ms of the response to each of our writes; upstream's clock stands still meanwhile. */
  readonly answersLateMs?: number;
  /** Permitted time difference in ms: delayed doorbells are due at whole seconds, and events are batched for up to 100 ms. */
  readonly apartMs: number;
  /** The resync period; absent: no resync. */
  readonly resyncMs?: number;
  /** Time in ms from which on only the resync enqueues keys, at a random time. */
  readonly asleepFromMs?: number;
}

/**
 * Histories of a Deployment and its ReplicaSets; of a ReplicaSet or ReplicationController alone; of a Deployment whose events and wake-ups
 * are lost; of a ReplicaSet whose own writes race with their events.
 */
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
