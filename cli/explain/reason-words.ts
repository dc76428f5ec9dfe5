/** The text of each reason for a decision, and the section that specifies its rule. */
import type { DeploymentReason } from "@deltaloop/controllers/deployment";
import type { ReplicaReason } from "@deltaloop/controllers/replicaset";
import type { Reason } from "@deltaloop/controllers/kit";
import type { Controller } from "@deltaloop/kube/objects";
import { counted } from "../output/counted.ts";

export type KnownReason = ReplicaReason | DeploymentReason;

/** The reasons with that rule, even if their type has several rules. */
type Of<Rule extends KnownReason["rule"], R extends KnownReason = KnownReason> = R extends unknown
  ? Rule extends R["rule"]
    ? R
    : never
  : never;

interface Entry<Rule extends KnownReason["rule"]> {
  /** A section of docs/internals/spec/<controller>.md; two if controllers share the rule, ReplicaSets' first. */
  readonly section: string | readonly [replicaSet: string, deployment: string];
  readonly words: (facts: Of<Rule>["facts"], about: string) => string;
}

/** Returns a reason as text without a full stop, for use in a list. */
export function reasonInWords({ rule, facts, about = "" }: Reason): string {
  if (!Object.hasOwn(WORDS, rule)) return rule;
  const { words } = WORDS[rule as KnownReason["rule"]]; // checked above
  return words(facts as never, about); // the rule's own facts
}

/** `deployment §11.3`; undefined for an unknown rule. */
export function sectionOf(controller: Controller, { rule }: Pick<Reason, "rule">): string | undefined {
  if (!Object.hasOwn(WORDS, rule)) return undefined;
  const { section } = WORDS[rule as KnownReason["rule"]]; // checked above
  const spec = controller === "deployment" ? "deployment" : "replicaset";
  return `${spec} §${typeof section === "string" ? section : section[spec === "deployment" ? 1 : 0]}`;
}

/** Why a sync has nothing to do, derived from reasons that earlier syncs may have printed. */
export function idleInWords(reasons: readonly Reason[]): readonly string[] {
  return reasons.flatMap(({ rule, facts }) => {
    if (!Object.hasOwn(IDLE, rule)) return [];
    const words = IDLE[rule as keyof typeof IDLE]; // checked above
    return words(facts as never) ?? []; // the rule's own facts
  });
}

const IDLE = {
  "waits for calls": () => "calls of earlier syncs have no response yet",
  paused: () => "it is paused",
  "as many as wanted": ({ replicas }) => `it has the desired number of pods (${replicas})`,
  "has its size": ({ size }) => `its new ReplicaSet has spec.replicas ${size}, all that are desired`,
  "surge is used up": () => "the surge is used up",
  "nothing old": () => "no old ReplicaSet has replicas",
  "old may go": ({ budget }) => (budget > 0 ? undefined : "no old pod may be deleted"),
  "at the minimum": () => "no available pod may be deleted",
  "counts lie": () => "the status of an old ReplicaSet lags behind",
  "old pods live": () => "old pods still exist",
  counts: statusIdle,
  progress: statusIdle,
} satisfies { readonly [Rule in KnownReason["rule"]]?: (facts: Of<Rule>["facts"]) => string | undefined };

function statusIdle({ differs }: { readonly differs: boolean }): string | undefined {
  return differs ? undefined : "its status is up to date";
}

