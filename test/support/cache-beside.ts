/**
 * The cache as somebody beside the functions sees it: whether it is what the API server has, and when its gates were shut.
 */
import { setTimeout as sleep } from "node:timers/promises";

import { expect } from "vitest";

import { LANES } from "../../shared/api/lane.ts";
import { CACHED_RESOURCES, CONTROLLERS, RESOURCES } from "../../shared/api/resources.ts";
import type { Store } from "../../shared/ports/store.ts";
import type { Cluster } from "./e2e.ts";

const GATE_POLL_MS = 25;

export interface Closed {
  readonly fromMs: number;
  readonly toMs: number;
  readonly why: string;
}

/** Spans in which no gate was open, as somebody beside the functions saw it. */
export function watchGates(store: Store): { stop(): Promise<readonly Closed[]> } {
  const spans: { fromMs: number; toMs: number; why: string }[] = [];
  let stopped = false;
  const watching = (async (): Promise<void> => {
    let open: (typeof spans)[number] | undefined;
    while (!stopped) {
      const askedMs = Date.now();
      const gates = await Promise.all(CONTROLLERS.map((controller) => store.gate(controller))).catch(() => undefined);
      const shut = gates?.find((gate) => !gate.open);
      // What cannot be asked is not known: such a time is in no span.
      if (gates?.every((gate) => !gate.open) && shut && !shut.open) {
        open ??= spans[spans.push({ fromMs: Date.now(), toMs: askedMs, why: shut.reason }) - 1];
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

/** @throws with what differs. */
export async function isSame(store: Store, cluster: Cluster): Promise<true> {
  expect(await differences(store, cluster)).toEqual([]);
  return true;
}

/** Rows that the API server does not have so, objects that have no row, and rows without their entry. */
async function differences(store: Store, cluster: Cluster): Promise<readonly string[]> {
  const found: string[] = [];
  for (const resource of CACHED_RESOURCES) {
    const rows = await Promise.all(Array.from({ length: LANES[resource] }, (_, lane) => store.readLane(resource, lane)));
    const cached = rows.flatMap((lane) => lane.rows.map(({ key, uid, rv }) => `${resource} ${key} ${uid} ${rv}`));
    const objects = await cluster.list<{ readonly metadata: Readonly<Record<string, string>> }>(pathOf(resource));
    const live = objects.map(({ metadata: m }) => `${resource} ${m["namespace"]}/${m["name"]} ${m["uid"]} ${m["resourceVersion"]}`);
    const [here, there] = [new Set(cached), new Set(live)];
    found.push(...live.filter((one) => !here.has(one)).map((one) => `not cached: ${one}`));
    found.push(...cached.filter((one) => !there.has(one)).map((one) => `not there: ${one}`));
    const { ghosts, hidden, foreign } = await store.keyUse(resource, false);
    if (ghosts + hidden + foreign > 0) found.push(`${resource}: ${ghosts} ghosts, ${hidden} hidden, ${foreign} foreign`);
  }
  return found;
}

function pathOf(resource: (typeof CACHED_RESOURCES)[number]): string {
  const { apiVersion } = RESOURCES[resource];
  return apiVersion === "v1" ? `/api/v1/${resource}` : `/apis/${apiVersion}/${resource}`;
}
