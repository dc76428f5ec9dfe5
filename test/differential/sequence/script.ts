/** The actions of users and nodes in a history, at random: plain data, so that it can run twice. */
import { diceOf, type Dice } from "../dice.ts";
import { deploymentScript } from "./deployment-script.ts";
import { lossScript } from "./loss-script.ts";
import { raceScript } from "./race-script.ts";
import { replicaScript } from "./replica-script.ts";
import type { CachedResource, Controller } from "../../../shared/kube/objects/resources.ts";
import type { Fields, REFUSALS } from "../shared-api-server.ts";

export type Act =
  /** A user edits an object. */
  | { readonly kind: "spec"; readonly resource: CachedResource; readonly name: string; readonly change: Fields }
  | { readonly kind: "annotate"; readonly resource: CachedResource; readonly name: string; readonly annotations: Fields }
  /** All objects of the resource get an annotation. */
  | { readonly kind: "touch"; readonly resource: CachedResource; readonly note: string }
  | { readonly kind: "create"; readonly resource: CachedResource; readonly body: object }
  /** The name of the Deployment's next ReplicaSet is taken; then the Deployment is changed. */
  | { readonly kind: "collide"; readonly name: string; readonly change: Fields }
  /** `orphan`: a Deployment is deleted, but not its dependents; `orphaned`: the garbage collector has removed their owner references. */
  | { readonly kind: "orphan" | "orphaned"; readonly resource: CachedResource; readonly name: string }
  /** This many pods are bound to a node and become Ready. */
  | { readonly kind: "ready"; readonly count: number }
  | { readonly kind: "unready" | "fail" | "remove" | "terminate" | "release"; readonly count: number }
  /** The node confirms the termination of pods that are being deleted. */
  | { readonly kind: "reap" }
  /** `stray`: a ready orphan pod that no selector matches; `match`: all such pods match. */
  | { readonly kind: "stray" | "match" }
  /** Requests of that kind are rejected, `times` of them after the first `skip`. */
  | {
      readonly kind: "refuse";
      readonly verb: "create" | "change" | "delete";
      readonly resource: string;
      readonly refusal: keyof typeof REFUSALS;
      readonly skip: number;
      readonly times: number;
    }
  | { readonly kind: "heal" }
  /** `blind`: events of the resource are lost; `see`: its watch ends, so it is listed again. */
  | { readonly kind: "blind"; readonly resource: CachedResource }
  | { readonly kind: "see"; readonly resource: CachedResource }
  /** `discard`: the newest ReplicaSet is deleted without its pods; `litter`: its pods are deleted. */
  | { readonly kind: "discard" | "litter" }
  /** The newest pod without a node is deleted. */
  | { readonly kind: "snatch" };

export interface Script {
  readonly controllers: readonly Controller[];
  readonly begin: readonly { readonly resource: CachedResource; readonly body: object }[];
  /** Sorted by time; times count from the start of the history. */
  readonly acts: readonly (Act & { readonly atMs: number })[];
  readonly endMs: number;
  /** Additional delay of pod events. */
  readonly podsLagMs: number;
  /** How long after a write ours gets its response; upstream's time stands still meanwhile. */
  readonly answersLateMs?: number;
  /** Allowed time difference: delayed doorbells are due at whole seconds, and events are batched for up to 100 ms. */
  readonly apartMs: number;
  /** The resync period; absent: no resync. */
  readonly resyncMs?: number;
  /** From this time on, only the resync enqueues keys, and its time is random. */
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
