import type { Clock } from "../../shared/base/clock.ts";
import { MEMBER_FORGET_MS, MEMBER_SILENT_MS, MOVES_MAX } from "../../shared/store/ports/members.ts";
import type { Member, Members } from "../../shared/store/ports/members.ts";

interface Stored extends Member {
  readonly moves: readonly string[];
}

/** The watchers of a deployment; the callers share this object. */
export function createMemoryMembers(clock: Pick<Clock, "now">): Members {
  const stored = new Map<string, Stored>();
  return {
    async beat(id, { leads, waits }, wanted) {
      const nowMs = clock.now();
      const isLive = ({ beatMs }: Stored): boolean => nowMs - beatMs < MEMBER_SILENT_MS;
      for (const [name, record] of stored) {
        const beatMs = Math.min(record.beatMs, nowMs); // after the clock went back
        stored.set(name, { ...record, beatMs, joinedMs: Math.min(record.joinedMs, nowMs) });
        if (name !== id && nowMs - beatMs >= MEMBER_FORGET_MS) stored.delete(name);
      }
      const before = stored.get(id);
      const own = before && isLive(before) ? before : undefined;
      const others = [...stored.values()].filter((record) => record.id !== id);
      const free = MOVES_MAX - others.filter(isLive).reduce((sum, { moves }) => sum + moves.length, 0);
      const held = new Set(own?.moves);
      const granted = [...wanted.filter((move) => held.has(move)), ...wanted.filter((move) => !held.has(move))].slice(0, Math.max(0, free));
      const joinedMs = own?.joinedMs ?? nowMs;
      stored.set(id, { ...{ id, joinedMs, leads, waits }, beatMs: nowMs, moves: granted });
      return await Promise.resolve({ nowMs, joinedMs, granted, others: others.map(({ moves: _, ...member }) => member) });
    },
    leave: async (id) => await Promise.resolve(void stored.delete(id)),
  };
}
