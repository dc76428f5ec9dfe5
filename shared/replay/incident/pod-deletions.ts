/** Deletions of pods that their controller has no reason for: no scale-down precedes them, and the pod is neither evicted nor finished. */
import type { SeenPod } from "./seen.ts";

export interface PodDeletion {
  readonly name: string;
  /** Time of the first record of the deletion. */
  readonly atMs: number;
}

/** Longest time for which a scale-down explains deletions. */
const SCALE_DOWN_MS = 60_000;
/** Records of different resources may be in another order than the writes. */
const DISORDER_MS = 1_000;
const DELETIONS_MAX = 100;

export class PodDeletions {
  readonly #deletions = new Map<string, readonly PodDeletion[]>();
  readonly #scaledDownMs = new Map<string, number>();

  /** @param ownerUid the owner whose `spec.replicas` fell */
  scaledDown(ownerUid: string, atMs: number): void {
    this.#scaledDownMs.set(ownerUid, atMs);
    const known = this.#deletions.get(ownerUid);
    if (known !== undefined)
      this.#deletions.set(
        ownerUid,
        known.filter((each) => each.atMs < atMs - DISORDER_MS),
      );
  }

  deleted({ ownerUid, name, phase, status }: SeenPod, atMs: number): void {
    const isActive = phase !== "Succeeded" && phase !== "Failed";
    if (ownerUid === undefined || !isActive || status.conditions.some(({ type }) => type === "DisruptionTarget")) return;
    if (atMs - (this.#scaledDownMs.get(ownerUid) ?? -Infinity) < SCALE_DOWN_MS) return;
    this.#deletions.set(ownerUid, [...(this.#deletions.get(ownerUid) ?? []), { name, atMs }].slice(-DELETIONS_MAX));
  }

  /** Oldest first. */
  of(ownerUid: string): readonly PodDeletion[] {
    return this.#deletions.get(ownerUid) ?? [];
  }
}
