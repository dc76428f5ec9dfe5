/**
 * One doorbell, one sync: takes the key, keeps its lease alive, runs the handler and reports how it ended (informer §12).
 *
 * WK1 a doorbell without work (busy, empty, gated, another epoch) returns without an error.
 * WK2 if the key is due in less than a second, the worker waits, at most 1.5 s in total and before the lease begins; if it is due later,
 *     the worker sends the doorbell again with that delay.
 * WK3 the lease is renewed every 5 s while the handler runs; once it is lost, or the invocation ends too soon for a request, `mayWrite`
 *     returns false and nothing more is sent. The API server's Retry-After is honoured until then: renewals continue during the wait, the
 *     invocation bounds it, and the lease is checked after it.
 * WK4 a handler's error becomes a retry with back-off in the Store, never a failed message. This throws only if the Store is unreachable.
 * WK5 a key whose runs crashed three times in a row is not run again but counts as failed: it backs off and is dropped at its limit as if
 *     its handler had thrown. So a key whose sync crashes is not retried forever.
 * WK6 while the guard has stopped a namespace (informer §11.9), none of its keys is handed out, and the reason is logged. A run that learns
 *     of the stop at its renewal starts no more calls; it has not failed, and its key is due again at once.
 * WK7 without the Lease's proof (lease-proof.ts) the run makes no live read and no write; the key has not failed, and is due again after a
 *     second.
 */
import { CONTROLLER_INFO, isBuiltIn, RESOURCES } from "@deltaloop/kube/objects";
import type { Controller, ControllerName } from "@deltaloop/kube/objects";
import { releaseOf } from "@deltaloop/kube/releases";
import type { Release } from "@deltaloop/kube/releases";
import { repair } from "../../cache/repair.ts";
import { ring } from "../../cache/ring.ts";
import { describeError, isConflict, TerminalError } from "@deltaloop/kube/client";
import type { AnyTaken, Doorbell, Forged, Outcome, Snapshot, TakeResult, TakenLineage, WorkQueue } from "@deltaloop/store/ports";
import { WORK_QUEUES } from "@deltaloop/base/metrics";
import type { LabelsOf } from "@deltaloop/base/metrics";
import { ForgedRowsError, describeStop } from "@deltaloop/store/ports";
import type { RetryBudget, Random } from "@deltaloop/base";
import { LEASE_MS, RENEWAL_MS, RETRY_WAIT_MS_MAX, WRITE_MARGIN_MS } from "@deltaloop/base";
import { toError } from "../errors.ts";
import { outcomeOf } from "../outcome.ts";
import { withRetryBudget } from "../budgeted-ports.ts";
import { PROOF_RETRY_MS, UnprovenError } from "../lease-proof.ts";
import { withProof } from "../proven-ports.ts";
import type { Run, SyncPorts } from "../run.ts";
import type { KeySync, RunSync, SyncEnd } from "./key-sync.ts";

export interface WorkerPorts extends SyncPorts {
  readonly store: SyncPorts["store"] & Pick<WorkQueue, "take" | "renew" | "done">;
  readonly random: Random;
}

export interface WorkerOptions {
  /** When the invocation ends, by `clock`; absent if it does not end. */
  readonly invocationEndsMs?: number;
  /** When the doorbell was sent. */
  readonly rungMs?: number;
  /** Called once, as soon as the key is taken. */
  readonly onTaken?: () => void;
  /** A key that has failed this often is dropped at its next failure. Source: deployment §3: 15; others: never. */
  readonly maxRetries?: number;
}

const TAKES_MAX = 4;
const WAIT_ONCE_MAX_MS = 1_000;
const WAIT_MAX_MS = 1_500;
/** Number of crashed runs after which a key counts as failed. A deploy, or another key in the batch, may crash a run once or twice. */
const UNENDED_MAX = 3;
/** Delay of the run after a repair. It bounds the work if a client damages rows continuously. */
const REPAIRED_MS = 50;

