/**
 * Which of the watchers of a deployment seeks the Lease of each cluster. This only nominates: the cluster's Lease and fence decide.
 *
 * NO1 watchers are ranked per cluster by a hash of both (rendezvous hashing). The order of two watchers does not depend on the others. A
 *     leader releases only to a watcher with a higher rank, so no cluster goes back and forth between watchers that know different members.
 * NO2 a leader releases only to a watcher that already waits for the Lease.
 * NO3 a watcher takes a led cluster only if it has the highest rank, for SETTLED_MS, and the Store has granted the move (MR3).
 * NO4 a cluster without a leader is sought by the live watcher of the highest rank at once, and by each further one RANK_WAIT_MS later. So a
 *     watcher that cannot reach the cluster delays it by that time.
 */
import { hash } from "node:crypto";

import { MEMBER_SILENT_MS, MOVES_MAX } from "@deltaloop/store/ports";
import type { BeatResult, Member } from "@deltaloop/store/ports";

/** How long a watcher that joined or fell silent is not taken into account for moves. */
export const SETTLED_MS = 10_000;
export const RANK_WAIT_MS = 15_000;

/** This watcher's part in one cluster. */
export type Role = "none" | "seeking" | "waiting" | "leading";

export interface ClusterShare {
  readonly cid: string;
  readonly role: Role;
  /** When no watcher was known to lead it any more, by the Store's clock; absent while one leads it. */
  readonly unledSinceMs?: number;
  /** A recent attempt to take or serve the cluster failed, so that no move of it begins. */
  readonly isAvoided: boolean;
}

export interface Nomination {
  /** Clusters to serve: sessions for them begin or continue, all others end. */
  readonly serves: ReadonlySet<string>;
  /** Clusters to move to this watcher from a leader: the granted ones, then wanted ones. At most MOVES_MAX. */
  readonly moves: readonly string[];
}

/** Decides for the watcher `self`, whose last heartbeat had the result `view`. */
export function nominate(self: string, view: BeatResult, clusters: readonly ClusterShare[]): Nomination {
  const { nowMs } = view;
  const granted = new Set(view.granted);
  const live = view.others.filter(({ beatMs }) => nowMs - beatMs < MEMBER_SILENT_MS);
  const settled = view.others.filter(
    ({ joinedMs, beatMs }) => nowMs - joinedMs >= SETTLED_MS && nowMs - beatMs < MEMBER_SILENT_MS + SETTLED_MS,
  );
  const leaders = leadersOf(live);
  const serves = new Set<string>();
  const moves: string[] = [];
  for (const cluster of clusters) {
    const { cid, role } = cluster;
    const own = view.others.length === 0 ? "" : rankOf(self, cid);
    const outranks = ({ id }: Member): boolean => rankOf(id, cid) > own;
    const leader = leaders.get(cid);
    if (role === "leading") {
      const isReleased = live.some((other) => other.waits.includes(cid) && settled.includes(other) && outranks(other));
      if (!isReleased) serves.add(cid);
    } else if (leader === undefined) {
      const waitMs = RANK_WAIT_MS * live.filter(outranks).length;
      if (role !== "none" || nowMs - (cluster.unledSinceMs ?? nowMs) >= waitMs) serves.add(cid);
      if (granted.has(cid) && !cluster.isAvoided) moves.push(cid); // it was released and is still in motion
    } else if (!cluster.isAvoided && nowMs - view.joinedMs >= SETTLED_MS && !settled.some(outranks) && !outranks(leader)) {
      moves.push(cid);
      if (granted.has(cid)) serves.add(cid);
    }
  }
  return { serves, moves: moves.toSorted((a, b) => Number(granted.has(b)) - Number(granted.has(a))).slice(0, MOVES_MAX) };
}

/** The live watcher that leads each cluster. */
export function leadersOf(live: readonly Member[]): ReadonlyMap<string, Member> {
  return new Map(live.flatMap((member) => member.leads.map((cid) => [cid, member] as const)));
}

/** Orders watchers for a cluster; unique per watcher. */
export function rankOf(watcher: string, cid: string): string {
  return hash("sha256", `${cid} ${watcher}`, "hex");
}
