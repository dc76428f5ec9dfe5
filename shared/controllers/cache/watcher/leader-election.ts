/**
 * The watcher's Lease: one active watcher per cluster and deployment, and the source of its fence (informer §7, §14).
 *
 * LE1 the fence is the resourceVersion that the API server gave the acquiring write, or a later deliberate one: it grows over
 *    acquisitions, also when the Lease was deleted and made again.
 * LE2 time is judged only by when this process saw the record change, so clocks may differ.
 * LE3 a leader that could not renew for the renew deadline has lost, whatever the record says. It counts from when it asked for
 *    the last renewal, a successor from when it saw it, which is later; so there is no moment with two of them.
 * LE4 whoever sends asks `holds` first: a process that stood still learns it there, before any of its timers.
 * LE5 a leader writes its Lease over any version of it that is its own, so renewing, raising and releasing at the same time, or a
 *    person's label, make none of them fail.
 */
import type { Lease } from "@deltaloop/kube/objects";
import { describeError, isAlreadyExists, isConflict, isNotFound } from "@deltaloop/kube/client";
import type { Clock, Log, RetryBudget, Random } from "@deltaloop/base";
import type { KubeReader, KubeWriter } from "@deltaloop/kube/client";
import type { Metrics } from "@deltaloop/base/metrics";
import { retryBudgetUntil, LEASE_CALL_TIMEOUT_MS, LEASE_CALL_WAIT_MS_MAX } from "@deltaloop/base";

export interface LeasePorts {
  readonly reader: KubeReader;
  readonly writer: KubeWriter;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics?: Metrics;
}

export interface LeaseOptions {
  readonly namespace: string;
  readonly name: string;
  /** Host and a random part of this process' start. */
  readonly identity: string;
}

/** A held Lease. Source: client-go tools/leaderelection: LeaseDuration 15 s, RenewDeadline 10 s, RetryPeriod 2 s. */
export interface Leadership {
  readonly fence: () => string;
  /** Whether it may still be sent under this Lease (LE3, LE4); a no has aborted `lost`. */
  readonly holds: () => boolean;
  /** Renews now and answers the new, greater fence. @throws when it cannot. */
  readonly raise: () => Promise<string>;
  /** Aborts when the Lease is lost. */
  readonly lost: AbortSignal;
  /** Gives the Lease away so that a successor need not wait. */
  readonly release: () => Promise<void>;
}

const LEASE_SECONDS = 15;
const RENEW_DEADLINE_MS = 10_000;
const RETRY_MS = 2000;
/** Differs from upstream, where candidates look every 2 s, too: a Lease that was given back is taken within 2 s. */
const LOOK_MS = 1000;
const JITTER = 1.2;
/** Versions of our own Lease that somebody else may have touched between two tries of one write. */
const WRITES_MAX = 3;

/** Waits for the Lease, then keeps it. Resolves to undefined when `signal` aborts first. */
export async function acquireLease(ports: LeasePorts, options: LeaseOptions, signal: AbortSignal): Promise<Leadership | undefined> {
  const { clock, log, random } = ports;
  const where = `${options.namespace}/${options.name}`;
  let seen: { readonly version: string; readonly atMs: number } | undefined;
  let waitingFor: string | undefined;
  ports.metrics?.set("leader_election_master_status", { name: options.name }, 0);
  while (!signal.aborted) {
    try {
      const lease = await readLease(ports, options);
      if (lease && lease.metadata?.resourceVersion !== seen?.version)
        seen = { version: lease.metadata?.resourceVersion ?? "", atMs: clock.now() };
      const holder = lease?.spec?.holderIdentity ?? "";
      const durationMs = (lease?.spec?.leaseDurationSeconds ?? LEASE_SECONDS) * 1000;
      if (!lease || holder === "" || holder === options.identity || (seen && clock.now() - seen.atMs >= durationMs)) {
        const askedMs = clock.now();
        return hold(ports, options, { lease: await write(ports, options, lease, true), askedMs }, signal);
      }
      if (holder !== waitingFor) log.info("waiting for the watcher's Lease", { lease: where, holder });
      waitingFor = holder;
    } catch (error) {
      if (!isConflict(error) && !isAlreadyExists(error))
        log.warn("the watcher's Lease cannot be taken", { lease: where, error: describeError(error) });
    }
    await clock.after(Math.floor(LOOK_MS * (1 + random.next() * (JITTER - 1))), signal).catch(() => undefined);
  }
  return undefined;
}

interface Acquired {
  readonly lease: Lease;
  readonly askedMs: number;
}

