/** The times at which the cache's gates were closed, as another process observed them. */
import { setTimeout as sleep } from "node:timers/promises";

import { CONTROLLERS } from "../../shared/kube/objects/resources.ts";
import type { Store } from "../../shared/store/ports/store.ts";

const GATE_POLL_MS = 25;

export interface Closed {
  readonly fromMs: number;
  readonly toMs: number;
  readonly why: string;
}

/** Spans in which no gate was open, as another process observed them. */
export function watchGates(store: Store): { stop(): Promise<readonly Closed[]> } {
  const spans: { fromMs: number; toMs: number; why: string }[] = [];
  let stopped = false;
  const watching = (async (): Promise<void> => {
    let open: (typeof spans)[number] | undefined;
    while (!stopped) {
      const askedMs = Date.now();
      const gates = await Promise.all(CONTROLLERS.map((controller) => store.gate(controller))).catch(() => undefined);
      const shut = gates?.find((gate) => !gate.open);
      // A failed read proves nothing: such a time is in no span.
      if (gates?.every((gate) => !gate.open) && shut && !shut.open) {
        const nowMs = Date.now();
        open ??= spans[spans.push({ fromMs: nowMs, toMs: nowMs, why: shut.reason }) - 1];
        if (open) open.toMs = Math.max(open.toMs, askedMs);
      } else open = undefined;
      await sleep(GATE_POLL_MS);
    }
  })();
  return {
    async stop() {
      stopped = true;
      await watching;
      return spans;
    },
  };
}
