/** The line that `dev` prints for each sync: why its key was enqueued, what it wrote, and its duration. */
import { printable } from "@deltaloop/base/output";
import type { OwnControllerEntry, OwnReport } from "@deltaloop/controllers/own";
import type { View } from "@deltaloop/kube/objects";
import type { ItemChange } from "@deltaloop/store/ports";

/** Why keys were enqueued: noted until a sync of the key starts, and printed when it ends. A change during a sync belongs to the next one. */
export class Triggers {
  readonly #views: ReadonlyMap<View, string>;
  readonly #noted = new Map<string, Set<string>>();
  readonly #started = new Map<string, Set<string>>();

  constructor(entries: readonly OwnControllerEntry[]) {
    this.#views = new Map(entries.flatMap(({ views }) => views.map(({ name, kind }) => [name as View, kind.kind] as const)));
  }

  /** Records why keys were enqueued. @param isListed whether a list has found the items, which may have existed for long */
  note(view: View, items: readonly ItemChange[], isListed: boolean): void {
    for (const { key: changed, type, expected, effects } of items) {
      const what = type !== "put" ? "deleted" : expected ? "changed" : isListed ? "listed" : "created";
      for (const { controller, key, self = false } of effects)
        this.enqueued(controller, key, self ? what : `${this.#views.get(view) ?? view} ${changed} ${what}`);
    }
  }

  enqueued(controller: string, key: string, why: string): void {
    const id = `${controller} ${key}`;
    this.#noted.set(id, (this.#noted.get(id) ?? new Set()).add(why));
  }

  /** Records that a sync of the key starts. What an earlier one without a report has left is kept. */
  starts(controller: string, key: string): void {
    const id = `${controller} ${key}`;
    const noted = this.#noted.get(id);
    if (noted === undefined) return;
    this.#noted.delete(id);
    this.#started.set(id, new Set([...(this.#started.get(id) ?? []), ...noted]));
  }

  /** Returns why the reported sync has run, and forgets it. */
  take({ controller, key, failures }: OwnReport): string {
    const id = `${controller} ${key}`;
    const texts = [...(this.#started.get(id) ?? [])];
    this.#started.delete(id);
    const [first, second, ...others] = texts;
    if (first === undefined) return failures > 0 ? `retry ${failures}` : "own write or requeue";
    return [first, ...(second === undefined ? [] : [second]), ...(others.length === 0 ? [] : [`${others.length} more`])].join(", ");
  }
}

/** `12:00:04.120 website shop/a   created → create Deployment shop/a (missing)   18 ms`. */
export function lineOf(
  { controller, key, writes, blocked = [], isShadow, note, durationMs }: OwnReport,
  trigger: string,
  at: Date,
): string {
  const [sent, refused] = [writes, blocked].map((each) => each.map(({ what, why }) => `${what} (${why})`).join(", "));
  const end = [
    ...(sent ? [isShadow ? `would ${sent}` : sent] : []),
    ...(refused ? [`blocked: ${refused}`] : []),
    ...(note === undefined ? [] : [note]),
  ].join("; ");
  return printable(`${timeText(at)} ${controller} ${key}   ${trigger} → ${end || "nothing"}   ${Math.round(durationMs)} ms`);
}

/** `12:00:04.120`, in UTC. */
export function timeText(at: Date): string {
  return at.toISOString().slice("2026-01-01T".length, -1);
}
