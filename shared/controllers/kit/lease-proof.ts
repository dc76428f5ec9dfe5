/**
 * A function's proof that it works for the cluster whose watcher fills the cache (informer §11.11): the Lease of the function's own API
 * server lists the token that the Store holds. A clone's functions share queue and Store, but their Lease lists other terms.
 *
 * LP1 no live read and no write, including writes to the Store, starts without a proof. Exceptions: `take` and `done`, so that a key can be
 *     returned.
 * LP2 a proof holds for one term and PROOF_MS, and ends with any connection error: the next connection may lead to another API server.
 * LP3 the Lease is read at most once in PROOF_MS while the proof succeeds, and once in RETRY_MS while it fails. If a connection fails
 *     during the read, or the response is PROOF_MS old (a paused process), it proves nothing: the Lease is read again at once, up to
 *     READS_MAX times.
 * LP4 an epoch without a term (an older build, shadow mode) needs no proof.
 * LP5 a checkpoint never goes back within an epoch. If `take` returns a smaller one than this process has seen, it marks every resource
 *     SUSPECT.
 */
import type { Clock, Log } from "@deltaloop/base";
import { LEASE_CALL_TIMEOUT_MS, LEASE_CALL_WAIT_MS_MAX, retryBudgetUntil } from "@deltaloop/base";
import type { Metrics } from "@deltaloop/base/metrics";
import { describeError, UnansweredError } from "@deltaloop/kube/client";
import type { KubeReader } from "@deltaloop/kube/client";
import { CACHED_RESOURCES } from "@deltaloop/kube/objects";
import type { Lease } from "@deltaloop/kube/objects";
import { isOlderCheckpoint, lists } from "@deltaloop/store/ports";
import type { Checkpoint, Store, TakenLineage, TermToken } from "@deltaloop/store/ports";
import { LEASE_TERMS, parseTerms, tokenText } from "../cache/watcher/lineage.ts";

export const PROOF_MS = 10_000;
export const PROOF_RETRY_MS = 1_000;
const ALARM_MS = 30_000;
const READS_MAX = 4;

/**
 * The Lease does not list the Store's token, or cannot be read. Normal for a second while a leader begins a term; if it lasts, two clusters
 * share the cache.
 */
export class UnprovenError extends Error {
  override readonly name = "UnprovenError";
}

/** The greatest checkpoint seen before a call of `take`. */
export interface SeenCheckpoint {
  readonly epoch: string;
  readonly checkpoint: Checkpoint;
}

/** One per process and cluster. */
export interface LeaseProof {
  /** Obtains the proof, from the Lease if necessary (LP3). @throws {UnprovenError} */
  require(epoch: string, token: TermToken | undefined): Promise<void>;
  /** Whether there is a proof now, so that a call may start without `require`. */
  holds(epoch: string, token: TermToken | undefined): boolean;
  /** Ends the current proof (LP2). */ connectionFailed(): void;
  /** LP5: the greatest checkpoint seen so far; read it before `take`. */
  seen(): SeenCheckpoint | undefined;
  /** Compares the checkpoint of `take` with the one seen before (LP5). @returns whether the Store's state went back, and is now SUSPECT */
  compare(before: SeenCheckpoint | undefined, epoch: string, lineage: TakenLineage | undefined): Promise<boolean>;
}

export interface LeaseProofPorts {
  readonly reader: Pick<KubeReader, "get">;
  readonly store: Pick<Store, "markSuspect">;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics?: Metrics | undefined;
}

