/**
 * Fields in the hash of an owner's intents that are not intents: the text form of a decision mark, the number of pods that left, the
 * number of pod names that were drawn, and last-write records of user controllers. Older builds ignore them.
 */
import type { DecisionMark } from "./ports/store.ts";

/** These fields start with `t:`, the prefix of token fields, so that an older build treats them as tokens without ops. */
export const MARK_FIELD = "t:mark";
export const LEFT_FIELD = "t:left";
export const DRAWN_FIELD = "t:drawn";

/** `listed 1234 0 5678 1772359200000 1772359190000,1772359195000` */
export function markText({ kind, fence, suspects, version, atMs, disputedMs = [] }: DecisionMark): string {
  return [kind, fence, suspects, version, Math.floor(atMs), disputedMs.map(Math.floor).join(",")].join(" ");
}

/** Returns undefined for a text that this build cannot read; the owner then has no mark. */
export function parseMark(text: string | undefined): DecisionMark | undefined {
  const fields = /^(listed|created|disputed) (\d+) (\d+) (\d+) (\d+) ([\d,]*)$/.exec(text ?? "");
  if (!fields) return undefined;
  const [, kind, fence = "", suspects, version = "", atMs, disputed = ""] = fields;
  return {
    kind: kind as DecisionMark["kind"], // the pattern ensures this
    fence,
    suspects: Number(suspects),
    version,
    atMs: Number(atMs),
    ...(disputed !== "" && { disputedMs: disputed.split(",").map(Number) }),
  };
}

/** Returns undefined for a text that is not a count; drawing then starts from 0. */
export function parseDrawn(text: string | undefined): number | undefined {
  return /^\d{1,15}$/.test(text ?? "") ? Number(text) : undefined;
}

/** Prefix of the field of a last-write record (redis/rows.ts). */
export const RECORD_FIELD = "t:w:";
