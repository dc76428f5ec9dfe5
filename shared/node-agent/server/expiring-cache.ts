import type { Clock } from "../../ports/clock.ts";

/** Answers that hold for a while, at most so many of them: the oldest makes room. */
export interface ExpiringCache<T> {
  get(key: string): T | undefined;
  set(key: string, value: T, ttlMs: number): void;
}

export function createExpiringCache<T>(clock: Clock, entriesMax: number): ExpiringCache<T> {
  const entries = new Map<string, { readonly value: T; readonly untilMs: number }>();
  return {
    get(key) {
      const entry = entries.get(key);
      if (entry !== undefined && clock.now() < entry.untilMs) return entry.value;
      entries.delete(key);
      return undefined;
    },
    set(key, value, ttlMs) {
      entries.delete(key); // so that it goes to the end
      for (const oldest of entries.keys()) {
        if (entries.size < entriesMax) break;
        entries.delete(oldest);
      }
      entries.set(key, { value, untilMs: clock.now() + ttlMs });
    },
  };
}