const WORDS: { readonly [Rule in KnownReason["rule"]]: Entry<Rule> } = {
  gone: { section: ["5", "4"], words: () => "it was deleted, so there is nothing to do" },
  "invalid selector": { section: "5", words: ({ message }) => `its selector is invalid: ${message}` },
  adopts: {
    section: ["6", "5.1"],
    words: ({ selector, labels }, about) => `${about} has no owner, and its labels ${labels} match the selector ${selector}`,
  },
  releases: {
    section: ["6", "5.1"],
    words: ({ selector, labels }, about) => `the labels of ${about} (${labels}) no longer match the selector ${selector}`,
  },
  "lists first": {
    section: "18",
    words: ({ why }) => `its pods are listed before anything is created or deleted (${why})`,
  },
  "listed just now": {
    section: "18",
    words: ({ why }) => `its pods were listed less than 5 s ago, so nothing is created or deleted now (${why})`,
  },
  "calls may be late": {
    section: "18",
    words: ({ afterMs }) =>
      `an earlier create that the cache does not know may still be executed for ${seconds(afterMs)}, so nothing is created now`,
  },
  "waits for calls": {
    section: "4.4",
    words: ({ pending }) =>
      `${counted(pending, "call")} of earlier syncs ${pending === 1 ? "has" : "have"} no response yet, so nothing is created or deleted`,
  },
  "owner ends": { section: "7", words: () => "it is being deleted, so nothing is created or deleted" },
  "as many as wanted": { section: "7", words: ({ replicas, pods }) => `${replicas} desired, ${pods} ${pods === 1 ? "exists" : "exist"}` },
  "too few": {
    section: "7",
    words: ({ replicas, pods, burst, create }) =>
      `${replicas} desired, ${pods} ${pods === 1 ? "exists" : "exist"}: ${replicas - pods} to create${create < replicas - pods ? `, at most ${burst} at once` : ""}`,
  },
  "too many": {
    section: "7",
    words: ({ replicas, pods, burst, remove }) =>
      `${replicas} desired, ${pods} ${pods === 1 ? "exists" : "exist"}: ${pods - replicas} to delete${remove < pods - replicas ? `, at most ${burst} at once` : ""}`,
  },
  "deletes again": { section: "7", words: (_, about) => `${about} is deleted again: an earlier delete got no response` },
  "goes first": {
    section: "8",
    words: ({ by, its, others, survivor }, about) => `${about} is deleted before ${survivor}: ${RANKS[by](its, others, true)}`,
  },
  stays: {
    section: "8",
    words: ({ by, its, others, victim, pods }, about) =>
      `${about}${pods > 1 ? ` and ${pods - 1} more are kept` : " is kept"}, and ${victim} is deleted: ${RANKS[by](its, others, false)}`,
  },
  counts: {
    section: "10",
    words: ({ pods, ready, available, terminating, differs }) =>
      `of ${counted(pods, "pod")} ${ready} ${are(ready)} ready and ${available} available${terminating ? `, ${terminating} more ${are(terminating)} terminating` : ""}: its status is ${differs ? "not up to date yet" : "up to date"}`,
  },
  "failed before": {
    section: "10.2",
    words: ({ reason = "", since = "an unknown time" }) =>
      `an earlier attempt failed (${reason === "" ? "without a reason" : reason}, in its status since ${since} and until an attempt succeeds)`,
  },
  "fails no more": {
    section: "10.2",
    words: ({ reason = "", since = "an unknown time" }) =>
      `no write fails any more, so the condition is removed (${reason === "" ? "without a reason" : reason}, since ${since})`,
  },
  "becomes available": {
    section: "11",
    words: ({ afterMs, ready, available, minReadySeconds }) =>
      `${counted(ready - available, "ready pod")} ${are(ready - available)} not available yet (minReadySeconds ${minReadySeconds}): requeued after ${seconds(afterMs)}`,
  },
  "selects everything": { section: "4", words: () => "its selector is empty and would select every pod, so nothing is done" },
  "deployment ends": { section: "4", words: () => "it is being deleted: only its status is updated" },
  paused: { section: "4.1", words: () => "it is paused: ReplicaSets are scaled, but the rollout does not proceed" },
  "asked to roll back": {
    section: "15.1",
    words: ({ revision }) => `an annotation requests a rollback to ${revision === "0" ? "the last revision" : `revision ${revision}`}`,
  },
  resized: {
    section: "4.2",
    words: ({ replicas, remembered }, about) =>
      `spec.replicas is ${replicas}, and ${about} was sized when it was ${remembered}: ReplicaSets are scaled before the rollout proceeds`,
  },
  "not resized": {
    section: "4.2",
    words: ({ replicas, remembered }) =>
      `spec.replicas is ${replicas}, and its ReplicaSets were sized when it was ${remembered}: no resize`,
  },
  "template has a ReplicaSet": {
    section: "6",
    words: ({ among }, about) => `${about} has its template${among > 1 ? `, of ${counted(among, "ReplicaSet")}` : ""}`,
  },
  "template has no ReplicaSet": {
    section: "6",
    words: ({ among }) =>
      among === 0
        ? "it has no ReplicaSet yet"
        : among === 1
          ? "its only ReplicaSet has another template"
          : `none of its ${among} ReplicaSets has its template`,
  },
  "ReplicaSet behind": {
    section: "8.1",
    words: ({ revision = "none", newest, minReadySeconds, its }, about) =>
      `${about} has revision ${revision}, the next is ${newest}${its === minReadySeconds ? "" : `; it has minReadySeconds ${its}, desired ${minReadySeconds}`}; annotations and minReadySeconds are copied from the Deployment`,
  },
  "revision noted": {
    section: "8.1",
    words: ({ revision, its = "none" }, about) =>
      its === revision ? `${about} was found, and no condition records it` : `${about} has revision ${revision}, the Deployment ${its}`,
  },
  "in pods": {
    section: "9",
    words: ({ field, given, replicas, pods, isRaised }) =>
      isRaised
        ? `maxSurge and maxUnavailable (${given} of ${replicas}) both come to 0 pods, so the rollout could not proceed: ${counted(pods, "pod")} may be unavailable`
        : `${field} ${given} of ${counted(replicas, "pod")} ${typeof given === "string" ? `is rounded ${field === "maxSurge" ? "up" : "down"} to` : "comes to"} ${pods}`,
  },
  "surge leaves room": {
    section: "11.2",
    words: ({ replicas, maxSurge, total, size, to }, about) =>
      `the sum of spec.replicas may be ${replicas + maxSurge} (${replicas} desired + surge ${maxSurge}) and is ${total}: ${about} is scaled from ${size} to ${to}`,
  },
  "surge is used up": {
    section: "11.2",
    words: ({ replicas, maxSurge, total, size }, about) =>
      `the sum of spec.replicas may be ${replicas + maxSurge} (${replicas} desired + surge ${maxSurge}) and is ${total}: ${about} stays at ${size}`,
  },
  "has its size": { section: "11.1", words: ({ size }, about) => `${about} has spec.replicas ${size}, all that are desired` },
  "is too large": {
    section: "11.1",
    words: ({ size, to }, about) => `${about} has spec.replicas ${size}, ${to} desired`,
  },
  "has all at once": {
    section: "11.2",
    words: ({ to }, about) => `with strategy Recreate ${about} gets all ${counted(to, "replica")} at once`,
  },
  "nothing old": { section: "11.3", words: () => "no old ReplicaSet has replicas" },
  "old may go": {
    section: "11.3",
    words: ({ total, replicas, maxUnavailable, newUnavailable, budget }) =>
      `the sum of spec.replicas is ${total}, less the ${replicas - maxUnavailable} that must be available (${replicas} − ${maxUnavailable}), less ${newUnavailable} new ones that are not: ${budget > 0 ? `${counted(budget, "old pod")} may be deleted` : "no old pod may be deleted"}`,
  },
  "unavailable ones go": {
    section: "11.3",
    words: ({ size, available, to }, about) =>
      `${about} has spec.replicas ${size}, ${available} ${are(available)} available: it is scaled to ${to}`,
  },
  "counts lie": {
    section: "11.3",
    words: ({ size, available }, about) =>
      `${about} reports ${available} available, more than its spec.replicas ${size}: its controller has not caught up yet, so nothing more is scaled down`,
  },
  "at the minimum": {
    section: "11.3",
    words: ({ available, replicas, maxUnavailable }) =>
      `${available} ${are(available)} available and ${replicas - maxUnavailable} must be (${replicas} − ${maxUnavailable}): no available pod may be deleted`,
  },
  "above the minimum": {
    section: "11.3",
    words: ({ available, replicas, maxUnavailable, excess }) =>
      `${available} ${are(available)} available and ${replicas - maxUnavailable} must be (${replicas} − ${maxUnavailable}): ${excess} may be deleted`,
  },
  "available ones go": { section: "11.3", words: ({ size, to }, about) => `${about} is old: it is scaled from ${size} to ${to}` },
  "newest by a live list is another": {
    section: "11.3",
    words: () => "the live list and the cache disagree on which ReplicaSet is the newest: no further scale-down in this sync",
  },
  "goes to 0": { section: ["7", "12"], words: ({ size }, about) => `${about} is old: it is scaled from ${size} to 0` },
  "old pods live": {
    section: "12",
    words: ({ by, shows }, about) =>
      by === "status"
        ? `the old ReplicaSet ${about} still reports ${shows} pods: no new pod is created`
        : `the old pod ${about} still exists (${shows}): no new pod is created`,
  },
  "takes all": {
    section: "10",
    words: ({ size, replicas }, about) =>
      size === replicas
        ? `${about} is the only one with replicas and has the desired ${size}`
        : `${about} is the only ReplicaSet to scale: ${size} → ${replicas}`,
  },
  saturated: {
    section: "10",
    words: ({ replicas, available }, about) =>
      `${about} has spec.replicas ${replicas}, all that are desired, and ${available} ${are(available)} available: the others are scaled to 0`,
  },
  "sizes stay": { section: "10", words: () => "more than one ReplicaSet has replicas, and Recreate does not scale them proportionally" },
  "its share": {
    section: "10.1",
    words: ({ replicas, maxSurge, total, toAdd, size, to }, about) => {
      const moves = toAdd === 0 ? "none is added" : `${Math.abs(toAdd)} ${toAdd < 0 ? "are removed" : "are added"}, proportionally`;
      return `${replicas + maxSurge} pods are allowed (${replicas} + surge ${maxSurge}) and the sum of spec.replicas is ${total}, so ${moves}: ${about}, with ${size} of the ${total}, ${size === to ? "stays" : `is scaled to ${to}`}`;
    },
  },
  "history limit": {
    section: "14",
    words: ({ limit, old, excess }) =>
      `${counted(old, "old ReplicaSet")} where revisionHistoryLimit keeps ${limit}: ${excess === 0 ? "none is deleted" : `${excess} too many`}`,
  },
  "is history": { section: "14", words: ({ revision = "unknown" }, about) => `${about} (revision ${revision}) is the oldest without pods` },
  "is kept": { section: "14", words: ({ is }, about) => `${about} is kept: ${KEPT[is]}` },
  "rolls back": {
    section: "15.1",
    words: ({ revision }, about) => `revision ${revision} is ${about}: its template is copied to the Deployment`,
  },
  "rollback finds nothing": {
    section: "15.1",
    words: ({ revision }) => (revision === "0" ? "there is no last revision" : `no ReplicaSet has revision ${revision}`),
  },
  "rollback changes nothing": {
    section: "15.1",
    words: ({ revision }, about) => `revision ${revision} is ${about}, which has the Deployment's template already`,
  },
  availability: {
    section: "13.1",
    words: ({ available, replicas, maxUnavailable, isEnough }) =>
      `${available} ${are(available)} available and ${replicas - maxUnavailable} must be (${replicas} − ${maxUnavailable}): ${isEnough ? "" : "not "}enough`,
  },
  progress: {
    section: "13.3",
    words: ({ verdict, replicas, total, updated, available, deadlineSeconds, since, differs }) =>
      `${updated} of ${counted(replicas, "pod")} ${are(updated)} updated, ${total} in total, ${available} available: ${VERDICTS[verdict](deadlineSeconds ?? 0, since ?? "an unknown time")}; its status is ${differs ? "not up to date yet" : "up to date"}`,
  },
  "pause noted": {
    section: "13.5",
    words: ({ paused, said = "nothing" }) =>
      `it is ${paused ? "paused" : "resumed"}, and the reason of its Progressing condition is ${said}`,
  },
  "looks at the deadline": {
    section: "13.4",
    words: ({ afterMs, deadlineSeconds, since = "an unknown time" }) =>
      `it has ${deadlineSeconds} s from ${since} to make progress: requeued after ${seconds(afterMs)}`,
  },
  "history at once": { section: "14", words: () => "the rollout is complete and the history is too long: requeued at once" },
};

