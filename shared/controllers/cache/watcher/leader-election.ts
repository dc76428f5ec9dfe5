/**
 * The watcher's Lease: one active watcher per cluster and deployment, and the source of its fence (informer §7, §14).
 *
 * LE1 the fence is the resourceVersion of the acquiring write, or of a later raise. It grows over acquisitions, even if the Lease is
 *     deleted and recreated.
 * LE2 expiry is measured from when this process saw the record change, so clocks may differ.
 * LE3 a leader that could not renew within the renew deadline has lost the Lease, whatever the record contains. The leader counts from the
 *     moment it sent its last renewal, a successor from the moment it saw that renewal, which is later. So two never lead at once.
 * LE4 every sender calls `holds` first, so a suspended process detects the lost Lease before any timer fires.
 * LE5 a leader retries a conflicting write as long as it holds the Lease. So concurrent renewals, raises and releases, or a user's label,
 *     do not fail.
 * LE6 the Lease lists the leader's term and the last TERMS_MAX earlier ones (informer §11.11). Each acquisition and raise begins a term; a
 *    renewal increments the term's count once the Store has confirmed the last count. The next write removes a term that was never sent to
 *    the Store. A deleted Lease is recreated with the terms that this process last saw in it: only a process of this cluster knows them.
 * LE7 a leader that finds a list other than the one it wrote last overwrites nothing: the API server's history went back. The next raise
 *     empties the list.
 * LE8 a released Lease records the final checkpoint. Each acquiring write removes it.
 * LE9 `token` has a raised count only after the API server has answered the renewal. So the Store never has a count that the Lease lacks,
 *     which would look like another cluster's.
 * LE10 while its cluster is quiet, a leader renews every QUIET_RENEW_MS. One renewal may fail, and take its full time, before the deadline.
 */
import type { Lease } from "@deltaloop/kube/objects";
import type { Proof, TermToken } from "@deltaloop/store/ports";
import { describeError, isAlreadyExists, isConflict, isNotFound } from "@deltaloop/kube/client";
import type { Clock, Log, RetryBudget, Random } from "@deltaloop/base";
import type { KubeReader, KubeWriter } from "@deltaloop/kube/client";
import type { Metrics } from "@deltaloop/base/metrics";
import { retryBudgetUntil, LEASE_CALL_TIMEOUT_MS, LEASE_CALL_WAIT_MS_MAX } from "@deltaloop/base";
import { LEASE_APPROVED, LEASE_FINAL, LEASE_TERMS, finalText, parseFinal, parseTerms, tokenText } from "./lineage.ts";

export interface LeasePorts {
  readonly reader: KubeReader;
  readonly writer: KubeWriter;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics?: Metrics;
  /** Called after each read that finds the Lease held by another process. */
  readonly onHeld?: () => void;
  /** Called after a renewal that created the Lease: it was deleted, or another cluster has the API server's address now. */
  readonly onRecreated?: () => void;
}

export interface LeaseOptions {
  readonly namespace: string;
  readonly name: string;
  /** Hostname and a random suffix of this process. */
  readonly identity: string;
}

/** A held Lease. Source: client-go tools/leaderelection: LeaseDuration 15 s, RenewDeadline 10 s, RetryPeriod 2 s. */
export interface Leadership {
  readonly fence: () => string;
  /** Whether sends are still allowed under this Lease (LE3, LE4). A call that returns false has already aborted `lost`. */
  readonly holds: () => boolean;
  /**
   * Writes the Lease, begins a term and returns the new, greater fence. `forgets`: drops the earlier terms from the list. @throws if the
   * Lease is not written.
   */
  readonly raise: (forgets?: boolean) => Promise<string>;
  /** Reports whether the cluster is quiet (LE10). */
  readonly setQuiet?: (isQuiet: boolean) => void;
  /** Aborts when the Lease is lost. */
  readonly lost: AbortSignal;
  /** Releases the Lease so that a successor need not wait, and with `final` need not list (LE8). */
  readonly release: (final?: Omit<Proof, "isExact">) => Promise<void>;
  /** Absent in shadow mode and replay, which use no Lease. */
  readonly lineage?: LeaseLineage;
}

