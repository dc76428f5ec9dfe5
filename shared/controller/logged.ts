/**
 * What decisions look like to people, logs and captures: without the words of others. The API server itself gets everything
 * whole, as upstream's controllers write it.
 */
import { withoutForeignMessages } from "../api/condition-messages.ts";
import type { EventNote, Write } from "./writes.ts";

/** A status without what its conditions quote. Of all writes only a status holds texts. */
export function loggedWrite(write: Write): Write {
  if (write.kind !== "UpdateStatus") return write;
  // The same status, conditions and all; only texts differ.
  return { ...write, status: withoutForeignMessages(write.status) };
}

/** Our warnings quote the API server after the first colon: `Error creating: admission webhook "x" denied the request: …`. */
export function loggedNote(note: EventNote): EventNote {
  return note.type === "Warning" ? { ...note, message: note.message.replace(/: .*$/su, ": (the answer is in the Event)") } : note;
}
