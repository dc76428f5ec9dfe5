/** Cluster lineage (shared/store/ports/lineage.ts) in the memory Store. */
import { compareResourceVersions } from "@deltaloop/kube/objects";
import { recentEpochs } from "../../ports/lineage.ts";
import type { EpochStore, Lineage, Proof } from "../../ports/store.ts";
import type { EpochData, MemoryData } from "./data.ts";

/** LN1: whether the caller wants to replace the current epoch. */
export function isOver(epoch: EpochData | undefined, over: string | Lineage | undefined): boolean {
  if (over === undefined || typeof over === "string") return epoch?.record.epoch === over;
  return epoch !== undefined && lineageText(lineageOf(epoch)) === lineageText(over);
}

function lineageText({ record, token, checkpoint }: Lineage): string {
  return [record.epoch, token?.term, token?.count, checkpoint?.fence, checkpoint?.number].join(" ");
}

export function lineageOf({ record, token, tokenFence, checkpoint }: EpochData): Lineage {
  // a leader of an older build has stored a checkpoint since the token was stored
  const isStale = checkpoint !== undefined && compareResourceVersions(checkpoint.fence, tokenFence) > 0;
  return { record, ...(token && !isStale && { token }), ...(checkpoint && { checkpoint }) };
}

export function lineage(data: MemoryData, nowMs: number): Awaited<ReturnType<EpochStore["lineage"]>> {
  return { ...(data.epoch && { current: lineageOf(data.epoch) }), recentEpochs: recentEpochs(data.openedMs, nowMs) };
}

/** LN2: whether the proof shows that the Store still has the last leader's state. */
export function proves({ token, checkpoint: held }: EpochData, proof: Proof | undefined): boolean {
  if (!proof || !token || !held || token.term !== proof.token.term || held.fence !== proof.checkpoint.fence) return false;
  const [counts, numbers] = [token.count - proof.token.count, held.number - proof.checkpoint.number];
  return proof.isExact ? counts === 0 && numbers === 0 : counts >= 0 && numbers >= 0;
}