/** The leader's terms in the Lease (LE6). */
export interface LeaseLineage {
  readonly token: () => TermToken;
  /** Earlier terms. */
  readonly listed: () => readonly TermToken[];
  readonly minted: ReadonlySet<string>;
  /** The predecessor's final checkpoint from the released Lease; only set in the first term. */
  readonly final: Proof | undefined;
  /** The other cluster's epoch whose replacement a user has approved. */
  readonly approved: () => string | undefined;
  /** Call this before the term is sent to the Store for the first time. */
  readonly use: () => void;
  /** Call this once the Store has stored this count for the term. */
  readonly confirm: (count: number) => void;
  readonly confirmed: () => number;
  /** Number of times that LE7 was detected. */
  readonly wentBack: () => number;
}

/** The Lease was not written: its list of terms is not the one written last (LE7). */
class WentBackError extends Error {
  override readonly name = "WentBackError";
  constructor() {
    super("the Lease lists other terms than were written last: the API server was restored to an older revision");
  }
}

/** Earlier terms that the Lease lists. */
const TERMS_MAX = 8;
const TERM_CHARACTERS = 12;
const LEASE_SECONDS = 15;
const RENEW_DEADLINE_MS = 10_000;
const RETRY_MS = 2000;
/** Renewal period of a quiet cluster, and the delay after a failed one: 3 + 5 (a call's time) + 1 s are within the renew deadline. */
const [QUIET_RENEW_MS, QUIET_RETRY_MS] = [3000, 1000];
/** Poll interval of candidates (upstream: 2 s), so that a released Lease is taken within 2 s. */
const LOOK_MS = 1000;
const JITTER = 1.2;
/** Number of conflicting changes of the held Lease that one write tolerates. */
const WRITES_MAX = 3;

/** The terms that this process last saw in the Lease, by its client for the cluster. */
const termsSeen = new WeakMap<KubeWriter, readonly TermToken[]>();

/** The terms of a deleted Lease. Its leader may have raised the count once since the last read. */
function termsOfDeleted(ports: LeasePorts): readonly TermToken[] {
  return (termsSeen.get(ports.writer) ?? []).map((token, i, all) => (i === all.length - 1 ? { ...token, count: token.count + 1 } : token));
}

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
      const terms = lease ? parseTerms(lease.metadata?.annotations?.[LEASE_TERMS]) : termsOfDeleted(ports);
      if (lease) termsSeen.set(ports.writer, terms);
      const holder = lease?.spec?.holderIdentity ?? "";
      const durationMs = (lease?.spec?.leaseDurationSeconds ?? LEASE_SECONDS) * 1000;
      if (!lease || holder === "" || holder === options.identity || (seen && clock.now() - seen.atMs >= durationMs)) {
        const askedMs = clock.now();
        const annotations = lease?.metadata?.annotations;
        const listed = terms.slice(-TERMS_MAX);
        const token = newToken(random);
        const final = holder === "" ? parseFinal(annotations?.[LEASE_FINAL], lease?.spec?.leaseTransitions ?? 0) : undefined;
        const approved = annotations?.[LEASE_APPROVED];
        const written = await write(ports, options, lease, { acquire: true, terms: termsText([...listed, token]) });
        return hold(ports, options, { lease: written, askedMs, listed, token, final, approved }, signal);
      }
      ports.onHeld?.();
      if (holder !== waitingFor) log.info("waiting for the watcher's Lease", { lease: where, holder });
      waitingFor = holder;
    } catch (error) {
      if (!isConflict(error) && !isAlreadyExists(error))
        log.warn("failed to acquire the watcher's Lease, retrying", { lease: where, error: describeError(error) });
    }
    await clock.after(Math.floor(LOOK_MS * (1 + random.next() * (JITTER - 1))), signal).catch(() => undefined);
  }
  return undefined;
}