const RANKS: { readonly [By in Of<"goes first">["facts"]["by"]]: (its: string, others: string, goes: boolean) => string } = {
  "no node": (_its, _others, goes) => (goes ? "it is not assigned to a node" : "it is assigned to a node, the other is not"),
  phase: (its, others) => `it is ${its}, not ${others}`,
  "not ready": (_its, _others, goes) => (goes ? "it is not ready" : "it is ready, the other is not"),
  "deletion cost": (its, others) => `its pod-deletion-cost is ${its}, the other's ${others}`,
  "pods on its node": (its, others) => `its node has ${counted(Number(its), "pod")} of this controller, the other's ${others}`,
  "ready since": (its, others, goes) => `it has been ready ${goes ? "only " : ""}since ${its}, the other since ${others}`,
  "ready about as long": (its, others, goes) =>
    `they have been ready for about the same time (since ${its} and ${others}; times are compared on a log₂ scale), and its uid is ${goes ? "lower" : "higher"}`,
  restarts: (its, others) => `it has restarted ${its} times, the other ${others}`,
  "sidecar restarts": (its, others) => `its sidecars have restarted ${its} times, the other's ${others}`,
  created: (its, others, goes) => `it was created ${goes ? "only " : ""}at ${its}, the other at ${others}`,
  "about as old": (its, others, goes) =>
    `they are about the same age (created at ${its} and ${others}; ages are compared on a log₂ scale), and its uid is ${goes ? "lower" : "higher"}`,
  uid: (_its, _others, goes) => `they rank equal, and its uid is ${goes ? "lower" : "higher"}`,
};

const KEPT: { readonly [Is in Of<"is kept">["facts"]["is"]]: string } = {
  populated: "it still has pods",
  wanted: "its spec.replicas is not 0",
  unseen: "its controller has not observed its last change",
};

const VERDICTS: { readonly [V in Of<"progress">["facts"]["verdict"]]: (deadlineSeconds: number, since: string) => string } = {
  complete: () => "the rollout is complete",
  moves: () => "the rollout progresses",
  "timed out": (deadlineSeconds, since) => `no progress since ${since}, longer than progressDeadlineSeconds ${deadlineSeconds}`,
  waits: (deadlineSeconds, since) => `no progress since ${since}, within progressDeadlineSeconds ${deadlineSeconds}`,
  settled: () => "the rollout has ended, and its progress is not evaluated again",
  "no deadline": () => "it has no progressDeadlineSeconds, so its progress is not evaluated",
};

function are(n: number): string {
  return n === 1 ? "is" : "are";
}

function seconds(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