function hold(ports: LeasePorts, options: LeaseOptions, acquired: Acquired, signal: AbortSignal): Leadership {
  const { clock, log, metrics } = ports;
  const lost = new AbortController();
  metrics?.set("leader_election_master_status", { name: options.name }, 1);
  lost.signal.addEventListener("abort", () => metrics?.set("leader_election_master_status", { name: options.name }, 0));
  const over = AbortSignal.any([signal, lost.signal]);
  let { lease, askedMs: renewedMs } = acquired;
  let fence = versionOf(lease);

  const holds = (): boolean => {
    if (!lost.signal.aborted && clock.now() - renewedMs > RENEW_DEADLINE_MS) lost.abort(new Error("the Lease was not renewed for 10 s"));
    return !lost.signal.aborted;
  };

  /** @returns whether the Lease was still ours to write. @throws when that cannot be known */
  const writeOurs = async (identity: string, seconds: number): Promise<boolean> => {
    for (let tries = 1; ; tries++) {
      try {
        lease = await write(ports, { ...options, identity }, lease, false, seconds);
        return true;
      } catch (error) {
        if ((!isConflict(error) && !isNotFound(error)) || tries === WRITES_MAX) throw error;
        metrics?.count("leader_election_slowpath_total", { name: options.name });
        const current = await readLease(ports, options);
        const holder = current?.spec?.holderIdentity;
        if (holder !== options.identity) {
          lost.abort(new Error(current ? `the Lease is held by ${holder || "nobody"}` : "the Lease was deleted"));
          return false;
        }
        lease = current ?? lease;
      }
    }
  };
  const renew = async (): Promise<void> => {
    const askedMs = clock.now();
    if (!holds() || !(await writeOurs(options.identity, LEASE_SECONDS))) throw lost.signal.reason as Error;
    renewedMs = askedMs;
  };

  const keep = async (): Promise<void> => {
    for (;;) {
      await clock.after(RETRY_MS, over).catch(() => undefined);
      if (over.aborted) return;
      await renew().catch((error: unknown) => {
        if (!lost.signal.aborted) log.warn("the watcher's Lease was not renewed", { lease: options.name, error: describeError(error) });
      });
    }
  };
  /** A call that hangs does not put the deadline off. */
  const watch = async (): Promise<void> => {
    while (!over.aborted && holds()) await clock.after(renewedMs + RENEW_DEADLINE_MS + 1 - clock.now(), over).catch(() => undefined);
  };
  void keep();
  void watch();
  return {
    fence: () => fence,
    holds,
    raise: async () => {
      await renew();
      fence = versionOf(lease);
      return fence;
    },
    lost: lost.signal,
    release: async () => {
      lost.abort(new Error("released"));
      await writeOurs("", 1);
    },
  };
}

/** A call for the Lease ends within 5 s: one that hangs longer would keep us from noticing that we have lost. */
function retryBudgetOf({ clock }: LeasePorts): RetryBudget {
  return retryBudgetUntil(clock, clock.now() + LEASE_CALL_WAIT_MS_MAX, LEASE_CALL_TIMEOUT_MS);
}

async function readLease(ports: LeasePorts, options: LeaseOptions): Promise<Lease | undefined> {
  return (await ports.reader.get("leases", options.namespace, options.name, { retryBudget: retryBudgetOf(ports) })) as Lease | undefined; // the resource names the type
}

async function write(
  ports: LeasePorts,
  options: LeaseOptions,
  current: Lease | undefined,
  acquire: boolean,
  seconds = LEASE_SECONDS,
): Promise<Lease> {
  const now = microTime(ports.clock.now());
  const before = current?.spec;
  const taken = before?.holderIdentity !== options.identity;
  const body = {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: {
      namespace: options.namespace,
      name: options.name,
      ...(current?.metadata?.resourceVersion !== undefined && { resourceVersion: current.metadata.resourceVersion }),
    },
    spec: {
      holderIdentity: options.identity,
      leaseDurationSeconds: seconds,
      acquireTime: acquire && taken ? now : (before?.acquireTime ?? now),
      renewTime: now,
      leaseTransitions: (before?.leaseTransitions ?? 0) + (acquire && taken && before ? 1 : 0),
    },
  };
  const request = { resource: "leases" as const, namespace: options.namespace, body, retryBudget: retryBudgetOf(ports) };
  // The server answers a Lease to a Lease.
  return (current ? await ports.writer.replace({ ...request, name: options.name }) : await ports.writer.create(request)) as Lease;
}

function versionOf(lease: Lease): string {
  return lease.metadata?.resourceVersion ?? "0";
}

/** Lease times are RFC 3339 with microseconds. */
function microTime(ms: number): string {
  return new Date(ms).toISOString().replace("Z", "000Z");
}