interface Acquired {
  readonly lease: Lease;
  readonly askedMs: number;
  readonly listed: readonly TermToken[];
  readonly token: TermToken;
  readonly final: Proof | undefined;
  readonly approved: string | undefined;
}

function hold(ports: LeasePorts, options: LeaseOptions, acquired: Acquired, signal: AbortSignal): Leadership {
  const { clock, log, metrics, random } = ports;
  const lost = new AbortController();
  metrics?.set("leader_election_master_status", { name: options.name }, 1);
  lost.signal.addEventListener("abort", () => metrics?.set("leader_election_master_status", { name: options.name }, 0));
  const over = AbortSignal.any([signal, lost.signal]);
  let { lease, askedMs: renewedMs } = acquired;
  let fence = versionOf(lease);
  let { listed, token, approved } = acquired;
  const minted = new Set([token.term]);
  /** The token's last confirmed count; undefined until the Store has confirmed a count. */
  let confirmed: number | undefined;
  let isUsed = false;
  /** LE7: true until the next raise succeeds. */
  let hasWentBack = false;
  let wentBack = 0;
  /** The lists of terms in recent writes. The first entry is from the last write that got a response. */
  let attempts = [termsText([...listed, token])];
  const kept = (): readonly TermToken[] => (isUsed ? [...listed, { ...token, count: confirmed ?? token.count }] : listed);

  const holds = (): boolean => {
    if (!lost.signal.aborted && clock.now() - renewedMs > RENEW_DEADLINE_MS) lost.abort(new Error("the Lease was not renewed for 10 s"));
    return !lost.signal.aborted;
  };

  /** Writes the Lease. @returns whether this process still held it. @throws when that is unknown */
  const writeOurs = async (terms: () => string, given: { readonly released?: true; readonly final?: string } = {}): Promise<boolean> => {
    for (let tries = 1; ; tries++) {
      const text = terms();
      attempts = [...attempts, text];
      try {
        const identity = given.released ? "" : options.identity;
        const { uid } = lease.metadata ?? {};
        lease = await write(ports, { ...options, identity }, lease, { ...given, terms: text });
        if (lease.metadata?.uid !== uid && !given.released) ports.onRecreated?.();
        attempts = attempts.slice(attempts.indexOf(text));
        termsSeen.set(ports.writer, parseTerms(text));
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
        const annotations = lease.metadata?.annotations;
        approved = annotations?.[LEASE_APPROVED] ?? approved;
        if (!hasWentBack && !attempts.includes(annotations?.[LEASE_TERMS] ?? "")) {
          hasWentBack = true;
          wentBack++;
          throw new WentBackError();
        }
      }
    }
  };
  const renew = async (): Promise<void> => {
    const askedMs = clock.now();
    if (!holds()) throw lost.signal.reason as Error;
    const { term } = token;
    const raised = confirmed === token.count ? { term, count: token.count + 1 } : token;
    if (!(await writeOurs(() => termsText([...listed, raised])))) throw lost.signal.reason as Error;
    if (token.term === term) token = raised; // LE9
    renewedMs = askedMs;
  };
  const raise = async (forgets: boolean): Promise<string> => {
    listed = forgets || hasWentBack ? [] : kept().slice(-TERMS_MAX);
    token = newToken(random);
    minted.add(token.term);
    [confirmed, isUsed] = [undefined, false];
    try {
      await renew();
    } catch (error) {
      if (!(error instanceof WentBackError)) throw error;
      return await raise(true);
    }
    hasWentBack = false;
    fence = versionOf(lease);
    return fence;
  };

  let isQuiet = false;
  const keep = async (): Promise<void> => {
    let hasFailed = false;
    for (;;) {
      const delayMs = isQuiet ? (hasFailed ? QUIET_RETRY_MS : QUIET_RENEW_MS) : RETRY_MS;
      await clock.after(delayMs, over).catch(() => undefined);
      if (over.aborted) return;
      if (hasWentBack) continue; // LE7: the next write is a raise
      hasFailed = false;
      await renew().catch((error: unknown) => {
        hasFailed = true;
        if (!lost.signal.aborted)
          log.warn("failed to renew the watcher's Lease, retrying", { lease: options.name, error: describeError(error) });
      });
    }
  };
  /** Ends the leadership at the renew deadline, even while a renewal is in flight. */
  const watch = async (): Promise<void> => {
    while (!over.aborted && holds()) await clock.after(renewedMs + RENEW_DEADLINE_MS + 1 - clock.now(), over).catch(() => undefined);
  };
  void keep();
  void watch();
  return {
    fence: () => fence,
    holds,
    raise: (forgets = false) => raise(forgets),
    setQuiet: (quiet) => void (isQuiet = quiet),
    lost: lost.signal,
    release: async (final) => {
      lost.abort(new Error("released"));
      const transitions = lease.spec?.leaseTransitions ?? 0;
      const given = { released: true, ...(final && !hasWentBack && { final: finalText(final, transitions) }) } as const;
      await writeOurs(() => termsText(kept()), given);
    },
    lineage: {
      token: () => token,
      listed: () => listed,
      minted,
      final: acquired.final,
      approved: () => approved,
      use: () => void (isUsed = true),
      confirm: (count) => void (confirmed = count),
      confirmed: () => confirmed ?? 0,
      wentBack: () => wentBack,
    },
  };
}

