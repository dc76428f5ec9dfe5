/**
 * Sessions of several clusters in virtual time. Catches: a cluster that waits for another one, and keys that are deleted while their
 * cluster is still served.
 */
import { it as base, expect } from "vitest";

import { watchClusters } from "../../../../cli/watch/watch-clusters.ts";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import type { VirtualClock } from "../../../../shared/base/memory/clock.ts";
import type { ClusterChange, ListedCluster } from "../../../../shared/kube/kubeconfig/clusters/directory.ts";
import { silentLog } from "../../../support/silent-log.ts";

interface Harness {
  readonly clock: VirtualClock;
  /** Events so far: `begin`, `end` and `forget`, with the cluster id and the second. */
  readonly history: string[];
  /** Clusters whose sessions fail immediately. */
  readonly failing: Set<string>;
  /** Duration of the end of a session in milliseconds. */
  endMs: number;
  change(kind: ClusterChange["kind"], cid: string, isPaused?: boolean): void;
  stop(): Promise<void>;
}

const it = base.extend<{ harness: Harness }>({
  // oxlint-disable-next-line no-empty-pattern -- vitest reads the names of the fixtures that it needs
  harness: async ({}, use) => {
    const clock = createVirtualClock(0);
    const ends = new AbortController();
    let onChange: (change: ClusterChange) => void = () => undefined;
    const note = (what: string, { cid }: ListedCluster): void => void harness.history.push(`${what} ${cid} ${clock.now() / 1_000}`);
    const harness: Harness = {
      ...{ clock, history: [], failing: new Set(), endMs: 0 },
      change: (kind, cid, isPaused = kind === "paused") =>
        onChange({ kind, cluster: { cid, isPaused, name: `name-${cid}`, server: "https://x", kubeconfig: "/x" } }),
      async stop() {
        ends.abort();
        await clock.advance(harness.endMs);
        await running;
      },
    };
    const running = watchClusters(
      {
        directory: { follow: (listener) => (onChange = listener) },
        ...{ log: silentLog, clock },
        random: { next: () => 1 } as never, // selects the longest back-off
        async serve(cluster, signal) {
          note("begin", cluster);
          if (harness.failing.has(cluster.cid)) throw new Error("unreachable");
          await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
          await clock.after(harness.endMs);
          note("end", cluster);
        },
        forget: async (cluster) => await Promise.resolve(note("forget", cluster)),
      },
      ends.signal,
    );
    await use(harness);
    await harness.stop();
  },
});

it("retries a failing cluster with its own back-off, and serves another cluster without delay", async ({ harness }) => {
  harness.failing.add("a");
  harness.change("added", "a");
  await harness.clock.advance(100_000);
  harness.change("added", "b");
  await harness.clock.advance(1);
  expect(harness.history).toEqual([
    ...[0, 1, 3, 7, 15, 25, 35, 45, 55, 65, 75, 85, 95].map((second) => `begin a ${second}`),
    "begin b 100",
  ]);
});

it("deletes the keys of a removed cluster after its session has ended, and again after runs in flight have ended", async ({ harness }) => {
  harness.endMs = 2_000;
  harness.change("added", "a");
  await harness.clock.advance(1_000);
  harness.change("removed", "a");
  await harness.clock.advance(60_000);
  expect(harness.history).toEqual(["begin a 0", "end a 3", "forget a 3", "forget a 43"]);
});

it("does not delete the keys of a cluster that is added again", async ({ harness }) => {
  harness.change("added", "a");
  await harness.clock.advance(1_000);
  harness.change("removed", "a");
  await harness.clock.advance(1_000);
  harness.change("added", "a");
  await harness.clock.advance(100_000);
  expect(harness.history).toEqual(["begin a 0", "end a 1", "forget a 1", "begin a 2"]);
});

it("keeps the keys of a paused cluster, and does not serve a cluster that is paused from the start", async ({ harness }) => {
  harness.change("added", "a");
  harness.change("added", "b", true);
  await harness.clock.advance(1_000);
  harness.change("paused", "a");
  await harness.clock.advance(1_000);
  harness.change("resumed", "a");
  await harness.clock.advance(1_000);
  expect(harness.history).toEqual(["begin a 0", "end a 1", "begin a 2"]);
});

it("waits for the end of all sessions when it stops", async ({ harness }) => {
  harness.endMs = 1_500;
  harness.change("added", "a");
  harness.change("added", "b");
  await harness.clock.advance(1_000);
  await harness.stop();
  expect(harness.history.slice(2)).toEqual(["end a 2.5", "end b 2.5"]);
});
