/**
 * This process's share of the clusters of a deployment with several watchers: heartbeats, and turns to serve a cluster.
 *
 * CX1 without a response from the Store nothing changes: turns continue, and none begins.
 * CX2 a watcher counts as waiting for a cluster's Lease only while the Store grants the move. So at most MOVES_MAX leaders release at once.
 * CX3 a move that does not end within MOVE_MS_MAX, and a session that fails, is not followed by a move of that cluster for AVOIDED_MS.
 */
import type { Clock, Log, Random } from "@deltaloop/base";
import type { Metrics } from "@deltaloop/base/metrics";
import { describeError } from "@deltaloop/kube/client";
import { MEMBER_SILENT_MS } from "@deltaloop/store/ports";
import type { BeatResult, Members } from "@deltaloop/store/ports";
import { leadersOf, nominate } from "./nominate.ts";
import type { Role } from "./nominate.ts";

export interface ClusterSharesPorts {
  readonly members: Members;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics?: Pick<Metrics, "set">;
}

export interface ClusterShares {
  /** Calls `run` whenever this watcher is nominated for the cluster, with a signal that ends the turn. Resolves when `signal` has aborted. */
  serve(cid: string, signal: AbortSignal, run: (signal: AbortSignal) => Promise<void>): Promise<void>;
  /** Reports this watcher's part in a cluster during its turn. */
  note(cid: string, role: Role): void;
  /** Reports that a session of the cluster has failed (CX3). */
  failed(cid: string): void;
  /** Clusters that other watchers lead; undefined before the first heartbeat. */
  ledByOthers(): ReadonlySet<string> | undefined;
  /** Resolves when this watcher has left, after `ends` has aborted. */
  readonly left: Promise<void>;
}

const BEAT_MS = 2_000;
/** A change of roles or moves is published at once, but not more often than this. */
const BEAT_MS_MIN = 250;
export const MOVE_MS_MAX = 30_000;
export const AVOIDED_MS = 5 * 60_000;

interface Share {
  role: Role;
  unledSinceMs?: number;
  /** When the move in progress was granted. */
  movingSinceMs?: number;
  avoidedUntilMs: number;
  /** Ends the present turn. */
  turn?: AbortController;
  /** Begins a turn. */
  begin?: () => void;
}

/** Sends heartbeats as `self` until `ends` aborts. */
export function shareClusters(
  self: string,
  { members, clock, random, log, metrics }: ClusterSharesPorts,
  ends: AbortSignal,
): ClusterShares {
  const shares = new Map<string, Share>();
  let granted: ReadonlySet<string> = new Set();
  let moves: readonly string[] = [];
  let isFailing = false;
  let others = 0;
  let ledByOthers: ReadonlySet<string> | undefined;
  let wake: (() => void) | undefined;
  let isStale = false;

  function soon(): void {
    isStale = true;
    wake?.();
  }

  async function beat(): Promise<void> {
    isStale = false;
    const all = [...shares];
    const leads = all.flatMap(([cid, { role }]) => (role === "leading" ? [cid] : []));
    const waits = all.flatMap(([cid, { role }]) => (role === "waiting" && granted.has(cid) ? [cid] : [])); // CX2
    const named = moves;
    const view = await members.beat(self, { leads, waits }, named);
    granted = new Set(view.granted);
    apply(view);
    const isSame = moves.length === named.length && moves.every((move) => named.includes(move));
    if (!isSame) isStale = true;
  }

  function apply(view: BeatResult): void {
    const { nowMs } = view;
    const live = view.others.filter(({ beatMs }) => nowMs - beatMs < MEMBER_SILENT_MS);
    if (live.length !== others) log.info("the number of other watchers changed", { from: others, to: live.length });
    others = live.length;
    const leaders = leadersOf(live);
    ledByOthers = new Set(leaders.keys());
    for (const [cid, share] of shares) {
      if (leaders.has(cid) || share.role === "leading") delete share.unledSinceMs;
      else share.unledSinceMs ??= nowMs;
      if (!granted.has(cid) || share.role === "leading") delete share.movingSinceMs;
      else if (nowMs - (share.movingSinceMs ??= nowMs) >= MOVE_MS_MAX) share.avoidedUntilMs = clock.now() + AVOIDED_MS; // CX3
    }
    const nomination = nominate(
      self,
      view,
      [...shares].map(([cid, { role, turn, unledSinceMs, avoidedUntilMs }]) => ({
        cid,
        role: turn?.signal.aborted ? "none" : role, // a turn that ends seeks no longer
        ...(unledSinceMs !== undefined && { unledSinceMs }),
        isAvoided: clock.now() < avoidedUntilMs,
      })),
    );
    moves = nomination.moves;
    for (const [cid, share] of shares) {
      if (nomination.serves.has(cid)) share.begin?.();
      else if (share.turn && !share.turn.signal.aborted) {
        if (share.role === "leading") log.info("releasing a cluster to another watcher", { id: cid });
        share.turn.abort(new Error("another watcher serves the cluster"));
      }
    }
    const roles = [...shares.values()].map(({ role }) => role);
    for (const role of ["seeking", "waiting", "leading"] as const)
      metrics?.set("deltaloop_clusters", { role }, roles.filter((each) => each === role).length);
  }

  async function run(): Promise<void> {
    while (!ends.aborted) {
      try {
        await beat();
        if (isFailing) log.info("heartbeats succeed again");
        isFailing = false;
      } catch (error) {
        if (!isFailing) log.warn("heartbeat failed: no cluster changes its watcher", { error: describeError(error) }); // CX1
        isFailing = true;
      }
      await clock.after(BEAT_MS_MIN, ends).catch(() => undefined);
      if (isStale || ends.aborted) continue;
      const woken = new AbortController();
      wake = () => woken.abort("a role changed");
      const waitMs = BEAT_MS * (0.9 + random.next() / 5) - BEAT_MS_MIN;
      await clock.after(waitMs, AbortSignal.any([ends, woken.signal])).catch(() => undefined);
      wake = undefined;
    }
    await members.leave(self).catch((error: unknown) => log.warn("failed to leave the watchers", { error: describeError(error) }));
  }

  const left = run();
  return {
    left,
    ledByOthers: () => ledByOthers,
    note(cid, role) {
      const share = shares.get(cid);
      if (!share || share.role === role) return;
      share.role = role;
      soon();
    },
    failed(cid) {
      const share = shares.get(cid);
      if (share) share.avoidedUntilMs = clock.now() + AVOIDED_MS;
    },
    async serve(cid, signal, run) {
      const share: Share = { role: "none", avoidedUntilMs: 0 };
      shares.set(cid, share);
      soon();
      signal.addEventListener("abort", () => share.begin?.(), { once: true });
      while (!signal.aborted) {
        await new Promise<void>((resolve) => (share.begin = resolve));
        delete share.begin;
        if (signal.aborted) break;
        share.turn = new AbortController();
        share.role = "seeking";
        await run(AbortSignal.any([signal, share.turn.signal])).catch((error: unknown) =>
          log.error("the session of a cluster failed", { id: cid, error: describeError(error) }),
        );
        delete share.turn;
        share.role = "none";
        soon();
      }
      if (shares.get(cid) === share) shares.delete(cid);
    },
  };
}