/** A Lease call ends within 5 s: a longer one would delay detecting that the Lease is lost. */
function retryBudgetOf({ clock }: LeasePorts): RetryBudget {
  return retryBudgetUntil(clock, clock.now() + LEASE_CALL_WAIT_MS_MAX, LEASE_CALL_TIMEOUT_MS);
}

async function readLease(ports: LeasePorts, options: LeaseOptions): Promise<Lease | undefined> {
  return (await ports.reader.get("leases", options.namespace, options.name, { retryBudget: retryBudgetOf(ports) })) as Lease | undefined; // the resource determines the type
}

interface WriteOptions {
  readonly acquire?: boolean;
  readonly released?: boolean;
  readonly terms: string;
  readonly final?: string;
}

async function write(
  ports: LeasePorts,
  options: LeaseOptions,
  current: Lease | undefined,
  { acquire = false, released = false, terms, final }: WriteOptions,
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
      annotations: {
        ...othersAnnotations(current),
        [LEASE_TERMS]: terms,
        ...(final !== undefined && { [LEASE_FINAL]: final }),
      },
      ...(current?.metadata?.resourceVersion !== undefined && { resourceVersion: current.metadata.resourceVersion }),
    },
    spec: {
      holderIdentity: options.identity,
      leaseDurationSeconds: released ? 1 : LEASE_SECONDS,
      acquireTime: acquire && taken ? now : (before?.acquireTime ?? now),
      renewTime: now,
      leaseTransitions: (before?.leaseTransitions ?? 0) + (acquire && taken && before ? 1 : 0),
    },
  };
  const request = { resource: "leases" as const, namespace: options.namespace, body, retryBudget: retryBudgetOf(ports) };
  // The response to a request for a Lease has this type.
  return (current ? await ports.writer.replace({ ...request, name: options.name }) : await ports.writer.create(request)) as Lease;
}

function othersAnnotations(lease: Lease | undefined): Readonly<Record<string, string>> {
  const { [LEASE_TERMS]: _, [LEASE_FINAL]: __, [LEASE_APPROVED]: ___, ...others } = lease?.metadata?.annotations ?? {};
  return others;
}

function termsText(tokens: readonly TermToken[]): string {
  return tokens.map(tokenText).join(" ");
}

function newToken(random: Random): TermToken {
  return { term: Array.from({ length: TERM_CHARACTERS }, () => Math.floor(random.next() * 36).toString(36)).join(""), count: 0 };
}

function versionOf(lease: Lease): string {
  return lease.metadata?.resourceVersion ?? "0";
}

/** Lease times are RFC 3339 with microseconds. */
function microTime(ms: number): string {
  return new Date(ms).toISOString().replace("Z", "000Z");
}
