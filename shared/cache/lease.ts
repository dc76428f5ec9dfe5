/**
 * The watcher's Lease: one active watcher per cluster and deployment, and the source of its fence (informer §7, §14).
 *
 * LE1 the fence is the resourceVersion that the API server gave the acquiring write, or a later deliberate one: it grows over
 *    acquisitions, also when the Lease was deleted and made again.
 * LE2 time is judged only by when this process saw the record change, so clocks may differ.
 * LE3 a leader that could not renew for the renew deadline has lost, whatever the record says.
 */
import type { Lease } from "../api/wire.ts";
import { describeError } from "../ports/describe-error.ts";
import type { Clock } from "../ports/clock.ts";
import { isAlreadyExists, isConflict } from "../ports/errors.ts";
import type { KubeReader, KubeWriter } from "../ports/kube.ts";
import type { Log } from "../ports/log.ts";
import { patienceUntil } from "../ports/patience.ts";
import type { Patience } from "../ports/patience.ts";
import type { Random } from "../ports/random.ts";
import { LEASE_CALL_TIMEOUT_MS, LEASE_CALL_WAIT_MS_MAX } from "../ports/times.ts";

export interface LeasePorts {
  readonly reader: KubeReader;
  readonly writer: KubeWriter;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
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
const JITTER = 1.2;

/** Waits for the Lease, then keeps it. Resolves to undefined when `signal` aborts first. */
export async function acquireLease(ports: LeasePorts, options: LeaseOptions, signal: AbortSignal): Promise<Leadership | undefined> {
  const { clock, log, random } = ports;
  let seen: { readonly version: string; readonly atMs: number } | undefined;
  while (!signal.aborted) {
    try {
      const lease = await readLease(ports, options);
      if (lease && lease.metadata?.resourceVersion !== seen?.version)
        seen = { version: lease.metadata?.resourceVersion ?? "", atMs: clock.now() };
      const holder = lease?.spec?.holderIdentity ?? "";
      const durationMs = (lease?.spec?.leaseDurationSeconds ?? LEASE_SECONDS) * 1000;
      if (!lease || holder === "" || holder === options.identity || (seen && clock.now() - seen.atMs >= durationMs)) {
        return hold(ports, options, await write(ports, options, lease, true), signal);
      }
      log.info("waiting for the watcher's Lease", { lease: `${options.namespace}/${options.name}`, holder });
    } catch (error) {
      if (!isConflict(error) && !isAlreadyExists(error))
        log.warn("the watcher's Lease cannot be taken", { lease: `${options.namespace}/${options.name}`, error: describeError(error) });
    }
    await clock.after(Math.floor(RETRY_MS * (1 + random.next() * (JITTER - 1))), signal).catch(() => undefined);
  }
  return undefined;
}

function hold(ports: LeasePorts, options: LeaseOptions, acquired: Lease, signal: AbortSignal): Leadership {
  const { clock, log } = ports;
  const lost = new AbortController();
  let lease = acquired;
  let fence = versionOf(acquired);
  let renewedMs = clock.now();
  const renew = async (): Promise<void> => {
    lease = await write(ports, options, lease, false);
    renewedMs = clock.now();
  };
  const keep = async (): Promise<void> => {
    while (!signal.aborted && !lost.signal.aborted) {
      await clock.after(RETRY_MS, AbortSignal.any([signal, lost.signal])).catch(() => undefined);
      if (signal.aborted || lost.signal.aborted) return;
      try {
        await renew();
      } catch (error) {
        if (isConflict(error)) {
          const current = await readLease(ports, options).catch(() => undefined);
          if (current && current.spec?.holderIdentity !== options.identity)
            return lost.abort(new Error(`the Lease is held by ${current.spec?.holderIdentity}`));
          if (current) lease = current;
        }
        log.warn("the watcher's Lease was not renewed", { lease: options.name, error: describeError(error) });
      }
      if (clock.now() - renewedMs > RENEW_DEADLINE_MS) return lost.abort(new Error("the Lease was not renewed for 10 s"));
    }
  };
  void keep();
  return {
    fence: () => fence,
    raise: async () => {
      await renew();
      fence = versionOf(lease);
      return fence;
    },
    lost: lost.signal,
    release: async () => {
      lost.abort(new Error("released"));
      await write(ports, { ...options, identity: "" }, lease, false, 1);
    },
  };
}

/** A call for the Lease ends within 5 s: one that hangs longer would keep us from noticing that we have lost. */
function patienceOf({ clock }: LeasePorts): Patience {
  return patienceUntil(clock, clock.now() + LEASE_CALL_WAIT_MS_MAX, LEASE_CALL_TIMEOUT_MS);
}

async function readLease(ports: LeasePorts, options: LeaseOptions): Promise<Lease | undefined> {
  return (await ports.reader.get("leases", options.namespace, options.name, { patience: patienceOf(ports) })) as Lease | undefined; // the resource names the type
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
  const request = { resource: "leases" as const, namespace: options.namespace, body, patience: patienceOf(ports) };
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