export async function runKey(
  ports: WorkerPorts,
  controller: ControllerName,
  bell: Doorbell,
  { run: sync, recover = sync }: KeySync,
  options: WorkerOptions = {},
): Promise<void> {
  const taken: AnyTaken = { epoch: bell.epoch, controller, key: bell.key, token: newToken(ports.random) };
  const take = await takeKey(ports, taken, bell);
  if (take === undefined) return;
  options.onTaken?.();
  const lease = holdLease(ports, taken, take.takenAtMs);
  const { invocationEndsMs = Infinity } = options;
  const mayWrite = (): boolean => Math.min(lease.untilMs(), invocationEndsMs) - WRITE_MARGIN_MS > ports.clock.now();
  const retryBudget: RetryBudget = {
    mayStart: mayWrite,
    waitMsMax: () => Math.max(0, Math.min(RETRY_WAIT_MS_MAX, invocationEndsMs - WRITE_MARGIN_MS - ports.clock.now())),
  };
  const { lineage, release } = take;
  // A user controller's run; this function uses only its generic fields, and its handler receives it as an OwnRun.
  const run = { ...taken, snapshot: take.snapshot, mayWrite, ...(lineage && { lineage }), ...(release && { release }) } as Run;
  ports.trace?.({ controller: run.controller, key: run.key, kind: "started" });
  const { metrics } = ports;
  const name = isBuiltIn(controller) ? WORK_QUEUES[controller] : controller;
  if (options.rungMs !== undefined)
    metrics?.observe("workqueue_queue_duration_seconds", { name }, Math.max(0, take.takenAtMs - options.rungMs) / 1000);
  if (take.kind === "recover" && isBuiltIn(controller))
    metrics?.count("replicaset_controller_stale_sync_skips_total", primaryLabels(controller));
  let ended: Ended;
  try {
    ended = await endOf(
      withProof(withRetryBudget(ports, retryBudget), run),
      run,
      take.kind === "recover" ? recover : sync,
      options,
      lease.isStopped,
    );
  } finally {
    await lease.release();
  }
  const { outcome } = ended;
  metrics?.count("deltaloop_syncs_total", { controller, outcome: outcome.kind });
  if (outcome.kind === "retry") metrics?.count("workqueue_retries_total", { name });
  metrics?.observe("workqueue_work_duration_seconds", { name }, (ports.clock.now() - take.takenAtMs) / 1000);
  const done = ended.done ?? (await ports.store.done(taken, outcome));
  if (done.kind === "stolen") ports.log.warn("another run took over the key", of(taken));
  else if (done.bell) await ring(ports, [done.bell]);
}

interface Take {
  readonly kind: "ok" | "recover";
  readonly snapshot: Snapshot;
  readonly lineage: TakenLineage | undefined;
  readonly release: Release | undefined;
  /** The local time before `take`. A lease end that is computed from this time is never later than the real end. */
  readonly takenAtMs: number;
}

async function takeKey(ports: WorkerPorts, taken: AnyTaken, bell: Doorbell): Promise<Take | undefined> {
  let known = uidsOf(bell);
  let waitedMs = 0;
  let moves = 0;
  const nothing = (why: string): undefined => {
    ports.log.debug("key not synced", { ...of(taken), why });
    return undefined;
  };
  for (;;) {
    const takenAtMs = ports.clock.now();
    const before = ports.proof?.seen();
    const result: TakeResult = await ports.store.take(taken, known);
    ports.metrics?.count("deltaloop_doorbells_total", { controller: taken.controller, result: result.kind });
    switch (result.kind) {
      case "ok":
      case "recover": {
        if (await ports.proof?.compare(before, taken.epoch, result.lineage)) {
          await ports.store.done(taken, { kind: "requeueAfter", delayMs: 0 }); // the doorbell is rung again when the gate opens
          return nothing("the store was restored to an older state");
        }
        const release = releaseOfTake(ports, result.kind === "ok" ? result.release : undefined);
        return { kind: result.kind, snapshot: result.snapshot, lineage: result.lineage, release, takenAtMs };
      }
      case "moved":
        // Four consecutive changes of the uid mean that the object is recreated in a loop: the key stays dirty and the sweeper rings it.
        if (++moves >= TAKES_MAX) return nothing("its object was repeatedly replaced");
        known = uidsOf(result);
        break;
      case "notYet":
        if (result.delayMs >= WAIT_ONCE_MAX_MS || waitedMs + result.delayMs > WAIT_MAX_MS) {
          await ring({ ...ports, metrics: undefined }, [{ ...result.bell, delayMs: result.delayMs }]);
          return nothing("it is due later; its doorbell was sent again with that delay");
        }
        waitedMs += result.delayMs;
        await ports.clock.after(result.delayMs);
        break;
      case "stopped":
        ports.log.warn("key not synced until you run deltaloop resume: another controller writes", {
          ...of(taken),
          why: describeStop(result.stop),
        });
        return undefined;
      case "gated":
        return nothing(result.reason);
      case "busy":
        return nothing("another run holds it; the end of that run requeues it if needed");
      case "empty":
        return nothing("it was synced already");
      case "otherEpoch":
        return nothing("the doorbell is of another epoch");
      default:
        return result satisfies never;
    }
  }
}

/**
 * Returns the release of a take.
 *
 * @throws {Error} for a release whose hash states are missing here, which is a bug: the gate should block it
 */
function releaseOfTake({ digester }: WorkerPorts, release: string | undefined): Release | undefined {
  const known = release === undefined ? undefined : releaseOf(release, digester.releases);
  if (release !== undefined && known === undefined)
    throw new Error(`received a key of a cluster with Kubernetes ${release}, which this build does not support`);
  return known;
}

function of({ key, controller }: AnyTaken): Pick<AnyTaken, "key" | "controller"> {
  return { key, controller };
}

function primaryLabels(controller: Controller): LabelsOf<"replicaset_controller_stale_sync_skips_total"> {
  const resource = CONTROLLER_INFO[controller].primary;
  return { group: RESOURCES[resource].group, resource };
}

