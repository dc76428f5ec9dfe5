/** Groups the events of one sync: the reasons for queueing its key, its decisions, and its result. */
import { isOwnView } from "@deltaloop/kube/objects";
import type { View, Controller } from "@deltaloop/kube/objects";
import type { TraceLine } from "@deltaloop/controllers/kit";
import type { ItemChange } from "@deltaloop/store/ports";

/** One sync with its reasons and decisions. */
export interface ReplayedSync {
  readonly atMs: number;
  readonly controller: Controller;
  readonly key: string;
  /** Changes since the key's last sync, for example `pods default/web-x2x4z changed`; empty for a delayed or retried key. */
  readonly reasons: readonly string[];
  /** Trace lines from `decided` to `notDecided`, in order; without `started` and `ended`. */
  readonly lines: readonly TraceLine[];
  readonly outcome: Extract<TraceLine, { kind: "ended" }>["outcome"];
  readonly error?: string;
}

export class SyncLog {
  readonly #onSync: (sync: ReplayedSync) => void;
  readonly #now: () => number;
  readonly #reasons = new Map<string, Set<string>>();
  readonly #running = new Map<string, { readonly atMs: number; readonly reasons: readonly string[]; readonly lines: TraceLine[] }>();
  count = 0;
  decided = 0;

  constructor(onSync: (sync: ReplayedSync) => void, now: () => number) {
    this.#onSync = onSync;
    this.#now = now;
  }

  /** Records the applier's changes with the keys that they enqueue. */
  changed(resource: View, items: readonly ItemChange[]): void {
    if (isOwnView(resource)) return; // replays explain the built-in controllers
    for (const item of items) {
      const what = item.type === "delete" ? "deleted" : item.expected ? "changed" : "added";
      for (const { controller, key } of item.effects) {
        const id = `${controller} ${key}`;
        const reasons = this.#reasons.get(id) ?? new Set();
        this.#reasons.set(id, reasons.add(`${resource} ${item.key} ${what}`));
      }
    }
  }

  trace(line: TraceLine): void {
    const id = `${line.controller} ${line.key}`;
    const running = this.#running.get(id);
    switch (line.kind) {
      case "started":
        this.#running.set(id, { atMs: this.#now(), reasons: [...(this.#reasons.get(id) ?? [])], lines: [] });
        this.#reasons.delete(id);
        return;
      case "decided":
        this.decided++;
        running?.lines.push(line);
        return;
      case "reason":
      case "event":
      case "notDecided":
        running?.lines.push(line);
        return;
      case "ended":
        if (!running) return;
        this.#running.delete(id);
        this.count++;
        this.#onSync({
          ...running,
          controller: line.controller,
          key: line.key,
          outcome: line.outcome,
          ...(line.error !== undefined && { error: line.error }),
        });
        return;
      default:
        line satisfies never;
    }
  }
}
