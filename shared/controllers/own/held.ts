/** Held objects (OW4 of perform.ts): their records are stored beside the last-write records, under an id of their own. */
import { contestedBackOffMs } from "@deltaloop/sdk/writes";
import type { LastWrite } from "@deltaloop/sdk/writes";

const HELD = "held:";
/** Enough for the longest back-off. */
const HELD_TIMES_MAX = 8;

/** An object that is held, and until when; then one more attempt is due. */
export interface Held {
  readonly id: string;
  readonly reason: string;
  readonly untilMs: number;
}

/** The id of a hold's record. */
export function heldId(id: string): string {
  return `${HELD}${id}`;
}

/** The id of the object that a record is about, be it a last-write record or that of a hold. */
export function objectOfRecord(id: string): string {
  return id.startsWith(HELD) ? id.slice(HELD.length) : id;
}

/** The record of a hold. @param before of the hold that it continues */
export function holdRecord(before: LastWrite | undefined, uid: string, reason: string, nowMs: number): LastWrite {
  return { uid, sent: reason, content: "", revertsMs: [...(before?.revertsMs ?? []), nowMs].slice(-HELD_TIMES_MAX) };
}

/** Objects for which nothing is sent until `untilMs`. */
export function heldBy(records: ReadonlyMap<string, LastWrite>): readonly Held[] {
  return [...records].flatMap(([id, { sent, revertsMs }]) =>
    id.startsWith(HELD)
      ? [{ id: objectOfRecord(id), reason: sent, untilMs: (revertsMs.at(-1) ?? 0) + contestedBackOffMs(revertsMs.length) }]
      : [],
  );
}