function uidsOf({ uid, owner }: Pick<Doorbell, "uid" | "owner">): Pick<Doorbell, "uid" | "owner"> {
  return { ...(uid !== undefined && { uid }), ...(owner !== undefined && { owner }) };
}

interface HeldLease {
  readonly untilMs: () => number;
  /** WK6: whether the guard has stopped the namespace. */
  readonly isStopped: () => boolean;
  readonly release: () => Promise<void>;
}

/**
 * Renews every 5 s until released. A failed renewal is retried 5 s later, until the lease expires. An expired lease is not renewed, even if
 * the key is free, because after a pause of the process the run's reads are as old as the pause.
 */
function holdLease(ports: WorkerPorts, taken: AnyTaken, takenAtMs: number): HeldLease {
  let untilMs = takenAtMs + LEASE_MS;
  let isStopped = false;
  const ended = new AbortController();
  const renewing = (async (): Promise<void> => {
    for (;;) {
      try {
        await ports.clock.after(RENEWAL_MS, ended.signal);
      } catch {
        return; // released
      }
      const startedAtMs = ports.clock.now();
      if (startedAtMs >= untilMs) return;
      try {
        const renewed = await ports.store.renew(taken);
        if (typeof renewed !== "number") {
          untilMs = 0;
          isStopped = renewed === "stopped";
          return;
        }
        untilMs = startedAtMs + LEASE_MS;
      } catch (error) {
        ports.log.warn("lease not renewed", { key: taken.key, error: describeError(error) });
      }
    }
  })();
  return {
    untilMs: () => untilMs,
    isStopped: () => isStopped,
    release: async () => {
      ended.abort("released");
      await renewing;
    },
  };
}

/** Runs the handler. If it finds rows with an invalid MAC (A14), repairs them and runs the key again, which does not count as a failure. */
async function believing(ports: SyncPorts, run: Run, sync: RunSync): Promise<SyncEnd> {
  const repairRows = async (forged: readonly Forged[]): Promise<SyncEnd> => {
    await repair(ports, run, forged);
    return { result: { kind: "again", afterMs: REPAIRED_MS } };
  };
  if (run.snapshot.forged) return repairRows(run.snapshot.forged);
  try {
    return await sync(ports, run);
  } catch (error) {
    if (error instanceof ForgedRowsError) return await repairRows(error.forged);
    throw error;
  }
}

interface Ended {
  readonly outcome: Outcome;
  /** The result, if the Store already has it (WQ8). */
  readonly done?: SyncEnd["done"];
}

async function endOf(
  ports: SyncPorts,
  run: Run,
  sync: RunSync,
  { maxRetries = Infinity }: WorkerOptions,
  isStopped: () => boolean,
): Promise<Ended> {
  const { key, controller, snapshot } = run;
  const { unended = 0 } = snapshot;
  const failed = (error: Error, withinMs?: number): Ended => {
    if (isStopped()) {
      ports.log.warn("sync aborted, key requeued: another controller writes", { key, controller });
      ports.trace?.({ controller, key, kind: "ended", outcome: "requeueAfter" });
      return { outcome: { kind: "requeueAfter", delayMs: 0 } };
    }
    if (error instanceof UnprovenError) {
      ports.log.warn("sync aborted, key requeued: cannot verify from the watcher's Lease that this cluster's watcher owns the cache", {
        key,
        controller,
        why: error.message,
      });
      ports.trace?.({ controller, key, kind: "ended", outcome: "requeueAfter" });
      return { outcome: { kind: "requeueAfter", delayMs: PROOF_RETRY_MS } };
    }
    const isFinal = error instanceof TerminalError || snapshot.failures >= maxRetries;
    // A conflict is normal: another writer was faster, and the retry sees its write.
    const say = isConflict(error) && !isFinal ? ports.log.info : ports.log.error;
    say(isFinal ? "sync failed, key dropped" : "sync failed", {
      key,
      controller,
      attempt: snapshot.failures + 1,
      reason: describeError(error),
    });
    const outcome = isFinal ? "drop" : "retry";
    ports.trace?.({ controller, key, kind: "ended", outcome, error: describeError(error) });
    return { outcome: { kind: outcome, ...(!isFinal && withinMs !== undefined && { withinMs }) } };
  };
  try {
    if (unended >= UNENDED_MAX) throw new Error(`${unended} consecutive runs did not finish: killed, timed out or out of memory`);
    const { result, done } = await believing(ports, run, sync);
    if (result.kind === "failed") return failed(result.error, Math.max(0, result.afterMs));
    const outcome = outcomeOf(result, snapshot);
    ports.trace?.({ controller, key, kind: "ended", outcome: outcome.kind });
    return { outcome, ...(done && { done }) };
  } catch (thrown) {
    return failed(toError(thrown));
  }
}

/** 128 bits as hex. */
function newToken(random: Random): string {
  const word = (): string =>
    Math.floor(random.next() * 2 ** 32)
      .toString(16)
      .padStart(8, "0");
  return word() + word() + word() + word();
}
