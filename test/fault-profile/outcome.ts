/** A controller's actions in a namespace, as facts that do not depend on timing. */
import type { History } from "../support/history.ts";
import type { Case } from "./cases.ts";
import { WRITES } from "./fault-profile.ts";
import type { Exchange } from "./server.ts";
import type { RawClient } from "../support/raw-client.ts";

/**
 * Facts, one line each:
 *
 *     12 × create pods                     executed writes
 *     update replicasets/status            the number depends on timing
 *     told 403 on 6 × create pods
 *     Event Normal SuccessfulCreate of ReplicaSet
 *     in the end Deployment Available=True MinimumReplicasAvailable
 *     at times ReplicaSet ReplicaFailure=True FailedCreate
 *
 * The facts hide two known differences from upstream. PUT and PATCH are both `update`: upstream replaces whole objects where we patch
 * (design.md, table of writes). And ours writes statuses more often: 116 times while 520 pods were deleted one by one, compared with 3
 * times.
 */
export type Outcome = readonly string[];

export async function outcomeOf(
  given: Case,
  namespace: string,
  around: { readonly client: RawClient; readonly exchanges: readonly Exchange[]; readonly history: History },
): Promise<Outcome> {
  const own = around.exchanges.filter(
    ({ asked }) => asked.namespace === namespace && WRITES.includes(asked.verb) && asked.resource !== "events",
  );
  const { items } = await around.client.list(`/api/v1/namespaces/${namespace}/events`);
  return [
    ...writes(own),
    ...(given.countsStruck === true ? struck(own) : []),
    ...new Set((items as unknown as readonly EventShape[]).filter(isOfWorkload).map(eventFact)), // the items of an EventList
    ...conditions(around.history),
  ].toSorted();
}

export function expectedOutcome({ facts }: Case): Outcome {
  return facts.toSorted();
}

/**
 * Returns whether `outcome` lacks facts of the case, but only those that a pause of the machine hides: Events are sent once, and a
 * condition that lasts milliseconds may change before it is read. A sync whose lease ends during the pause reports neither.
 */
export function lacksOnlyTransientFacts(outcome: Outcome, given: Case): boolean {
  const missing = given.facts.filter((fact) => !outcome.includes(fact));
  const isTransient = (fact: string): boolean => /^(?:Event|at times) /.test(fact);
  return missing.length > 0 && missing.every(isTransient) && outcome.every((fact) => given.facts.includes(fact));
}

/** Formats writes: creates, deletes and updates of pods have a count. */
function writes(exchanges: readonly Exchange[]): readonly string[] {
  const done = exchanges.filter(({ code = 0 }) => code >= 200 && code < 300).map(nameOf);
  return counts(done).map(([name, count]) => (name === "update pods" || !name.startsWith("update ") ? `${count} × ${name}` : name));
}

function struck(exchanges: readonly Exchange[]): readonly string[] {
  const names = exchanges
    .filter(({ rule }) => rule !== undefined)
    .map((exchange) => ({ name: nameOf(exchange), told: exchange.told ?? "nothing" }));
  return counts(names.map(({ name, told }) => `${name} told ${told}`)).map(([name, count]) => `${count} × ${name}`);
}

function nameOf({ asked: { verb, resource } }: Exchange): string {
  return `${verb === "patch" ? "update" : verb} ${resource}`;
}

function counts(names: readonly string[]): readonly (readonly [string, number])[] {
  return [...Map.groupBy(names, (name) => name)].map(([name, same]) => [name, same.length]);
}

interface EventShape {
  readonly type: string;
  readonly reason: string;
  readonly involvedObject: { readonly kind: string };
}

function isOfWorkload({ involvedObject: { kind } }: EventShape): boolean {
  return kind === "Deployment" || kind === "ReplicaSet";
}

function eventFact({ type, reason, involvedObject }: EventShape): string {
  return `Event ${type} ${reason} of ${involvedObject.kind}`;
}

/** Returns all conditions at the end, and failure conditions at any time. */
function conditions(history: History): readonly string[] {
  const last = new Map<string, readonly string[]>();
  const failures = new Set<string>();
  for (const { kind, object } of history.changes()) {
    if (kind === "Pod") continue;
    const now = (object.status?.conditions ?? []).map(({ type, status, reason = "" }) => `${kind} ${type}=${status} ${reason}`);
    last.set(`${kind} ${object.metadata.name}`, now);
    for (const condition of now) if (/ (?:ReplicaFailure=True|Progressing=False) /.test(condition)) failures.add(`at times ${condition}`);
  }
  return [...new Set([...last.values()].flat().map((condition) => `in the end ${condition}`)), ...failures];
}
