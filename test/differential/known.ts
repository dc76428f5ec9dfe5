/** Permitted differences and their reasons; every other difference is a bug, here or in our understanding of upstream. */
import type { KubeObject, Pod } from "../../shared/kube/objects/wire.ts";
import type { Fields, State } from "./shared-api-server.ts";
import { isActive } from "../simulation/mirror.ts";
import type { Outcome } from "./outcome.ts";

/** The fields of a ReplicaSet's status. */
type Counted = KubeObject & { readonly spec?: Fields; readonly status?: Fields };

interface Known {
  readonly name: string;
  readonly why: string;
  /** Returns whether this is the only difference between the outcomes. */
  is(upstream: Outcome, ours: Outcome, observed: State): boolean;
}

export const KNOWN: readonly Known[] = [
  {
    name: "a requeue just before the progress deadline [deployment Q10]",
    why: "less than a second before the progress deadline, upstream requeues the key immediately and repeatedly; ours waits for the deadline",
    is: (upstream, ours) => sameWork(upstream, ours) && afterMs(upstream) === 0 && afterMs(ours) > 0 && afterMs(ours) <= 1_000,
  },
  {
    name: "no requeue without a deadline [deployment S20]",
    why: "with reason NewReplicaSetAvailable no deadline can pass, so ours does not requeue",
    is: (upstream, ours) => sameWork(upstream, ours) && upstream.ending.startsWith("again") && ours.ending === "done",
  },
  {
    name: "a requeue that an event replaces",
    why: "a ReplicaSet was written or replaced, so its event enqueues the key; other requeues are not compared",
    is: (upstream, ours) =>
      sameWork(upstream, ours) && !isError(upstream) && !isError(ours) && upstream.writes.some((write) => /^\w+ replicasets /.test(write)),
  },
  {
    name: "an additional sync",
    why: "ours syncs once more after a rollout has become complete, for the clean-up that waits for old pods with Recreate",
    is: (upstream, ours) => sameWork(upstream, ours) && upstream.ending === "done" && ours.ending === "again after 0 ms",
  },
  {
    name: "an ignored error",
    why: "while old ReplicaSets are scaled down, upstream ignores every error; ours ignores those that an event follows (deployment §11.3)",
    is: (upstream, ours) =>
      sameWork(upstream, ours) &&
      !isError(upstream) &&
      isError(ours) &&
      upstream.writes.some((write) => /^change replicasets [^ ]+ (403|422|5\d\d) \(refused\)/.test(write)),
  },
  {
    name: "a status write to a deleted object",
    why: "404 for the controller's own status write: the object is deleted, so nothing is left to do",
    is: (upstream, ours) => {
      const [a, b] = [new Set(upstream.writes), new Set(ours.writes)];
      const isGone = upstream.writes.some((write) => /^change \w+\/status [^ ]+ 404/.test(write));
      return isGone && same([...a], [...b]) && same(upstream.events, ours.events) && isError(upstream) && ours.ending === "done";
    },
  },
  {
    name: "more available pods than replicas",
    why: "with more available pods than replicas, ours scales down less than upstream: it computes the budget again before it removes available pods (shared/controllers/deployment, decision 4)",
    is: (upstream, ours, { replicasets }) =>
      replicasets.some(
        (rs) => Number((rs as Counted).status?.["availableReplicas"] ?? 0) > Number((rs as Counted).spec?.["replicas"] ?? 1),
      ) &&
      isError(upstream) === isError(ours) &&
      same(
        upstream.writes.filter((line) => !isShrinking(line) || ours.writes.includes(line)),
        ours.writes,
      ) &&
      same(
        upstream.events.filter((line) => !line.includes("Scaled down replica set") || ours.events.includes(line)),
        ours.events,
      ),
  },
  {
    name: "a ReplicaSet that the same sync has scaled up",
    why: "upstream deletes an old ReplicaSet that the same sync has scaled up, because it reads its cache; ours uses the response (DS1)",
    is: (upstream, ours) => {
      const grown = (name: string): boolean =>
        upstream.writes.some((line) => line.startsWith(`change replicasets ${name} 200 `) && /spec\.replicas \d+ -> [1-9]/.test(line));
      const kept = upstream.writes.filter((line) => !grown(/^delete replicasets ([^ ]+) 200$/.exec(line)?.[1] ?? ""));
      return (
        kept.length < upstream.writes.length &&
        same(kept, ours.writes) &&
        same(upstream.events, ours.events) &&
        isError(upstream) === isError(ours)
      );
    },
  },
  {
    name: "pods of equal rank",
    why: "among pods with equal rank, upstream deletes the first in its list, ours the one with the lower uid (shared/controllers/replicaset/pods-to-delete.ts)",
    is: (upstream, ours, observed) => {
      const [a, b] = [upstream, ours].map((outcome) => withoutTies(outcome, observed));
      return (
        a !== undefined &&
        b !== undefined &&
        upstream.writes.some((write) => write.startsWith("delete pods")) &&
        sameWork(a, b) &&
        upstream.ending === ours.ending
      );
    },
  },
  {
    name: "a cycle in the ranking of pods",
    why: "ages are compared by their order of magnitude, so three ready pods, two of them ready since the same time, can form a cycle in the ranking: upstream deletes the first in its list, ours sorts by uid first",
    is: (upstream, ours, observed) => {
      const since = (line: string): string => line.replace(/, ready "[^"]+", /, ", ready, ");
      const [a, b] = [upstream, ours].map((outcome) => {
        const { writes, events, ...rest } = withoutTies(outcome, observed);
        return { ...rest, writes: writes.map(since).toSorted(), events: events.map(since).toSorted() };
      });
      const swapped = upstream.writes.filter((line) => line.startsWith("delete pods") && !ours.writes.includes(line));
      return (
        a !== undefined &&
        b !== undefined &&
        sameWork(a, b) &&
        upstream.ending === ours.ending &&
        swapped.length === 1 &&
        [...swapped, ...ours.writes].some((line) => isShared(readySince(line), observed.pods))
      );
    },
  },
  {
    name: "a ReplicaSet changed before its delete",
    why: "ours deletes with a precondition: if the ReplicaSet has changed, its delete is rejected, its event enqueues the key, and the others are deleted. Upstream's delete has no precondition, and the first rejection ends its sync",
    is: (upstream, ours) =>
      /^delete replicasets [^ ]+ 409/.test(upstream.writes.at(-1) ?? "") &&
      same(upstream.writes, ours.writes.slice(0, upstream.writes.length)) &&
      ours.writes.slice(upstream.writes.length).every((line) => line.startsWith("delete replicasets ")) &&
      same(upstream.events, ours.events) &&
      isError(upstream) &&
      !isError(ours),
  },
  {
    name: "a retried pod request",
    why: "ours immediately retries a pod create or delete that was answered 5xx (replicaset 127); upstream's sync ends",
    is: (upstream, ours) => {
      const unanswered = /^(?:delete pods .*|create pods NEW) 5\d\d \(refused\)/;
      const twice = upstream.writes.flatMap((line) => (unanswered.test(line) ? [line, line] : [line]));
      return (
        twice.length > upstream.writes.length &&
        same(twice.toSorted(), ours.writes.toSorted()) &&
        same(upstream.events, ours.events) &&
        upstream.ending === ours.ending
      );
    },
  },
  {
    name: "the name of a released ReplicaSet [deployment S2]",
    why: "the name of the new ReplicaSet is taken by one that was just released: upstream's cache still lists it as owned, ours reads it live",
    is: ({ writes, events }, ours) => {
      const at = writes.findIndex((write) => /^create replicasets [^ ]+ 409$/.test(write));
      const [, name] = /^create replicasets ([^ ]+)/.exec(writes[at] ?? "") ?? [];
      const released = writes
        .slice(0, at)
        .some((write) => write.startsWith(`change replicasets ${name} `) && /ownerReferences \[.* -> none/.test(write));
      const [counted, ...more] = ours.writes.slice(at + 1);
      const isCounted =
        counted === undefined || /^change deployments\/status [^ ]+ \d+(?: \(refused\))? status\.collisionCount /.test(counted);
      const asFar = same(writes.slice(0, at + 1), ours.writes.slice(0, at + 1)) && same(events.slice(0, ours.events.length), ours.events);
      return released && asFar && isCounted && more.length === 0 && isError(ours);
    },
  },
  {
    name: "a conflict after a rejected write [deployment Q11]",
    why: "upstream restarts the sync after a conflict with its own write; if a request was rejected before, it restarts from a different state from the one in which ours continues",
    is: ({ writes, begunAnewAfter = 0 }, ours) =>
      begunAnewAfter > 0 &&
      writes.some((write) => write.includes("(refused)")) &&
      same(writes.slice(0, begunAnewAfter), ours.writes.slice(0, begunAnewAfter)),
  },
];

export type Verdict = { readonly kind: "same" } | { readonly kind: "known"; readonly name: string } | { readonly kind: "differs" };

/** Returns whether two outcomes differ and, if the difference is permitted, its entry. */
export function verdictOn(upstream: Outcome, ours: Outcome, observed: State): Verdict {
  if (sameWork(upstream, ours) && upstream.ending === ours.ending) return { kind: "same" };
  const known = KNOWN.find((each) => each.is(upstream, ours, observed));
  return known === undefined ? { kind: "differs" } : { kind: "known", name: known.name };
}

/** Names pods by their rank. The rank includes only the number of pods of the pod's node, and only valid deletion costs. */
function withoutTies({ writes, events, ...rest }: Outcome, { pods, replicasets }: State): Outcome {
  // Only pods of a ReplicaSet with a controller are ranked by node.
  const isRanked = replicasets.some(
    ({ metadata }) => events.some((line) => line.includes(` ReplicaSet/${metadata.name} `)) && isControlled(metadata),
  );
  const fullness = (node: string): string =>
    node === "no node" || !isRanked
      ? String(node !== "no node")
      : String(pods.filter((pod) => isActive(pod as Pod) && ((pod as Pod).spec?.nodeName ?? "") === node).length);
  const ranked = (line: string): string =>
    line.replace(
      /<([^,]+), (\w+), (ready [^,]+), (\d+), ([^,]*), /,
      (_, node: string, phase: string, ready: string, restarts: string, cost: string) =>
        ["<", fullness(node), phase, ready, restarts, /^(?:-?[1-9]\d*)$/.test(cost) ? cost : "0", ""].join(", "),
    );
  return { ...rest, writes: writes.map(ranked).toSorted(), events: events.map(ranked).toSorted() };
}

function isControlled({ ownerReferences = [] }: KubeObject["metadata"]): boolean {
  return ownerReferences.some(({ controller }) => controller === true);
}

function readySince(line: string): string | undefined {
  return /, ready "([^"]+)", /.exec(line)?.[1];
}

/** Returns whether two pods have been ready since the same time. */
function isShared(since: string | undefined, pods: State["pods"]): boolean {
  const conditions = pods.flatMap((pod) => (pod as Pod).status?.conditions ?? []);
  return (
    conditions.filter(({ type, status, lastTransitionTime }) => type === "Ready" && status === "True" && lastTransitionTime === since)
      .length > 1
  );
}

function sameWork(a: Outcome, b: Outcome): boolean {
  return same(a.writes, b.writes) && same(a.events, b.events);
}

function same(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((line, i) => line === b[i]);
}

function isShrinking(line: string): boolean {
  const [, from, to] = /^change replicasets .* spec\.replicas (\d+) -> (\d+)/.exec(line) ?? [];
  return Number(to) < Number(from);
}

function isError({ ending }: Outcome): boolean {
  return ending === "error";
}

function afterMs({ ending }: Outcome): number {
  return Number(/^again after ([\d.]+)/.exec(ending)?.[1] ?? Number.NaN);
}
