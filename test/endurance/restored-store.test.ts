/**
 * A real Redis is set back by minutes in the middle of three rollouts, while no watcher leads: an operator restores an old RDB file, or a
 * replica that had stopped replicating takes over. The file holds rows of pods that are long gone.
 */
import { rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { MAY_LAND_MS, REQUEST_TIMEOUT_MS, VISIBILITY_SECONDS } from "../../shared/base/times.ts";
import { LEASE_TERMS, parseTerms, STILL_MS } from "../../shared/controllers/cache/watcher/lineage.ts";
import { eventually, isRunning, killHard, measured, OWN_NAMESPACE, whereRealPartsAre } from "../support/e2e.ts";
import { startLossRig } from "../support/loss-rig.ts";
import type { LossRig } from "../support/loss-rig.ts";
import { restoreDump, saveDump } from "../support/redis-faults.ts";

const LEASE = `/apis/coordination.k8s.io/v1/namespaces/${OWN_NAMESPACE}/leases/deltaloop-watcher-dev`;
const AGE_MS = 120_000;
/** The time until the Lease of a killed leader expires, then a list, because the Store is not the one of its last checkpoint. */
const LISTED_MS_MAX = 25_000;
/** A message of a killed applier returns after the queue's visibility timeout, before the lists of its lane; it is noticed a second later. */
const RETURNED_MS_MAX = VISIBILITY_SECONDS.deltas * 1_000 + 2_000;
const LED_MS_MAX = 30_000;
/** How long a create that the restored Store does not know may be executed (replicaset §18). */
const LATE_MS = REQUEST_TIMEOUT_MS + MAY_LAND_MS;
const SYNCED_MS_MAX = 5_000;
const REPLICA_SET = "/apis/apps/v1/namespaces/quota/replicasets/rejected";
const PODS = "/api/v1/namespaces/quota/pods";
const labels = { app: "rejected" };
const REJECTED = {
  apiVersion: "apps/v1",
  kind: "ReplicaSet",
  metadata: { name: "rejected", namespace: "quota" },
  spec: {
    replicas: 3,
    selector: { matchLabels: labels },
    template: { metadata: { labels }, spec: { containers: [{ name: "main", image: "shop:0" }] } },
  },
};

interface ReplicaSet {
  readonly status?: { readonly conditions?: readonly { readonly reason?: string }[] };
}

await whereRealPartsAre("a Store restored from an old file", () => {
  describe("three rollouts complete after the Store was restored, while no watcher led,", () => {
    let rig: LossRig;
    let dump: string;
    let savedAt: number;
    /** The term of the saved epoch. */
    let term: string;
    beforeAll(async () => {
      rig = await startLossRig();
      term = (await terms()).at(-1) ?? "";
      [dump, savedAt] = [await saveDump(rig.redis), performance.now()];
      await rig.settles("a rollout between the file and its restore", () => Promise.resolve());
    });
    afterAll(async () => {
      await rig?.stop();
      if (dump !== undefined) await rm(dump, { recursive: true, force: true });
    });

    /** The terms in the Lease, oldest first. */
    const terms = async (): Promise<readonly string[]> => {
      const lease = await rig.cluster.get<{ readonly metadata: { readonly annotations?: Readonly<Record<string, string>> } }>(LEASE);
      return parseTerms(lease?.metadata.annotations?.[LEASE_TERMS]).map((token) => token.term);
    };
    const pidOf = async (component: "watcher" | "functions"): Promise<number> =>
      await eventually(`the ${component} run`, () => {
        const pid = rig.dev.pids()[component] ?? 0;
        return pid !== 0 && isRunning(pid) && pid;
      });
    const restored = async (components: readonly ("watcher" | "functions")[]): Promise<void> => {
      for (const component of components) killHard(await pidOf(component));
      measured(`the restored file is ${((performance.now() - savedAt) / 1_000).toFixed(0)} s old`);
      await restoreDump(rig.redis, dump);
    };

    it("from a file of two minutes ago", async () => {
      await sleep(AGE_MS - (performance.now() - savedAt));
      expect((await terms()).at(-1)).toBe(term);
      const limits = { pauseMsMax: LISTED_MS_MAX, settledMsMax: LISTED_MS_MAX };
      await rig.settles("restored from a file of two minutes ago", () => restored(["watcher"]), limits);
    });

    it("from the same file, and the functions, which knew a newer checkpoint, were restarted, too", async () => {
      expect(await terms()).toContain(term);
      const limits = { pauseMsMax: RETURNED_MS_MAX, settledMsMax: RETURNED_MS_MAX };
      await rig.settles("restored, functions restarted", () => restored(["watcher", "functions"]), limits);
    });

    it("from a file of before a quota rejected the pods of a ReplicaSet, which are created once no earlier create can be executed", async () => {
      await rig.cluster.kubectl("create", "namespace", "quota");
      await rig.cluster.kubectl("create", "quota", "none", "--hard=pods=0", "--namespace=quota");
      await rig.cluster.apply(REJECTED);
      const isRejected = (rs: ReplicaSet | undefined): boolean =>
        rs?.status?.conditions?.some(({ reason }) => reason === "FailedCreate") === true;
      await eventually("the quota rejects its pods", async () => isRejected(await rig.cluster.get<ReplicaSet>(REPLICA_SET)));
      await restored(["watcher"]);
      const restoredAt = performance.now();
      await rig.cluster.kubectl("delete", "quota", "none", "--namespace=quota");
      const pods = async (): Promise<number> => (await rig.cluster.list(PODS)).length;
      await eventually("its pods are created", async () => (await pods()) > 0, LISTED_MS_MAX + LATE_MS + SYNCED_MS_MAX);
      const tookMs = performance.now() - restoredAt;
      measured(`restored, pods of a ReplicaSet that a quota had rejected: ${(tookMs / 1_000).toFixed(1)} s`);
      expect(tookMs).toBeGreaterThan(LATE_MS);
      await sleep(SYNCED_MS_MAX);
      expect(await pods()).toBe(REJECTED.spec.replicas);
    });

    it("from a file so old that the Lease no longer lists its term", async () => {
      for (let listed = await terms(); listed.includes(term);) {
        process.kill(await pidOf("watcher"), "SIGTERM");
        const before = listed.at(-1);
        listed = await eventually("the next watcher leads", async () => ((now) => now.at(-1) !== before && now)(await terms()), LED_MS_MAX);
      }
      const limits = { pauseMsMax: LISTED_MS_MAX + STILL_MS, settledMsMax: LISTED_MS_MAX + STILL_MS };
      await rig.settles("restored from a file whose term is not listed", () => restored(["watcher", "functions"]), limits);
    });
  });
});