export function createLeaseProof(ports: LeaseProofPorts, lease: { readonly namespace: string; readonly name: string }): LeaseProof {
  const { reader, store, clock, log, metrics } = ports;
  let proven: { readonly of: string; readonly untilMs: number } | undefined;
  let refused: { readonly of: string; readonly untilMs: number; readonly why: string } | undefined;
  let asking: { readonly of: string; readonly answer: Promise<void> } | undefined;
  let unprovenSinceMs: number | undefined;
  let isAlarmed = false;
  let seen: SeenCheckpoint | undefined;
  /** Incremented on each connection error, so that a response that was in flight proves nothing. */
  let failures = 0;

  /** Reads the Lease. @returns the time of the read and, if the Lease proves nothing, the reason */
  async function read(token: TermToken): Promise<{ readonly sentMs: number; readonly why?: string }> {
    for (let reads = 1; ; reads++) {
      const sentMs = clock.now();
      const before = failures;
      try {
        const retryBudget = retryBudgetUntil(clock, sentMs + LEASE_CALL_WAIT_MS_MAX, LEASE_CALL_TIMEOUT_MS);
        const found = (await reader.get("leases", lease.namespace, lease.name, { retryBudget })) as Lease | undefined; // the resource determines the type
        if (!found) return { sentMs, why: "the Lease does not exist" };
        if (!lists(parseTerms(found.metadata?.annotations?.[LEASE_TERMS]), token))
          return { sentMs, why: `it does not list ${tokenText(token)}` };
      } catch (error) {
        return { sentMs, why: describeError(error) };
      }
      if (before === failures && clock.now() - sentMs < PROOF_MS) return { sentMs };
      if (reads === READS_MAX) return { sentMs, why: "connections keep failing" };
    }
  }

  async function ask(of: string, token: TermToken): Promise<void> {
    const { sentMs, why } = await read(token);
    if (why === undefined) {
      [proven, refused, unprovenSinceMs] = [{ of, untilMs: sentMs + PROOF_MS }, undefined, undefined];
      if (isAlarmed) metrics?.set("deltaloop_unproven", {}, 0);
      isAlarmed = false;
      return;
    }
    unprovenSinceMs ??= sentMs;
    if (clock.now() - unprovenSinceMs >= ALARM_MS) {
      isAlarmed = true;
      metrics?.set("deltaloop_unproven", {}, 1);
      log.error("syncing no keys: cannot verify from the watcher's Lease that this cluster's watcher owns the cache", {
        lease: lease.name,
        why,
      });
    }
    refused = { of, untilMs: clock.now() + PROOF_RETRY_MS, why };
    throw new UnprovenError(`Lease ${lease.namespace}/${lease.name}: ${why}`);
  }

  /** LP2, LP4 */
  const holds: LeaseProof["holds"] = (epoch, token) => !token || (proven?.of === `${epoch} ${token.term}` && clock.now() < proven.untilMs);

  return {
    holds,
    async require(epoch, token) {
      if (!token || holds(epoch, token)) return;
      const of = `${epoch} ${token.term}`;
      const nowMs = clock.now();
      if (refused?.of === of && nowMs < refused.untilMs) throw new UnprovenError(`Lease ${lease.namespace}/${lease.name}: ${refused.why}`);
      if (asking?.of !== of) {
        const answer = ask(of, token).finally(() => {
          if (asking?.answer === answer) asking = undefined;
        });
        asking = { of, answer };
      }
      await asking.answer;
    },
    connectionFailed: () => {
      failures++;
      proven = undefined;
    },
    seen: () => seen,
    async compare(before, epoch, lineage) {
      if (!lineage?.token) return false;
      const { checkpoint } = lineage;
      if (before?.epoch === epoch && (!checkpoint || isOlderCheckpoint(checkpoint, before.checkpoint))) {
        seen = undefined;
        log.error("the store was restored to an older state: it holds an older checkpoint than this function has seen", { epoch });
        for (const resource of CACHED_RESOURCES) await store.markSuspect(resource, "a function has seen a later checkpoint");
        return true;
      }
      if (checkpoint && !(seen?.epoch === epoch && isOlderCheckpoint(checkpoint, seen.checkpoint))) seen = { epoch, checkpoint };
      return false;
    },
  };
}

/** Wraps `reader` so that each read has a proof (LP1, LP2), which `require` obtains. */
export function provenReader(reader: KubeReader, proof: LeaseProof, require: () => Promise<void>): KubeReader {
  return {
    get: async (...request) => {
      await require();
      return await watched(proof, reader.get(...request));
    },
    list: async (...request) => {
      await require();
      return await watched(proof, reader.list(...request));
    },
  };
}

/** Awaits `answer`; a connection error ends the proof (LP2). */
export async function watched<T>(proof: LeaseProof, answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof UnansweredError) proof.connectionFailed();
    throw error;
  }
}
