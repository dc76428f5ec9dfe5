/** A decision mark as text, and the number of pods that left: fields of the hash of an owner's intents, which older builds ignore. */
import type { DecisionMark } from "./ports/store.ts";

/** Both begin as the fields of tokens do, which are hexadecimal: a build that does not know them takes them for a token without ops. */
export const MARK_FIELD = "t:mark";
export const LEFT_FIELD = "t:left";

/** `listed 1234 0 5678 1772359200000 1772359190000,1772359195000` */
export function markText({ kind, fence, suspects, version, atMs, disputedMs = [] }: DecisionMark): string {
  return [kind, fence, suspects, version, Math.floor(atMs), disputedMs.map(Math.floor).join(",")].join(" ");
}

/** Undefined for a text that this build cannot read: then the owner has no mark. */
export function parseMark(text: string | undefined): DecisionMark | undefined {
  const fields = /^(listed|created|disputed) (\d+) (\d+) (\d+) (\d+) ([\d,]*)$/.exec(text ?? "");
  if (!fields) return undefined;
  const [, kind, fence = "", suspects, version = "", atMs, disputed = ""] = fields;
  return {
    kind: kind as DecisionMark["kind"], // by the pattern
    fence,
    suspects: Number(suspects),
    version,
    atMs: Number(atMs),
    ...(disputed !== "" && { disputedMs: disputed.split(",").map(Number) }),
  };
}
