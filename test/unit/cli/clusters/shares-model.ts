/**
 * Several watchers share clusters in virtual time: the real heartbeats and nominations over a model of the clusters' Leases. Watchers can
 * crash, pause, see other member lists, have wrong clocks, or fail to reach a cluster.
 */
import { shareClusters } from "../../../../cli/watch/cluster-shares.ts";
import type { ClusterShares } from "../../../../cli/watch/cluster-shares.ts";
import type { Clock } from "../../../../shared/base/clock.ts";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import type { VirtualClock } from "../../../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../../../shared/base/memory/random.ts";
import type { Random } from "../../../../shared/base/random.ts";
import { createMemoryMembers } from "../../../support/memory-members.ts";
import type { Members } from "../../../../shared/store/ports/members.ts";
import { silentLog } from "../../../support/silent-log.ts";

/** As in shared/controllers/cache/watcher/leader-election.ts. */
const [LEASE_MS, RENEW_DEADLINE_MS, RENEW_MS, LOOK_MS] = [15_000, 10_000, 2_000, 1_000];
const DRAIN_MS = 400;
const RETRY_MS = 5_000;

interface Lease {
  holder: string;
  version: number;
}

export interface ModelWatcher {
  readonly id: string;
  readonly shares: ClusterShares;
  /** Clusters that it leads, by its own belief. */
  readonly leads: Map<string, { renewedMs: number }>;
  /** Clusters that it cannot reach. */
  readonly unreachable: Set<string>;
  /** Members that it does not see. */
  readonly hidden: Set<string>;
  isPaused: boolean;
  isDead: boolean;
  /** Ends it in order. */
  stop(): void;
}

export class SharesModel {
  readonly clock: VirtualClock = createVirtualClock(1_772_359_200_000);
  readonly random: Random;
  readonly watchers: ModelWatcher[] = [];
  /** Changes of leaders so far: `time cluster watcher`. */
  readonly changes: { readonly atMs: number; readonly cid: string; readonly to: string }[] = [];
  /** Clusters between the release to another watcher and its acquisition, with those that waited. */
  readonly moving = new Map<string, readonly ModelWatcher[]>();
  mostMoving = 0;
  /** Sessions now for clusters that another watcher leads, and the most so far. */
  readonly #besides = new Set<string>();
  mostBesides = 0;
  /** Sessions begun so far. */
  sessions = 0;
  /** Heartbeats so far. */
  beats = 0;
  readonly #members: Members;
  readonly #leases = new Map<string, Lease>();
  readonly #cids: readonly string[];
  #started = 0;

  constructor(cids: readonly string[], seed: number) {
    this.#cids = cids;
    this.random = createSeededRandom(seed);
    this.#members = createMemoryMembers(this.clock);
  }

  /** Starts a watcher whose clock is `aheadMs` ahead. */
  start(aheadMs = 0): ModelWatcher {
    const id = `watcher-${++this.#started}`;
    const ends = new AbortController();
    const clock = this.#clockOf(() => watcher, aheadMs);
    const members: Members = {
      beat: async (...args) => {
        await this.#running(watcher);
        this.beats++;
        const view = await this.#members.beat(...args);
        await this.#running(watcher);
        return { ...view, others: view.others.filter((other) => !watcher.hidden.has(other.id)) };
      },
      leave: async (own) => await this.#members.leave(own),
    };
    const shares = shareClusters(id, { members, clock, random: this.random, log: silentLog }, ends.signal);
    const watcher: ModelWatcher = {
      ...{ id, shares, leads: new Map(), unreachable: new Set(), hidden: new Set(), isPaused: false, isDead: false },
      stop: () => ends.abort(),
    };
    this.watchers.push(watcher);
    for (const cid of this.#cids)
      void shares.serve(cid, ends.signal, async (signal) => await this.#session(watcher, clock, cid, signal, ends.signal));
    return watcher;
  }

  live(): readonly ModelWatcher[] {
    return this.watchers.filter(({ isDead, isPaused }) => !isDead && !isPaused);
  }

  /** The watchers that may send for a cluster now (LE3, LE4). */
  leadersOf(cid: string): readonly string[] {
    return this.live().flatMap(({ id, leads }) =>
      this.clock.now() - (leads.get(cid)?.renewedMs ?? Number.NEGATIVE_INFINITY) <= RENEW_DEADLINE_MS ? [id] : [],
    );
  }

  crash(watcher: ModelWatcher): void {
    watcher.isDead = true;
  }

  /** A watcher that waits for the pause of its process to end. */
  async #running(watcher: ModelWatcher): Promise<void> {
    if (watcher.isDead) await new Promise(() => undefined);
    while (watcher.isPaused) await this.clock.after(100);
  }

  #clockOf(watcher: () => ModelWatcher, aheadMs: number): Clock {
    return {
      now: () => this.clock.now() + aheadMs,
      after: async (ms, signal) => {
        await this.clock.after(ms, signal);
        await this.#running(watcher());
      },
    };
  }

