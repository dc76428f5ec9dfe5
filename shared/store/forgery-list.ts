/** How much of the forgeries a Store keeps, whichever it is: whoever forges messages must not fill it. */
import type { Forgery } from "./ports/store.ts";

export const FORGERIES_MAX = 1_000;
const FIELD_CHARACTERS_MAX = 200;

/** The entry with its texts cut: under 2 KiB, whatever they were. */
export function cutForgery({ messageId, where, why, bytes, atMs }: Forgery): Forgery {
  const cut = (text: string): string => text.slice(0, FIELD_CHARACTERS_MAX);
  return { messageId: cut(messageId), where: cut(where), why: cut(why), bytes, atMs };
}
