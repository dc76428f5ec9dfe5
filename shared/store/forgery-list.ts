/** Limits of the stored forgeries, so that a sender of forged messages cannot fill any Store. */
import type { Forgery } from "./ports/store.ts";

export const FORGERIES_MAX = 1_000;
const FIELD_CHARACTERS_MAX = 200;

/** Returns the entry with truncated texts, which has less than 2 KiB. */
export function cutForgery({ messageId, where, why, bytes, atMs }: Forgery): Forgery {
  const cut = (text: string): string => text.slice(0, FIELD_CHARACTERS_MAX);
  return { messageId: cut(messageId), where: cut(where), why: cut(why), bytes, atMs };
}