  /** A session of one cluster: waits for the Lease, renews it, and releases it. */
  async #session(watcher: ModelWatcher, clock: Clock, cid: string, signal: AbortSignal, ends: AbortSignal): Promise<void> {
    this.sessions++;
    const { shares, leads, id } = watcher;
    const wait = async (ms: number) => await clock.after(ms * (1 + this.random.next() / 5), signal).catch(() => undefined);
    while (!signal.aborted) {
      let seen: { readonly version: number; readonly atMs: number } | undefined;
      while (!signal.aborted) {
        if (watcher.unreachable.has(cid)) {
          shares.note(cid, "seeking");
          shares.failed(cid);
          await wait(RETRY_MS);
          continue;
        }
        const lease = this.#leases.get(cid) ?? { holder: "", version: 0 };
        if (lease.version !== seen?.version) seen = { version: lease.version, atMs: clock.now() };
        if (lease.holder === "" || clock.now() - seen.atMs >= LEASE_MS) break;
        shares.note(cid, "waiting");
        this.#besides.add(`${id} ${cid}`);
        this.mostBesides = Math.max(this.mostBesides, this.#besides.size);
        await wait(LOOK_MS);
      }
      this.#besides.delete(`${id} ${cid}`);
      if (signal.aborted) return;
      this.#leases.set(cid, { holder: id, version: (this.#leases.get(cid)?.version ?? 0) + 1 });
      leads.set(cid, { renewedMs: this.clock.now() });
      this.moving.delete(cid);
      this.changes.push({ atMs: this.clock.now(), cid, to: id });
      shares.note(cid, "leading");
      while (!signal.aborted) {
        await wait(RENEW_MS);
        const lease = this.#leases.get(cid);
        const held = leads.get(cid);
        if (!lease || !held || lease.holder !== id || this.clock.now() - held.renewedMs > RENEW_DEADLINE_MS) break;
        if (watcher.unreachable.has(cid)) continue;
        lease.version++;
        held.renewedMs = this.clock.now();
      }
      if (signal.aborted && !ends.aborted) {
        const waiting = this.watchers.filter((other) => other !== watcher && !other.leads.has(cid));
        this.moving.set(cid, waiting);
        this.mostMoving = Math.max(this.mostMoving, this.#inMotion());
      }
      await clock.after(DRAIN_MS);
      leads.delete(cid);
      const lease = this.#leases.get(cid);
      if (lease?.holder === id && !watcher.unreachable.has(cid)) this.#leases.set(cid, { holder: "", version: lease.version + 1 });
      shares.note(cid, "seeking");
    }
  }

  /** Clusters that some live watcher has released to another. */
  #inMotion(): number {
    for (const [cid, waiting] of this.moving) if (waiting.every(({ isDead, isPaused }) => isDead || isPaused)) this.moving.delete(cid);
    return this.moving.size;
  }
}
