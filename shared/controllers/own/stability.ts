/**
 * Keys whose result differs in each sync. Each write enqueues its own key again, so such a key would write forever.
 *
 * UR1 a write is hot if the one before it to the same object came less than a second earlier, or as soon as its back-off let it.
 * UR2 after ten hot writes the next ones wait, twice as long each time. The waiting write is decided again then, so it has the newest
 *     state.
 * UR3 while the sync sees other states of the world, a status never waits, and other writes at most ten seconds.
 *
 * It is kept by the function host and not in the Store: after a restart, ten more writes are sent.
 */
import type { OwnWrite } from "@deltaloop/sdk/writes";

const HOT_MS = 1_000;
const HOT_WRITES = 10;
const WAIT_MS_MIN = 1_000;
/** The maximum wait in ms of a write that other clients' changes may have caused. */
const CAUSED_WAIT_MS_MAX = 10_000;
const WAIT_MS_MAX = 300_000;
const OBJECTS_MAX = 10_000;
const FIELDS_MAX = 3;

/** A write that waits. */
export interface Unstable {
  readonly write: OwnWrite;
  readonly untilMs: number;
  /** Paths that differ from the write before: `status.checkedAt`. Never values. */
  readonly fields: readonly string[];
}

interface Streak {
  readonly count: number;
  readonly lastMs: number;
  readonly inputs: string;
  readonly body: unknown;
  readonly waitMs: number;
  /** Paths that differed between the last write and the one before it. */
  readonly fields: readonly string[];
}

export class Stability {
  /** Streaks by object and primary, oldest first. */
  readonly #streaks = new Map<string, Streak>();

  /** Which writes are sent now, and which wait. @param inputs a text of what the sync saw and others may have changed */
  admit(
    primaryUid: string,
    writes: readonly OwnWrite[],
    idOf: (write: OwnWrite) => string,
    inputs: () => string,
    nowMs: number,
  ): readonly Unstable[] {
    const replaced = replacedKinds(writes);
    return writes.flatMap((write): readonly Unstable[] => {
      const name = counted(write, idOf, replaced);
      if (name === undefined) return [];
      const id = `${primaryUid} ${name}`;
      const before = this.#streaks.get(id);
      const untilMs = (before?.lastMs ?? 0) + (before?.waitMs ?? 0);
      if (before !== undefined && nowMs < untilMs) return [{ write, untilMs, fields: before.fields }];
      const isHot = before !== undefined && nowMs < untilMs + HOT_MS;
      const seen = isHot ? inputs() : "";
      this.#put(id, next(isHot ? before : undefined, write, seen, nowMs));
      return [];
    });
  }

  #put(id: string, streak: Streak): void {
    this.#streaks.delete(id);
    this.#streaks.set(id, streak);
    for (const [oldest] of this.#streaks) {
      if (this.#streaks.size <= OBJECTS_MAX) break;
      this.#streaks.delete(oldest);
    }
  }
}

function next(before: Streak | undefined, write: OwnWrite, inputs: string, nowMs: number): Streak {
  const body = "body" in write ? write.body : undefined;
  if (before === undefined) return { count: 1, lastMs: nowMs, inputs, body, waitMs: 0, fields: [] };
  const isCaused = before.inputs !== inputs;
  if (isCaused && write.kind === "status") return { count: 1, lastMs: nowMs, inputs, body, waitMs: 0, fields: [] };
  const count = before.count + 1;
  const doubled = count < HOT_WRITES ? 0 : WAIT_MS_MIN * 2 ** (count - HOT_WRITES);
  const waitMs = Math.min(doubled, isCaused ? CAUSED_WAIT_MS_MAX : WAIT_MS_MAX);
  const prefix = write.kind === "status" ? "status" : "";
  const fields = write.kind === "create" ? ["metadata.name"] : differing(before.body, body, prefix).slice(0, FIELDS_MAX);
  return { count, lastMs: nowMs, inputs, body, waitMs, fields };
}

/** Returns the id under which the streak of a write is counted. Creates that replace a pruned object of their kind are counted by kind. */
function counted(write: OwnWrite, idOf: (write: OwnWrite) => string, replaced: ReadonlySet<string>): string | undefined {
  if (write.kind === "create") return replaced.has(write.id.kind.kind) ? `names ${write.id.kind.kind}` : undefined;
  return write.why === "desired state changed" || write.why === "last write unknown" ? idOf(write) : undefined;
}

function replacedKinds(writes: readonly OwnWrite[]): ReadonlySet<string> {
  return new Set(writes.flatMap((write) => (write.kind === "prune" ? [write.id.kind.kind] : [])));
}

/** Paths at which two JSON values differ. */
function differing(a: unknown, b: unknown, path: string): readonly string[] {
  if (JSON.stringify(a) === JSON.stringify(b)) return [];
  if (!isRecord(a) || !isRecord(b) || Array.isArray(a) !== Array.isArray(b)) return [path];
  const keys = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  return keys.flatMap((key) => differing(a[key], b[key], Array.isArray(a) ? `${path}[${key}]` : path === "" ? key : `${path}.${key}`));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}
