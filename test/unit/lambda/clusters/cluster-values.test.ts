/**
 * The clusters of a function in Parameter Store. Catches: a value used after it was removed, decrypted again without a change or for another
 * server, and reads without a bound while a server refuses credentials or Parameter Store fails.
 */
import { it as base, expect } from "vitest";

import {
  CONFIRMED_MS,
  createClusterValues,
  KEPT_MS,
  KNOWN_MAX,
  REFUSED_MS,
} from "../../../../shared/controllers/lambda/clusters/cluster-values.ts";
import type { ClusterValues } from "../../../../shared/controllers/lambda/clusters/cluster-values.ts";
import { clusterValueText } from "../../../../shared/kube/kubeconfig/clusters/cluster-value.ts";
import { clusterId } from "../../../../shared/kube/kubeconfig/clusters/directory.ts";
import { kubeconfigFrom } from "../../../../shared/kube/kubeconfig/schema.ts";
import { silentLog } from "../../../support/silent-log.ts";

const PATH = "/deltaloop/prod/clusters/deltaloop-sync-replicaset";

interface Harness {
  readonly clusters: ClusterValues;
  readonly stored: Map<string, { readonly version: string; readonly text: string }>;
  /** Calls of Parameter Store: action and number of names. */
  readonly calls: string[];
  readonly warnings: string[];
  nowMs: number;
  isDown: boolean;
  /** The next answers wait for this. */
  gate: Promise<unknown>;
  tookMs: number;
  /** The next random numbers. */
  jitter: number;
  /** Writes a cluster and returns its id. */
  add(name: string, options?: { readonly token?: string; readonly server?: string; readonly isPaused?: boolean }): string;
  tokenOf(cid: string): Promise<string | undefined>;
}

const it = base.extend<{ harness: Harness }>({
  // oxlint-disable-next-line no-empty-pattern -- vitest reads the names of the fixtures that it needs
  harness: async ({}, use) => {
    const stored: Harness["stored"] = new Map();
    const answer = async <T>(call: string, give: () => T): Promise<T> => {
      harness.calls.push(call);
      await harness.gate;
      harness.nowMs += harness.tookMs;
      if (harness.isDown) throw new Error("no answer");
      return give();
    };
    const parameters = {
      versions: async (path: string) =>
        await answer("list", () => new Map([...stored].flatMap(([name, { version }]) => (name.startsWith(path) ? [[name, version]] : [])))),
      versionsOf: async (names: readonly string[]) =>
        names.length === 0
          ? new Map<string, string>()
          : await answer(
              `confirm ${names.length}`,
              () => new Map([...stored].flatMap(([n, { version }]) => (names.includes(n) ? [[n, version]] : []))),
            ),
      values: async (names: readonly string[]) =>
        names.length === 0
          ? new Map<string, { version: string; text: string }>()
          : await answer(`decrypt ${names.length}`, () => new Map([...stored].filter(([name]) => names.includes(name)))),
    };
    const harness: Harness = {
      ...{ stored, calls: [], warnings: [], nowMs: 1_000_000, isDown: false, gate: Promise.resolve(), tookMs: 0, jitter: 0 },
      clusters: createClusterValues({
        ...{ parameters, place: "ssm:/deltaloop/prod/clusters", role: "deltaloop-sync-replicaset", allowed: new Set() },
        clock: { now: () => harness.nowMs },
        random: { next: () => harness.jitter },
        log: {
          ...silentLog,
          warn: (message, fields) => void harness.warnings.push(`${message} ${fields?.["problem"] ?? fields?.["error"]}`),
        },
      }),
      add(name, { token = "t", server = `https://${name}.example.com`, isPaused = false } = {}) {
        const config = kubeconfigFrom(
          {
            clusters: [{ name: "c", cluster: { server } }],
            users: [{ name: "u", user: { token } }],
            contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
            "current-context": "x",
          },
          "test",
        );
        const cid = clusterId(name, config);
        const version = String(Number(stored.get(`${PATH}/${cid}`)?.version ?? 0) + 1);
        stored.set(`${PATH}/${cid}`, { version, text: clusterValueText({ name, isPaused, config }) });
        return cid;
      },
      tokenOf: async (cid) => (await harness.clusters.get(cid))?.config.users[0]?.user.token,
    };
    await use(harness);
  },
});

it("decrypts a value once, and confirms all known clusters together without decryption", async ({ harness }) => {
  const cids = ["blue", "red", "gray"].map((name) => harness.add(name));
  await Promise.all(cids.map(async (cid) => await harness.clusters.get(cid)));
  expect(harness.calls).toEqual(["decrypt 3"]);
  harness.nowMs += CONFIRMED_MS - 1;
  await harness.clusters.get(cids[0] ?? "");
  expect(harness.calls).toEqual(["decrypt 3"]);
  harness.nowMs += 1;
  for (const cid of cids) expect((await harness.clusters.get(cid))?.cid).toBe(cid);
  expect(harness.calls).toEqual(["decrypt 3", "confirm 3"]);
});

it("uses renewed credentials, a pause and a removal within 30 s, and a new cluster within 5 s", async ({ harness }) => {
  const blue = harness.add("blue");
  expect(await harness.tokenOf(blue)).toBe("t");
  harness.add("blue", { token: "renewed" });
  expect(await harness.tokenOf(blue)).toBe("t");
  harness.nowMs += CONFIRMED_MS;
  expect(await harness.tokenOf(blue)).toBe("renewed");
  harness.add("blue", { isPaused: true });
  harness.nowMs += CONFIRMED_MS;
  expect((await harness.clusters.get(blue))?.isPaused).toBe(true);
  const { text = "" } = harness.stored.get(`${PATH}/${blue}`) ?? {};
  harness.stored.delete(`${PATH}/${blue}`);
  harness.nowMs += CONFIRMED_MS;
  expect(await harness.clusters.get(blue)).toBeUndefined();
  harness.stored.set(`${PATH}/${blue}`, { version: "1", text });
  expect(await harness.clusters.get(blue), "it is not read with each message").toBeUndefined();
  harness.nowMs += 5_000;
  expect(await harness.tokenOf(blue)).toBe("t");
});

it("reads a cluster whose server refuses its credentials at most every 15 s, and decrypts nothing that is unchanged", async ({
  harness,
}) => {
  const blue = harness.add("blue");
  await harness.clusters.get(blue);
  for (let i = 0; i < 150; i++) {
    await harness.clusters.refused(blue);
    harness.nowMs += REFUSED_MS / 50;
  }
  expect(harness.calls).toEqual(["decrypt 1", "confirm 1", "confirm 1", "confirm 1"]);
  harness.add("blue", { token: "renewed" });
  expect((await harness.clusters.refused(blue))?.config.users[0]?.user.token).toBe("renewed");
});

it("keeps known clusters for an hour while Parameter Store does not answer, and asks it every 10 s", async ({ harness }) => {
  const blue = harness.add("blue");
  await harness.clusters.get(blue);
  harness.isDown = true;
  harness.nowMs += CONFIRMED_MS;
  for (let i = 0; i < 100; i++) expect(await harness.tokenOf(blue)).toBe("t");
  expect(harness.calls).toEqual(["decrypt 1", "confirm 1"]);
  await expect(harness.clusters.get("f".repeat(32)), "an unknown cluster").rejects.toThrow("no answer");
  harness.nowMs += KEPT_MS;
  await expect(harness.clusters.get(blue)).rejects.toThrow("no answer");
  harness.isDown = false;
  harness.nowMs += 1_000;
  expect(await harness.tokenOf(blue)).toBe("t");
});

it("fails all callers that wait while Parameter Store hangs, with one read", async ({ harness }) => {
  const [blue, red] = [harness.add("blue"), harness.add("red")];
  await harness.clusters.get(red);
  harness.nowMs += CONFIRMED_MS;
  harness.calls.length = 0;
  harness.isDown = true;
  const { promise, resolve } = Promise.withResolvers<void>();
  harness.gate = promise;
  const outcomes = Promise.allSettled([blue, blue, blue, blue].map(async (cid) => await harness.tokenOf(cid)));
  await Promise.resolve();
  const late = Promise.allSettled([blue, blue, red, "f".repeat(32)].map(async (cid) => await harness.tokenOf(cid)));
  harness.nowMs += 1_800; // three attempts
  resolve();
  expect((await outcomes).map(({ status }) => status)).toEqual(Array(4).fill("rejected"));
  expect((await late).map((each) => (each.status === "fulfilled" ? each.value : each.status))).toEqual([
    "rejected",
    "rejected",
    "t",
    "rejected",
  ]);
  expect(harness.calls).toHaveLength(1);
  expect(await harness.tokenOf(red), "at once").toBe("t");
  expect(harness.calls).toHaveLength(1);
  harness.isDown = false;
  harness.nowMs += 1_000;
  expect(await harness.tokenOf(blue)).toBe("t");
});

it("says of no cluster that it is missing when three callers wait for reads that fail late", async ({ harness }) => {
  const blue = harness.add("blue");
  harness.isDown = true;
  harness.tookMs = 1_800;
  const outcomes = await Promise.allSettled([1, 2, 3].map(async () => await harness.clusters.get(blue)));
  expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
});

it("confirms clusters that are in use together with due ones, without further requests", async ({ harness }) => {
  const cids = Array.from({ length: 25 }, (_, i) => harness.add(`c${i}`));
  const [first = ""] = cids;
  for (const cid of cids) await harness.clusters.get(cid);
  harness.calls.length = 0;
  harness.nowMs += CONFIRMED_MS;
  await harness.clusters.get(first);
  expect(harness.calls).toEqual(["confirm 10"]);
  harness.nowMs += 60_000;
  await harness.clusters.get(first);
  expect(harness.calls, "the others were not asked for").toEqual(["confirm 10", "confirm 1"]);
});

it("confirms a cluster up to a fifth earlier, so that functions that started together do not read together", async ({ harness }) => {
  harness.jitter = 0.999;
  const blue = harness.add("blue");
  await harness.clusters.get(blue);
  harness.nowMs += CONFIRMED_MS * 0.81;
  await harness.clusters.get(blue);
  expect(harness.calls).toEqual(["decrypt 1", "confirm 1"]);
});

it("uses known clusters without a read for 10 s after the read of another one failed", async ({ harness }) => {
  const blue = harness.add("blue");
  await harness.clusters.get(blue);
  harness.isDown = true;
  harness.nowMs += CONFIRMED_MS;
  await expect(harness.clusters.get("f".repeat(32))).rejects.toThrow("no answer");
  harness.calls.length = 0;
  harness.nowMs += 5_000;
  expect(await harness.tokenOf(blue)).toBe("t");
  expect(harness.calls).toEqual([]);
});

it("uses a value only for the server that its cluster id is the hash of, and keeps the last good one", async ({ harness }) => {
  const [blue, evil] = [harness.add("blue"), harness.add("blue", { server: "https://evil.example.com", token: "e" })];
  expect(evil, "another cluster").not.toBe(blue);
  await harness.clusters.get(blue);
  const { text = "" } = harness.stored.get(`${PATH}/${evil}`) ?? {};
  harness.stored.set(`${PATH}/${blue}`, { version: "7", text });
  harness.nowMs += CONFIRMED_MS;
  expect((await harness.clusters.get(blue))?.server).toBe("https://blue.example.com");
  harness.stored.set(`${PATH}/${evil}`, { version: "7", text: "a-secret-text" });
  expect(await harness.clusters.get(evil), "it has no good one").toBeUndefined();
  expect(harness.warnings).toHaveLength(2);
  expect(harness.warnings.join()).not.toContain("a-secret-text");
});

it("lists all clusters of the role, decrypts new ones only, and keeps the list while Parameter Store does not answer", async ({
  harness,
}) => {
  harness.add("blue");
  expect((await harness.clusters.list()).map(({ name }) => name)).toEqual(["blue"]);
  const red = harness.add("red", { isPaused: true });
  expect((await harness.clusters.list()).map(({ name }) => name).toSorted()).toEqual(["blue", "red"]);
  expect(harness.calls).toEqual(["list", "decrypt 1", "list", "decrypt 1"]);
  harness.isDown = true;
  expect(await harness.clusters.list()).toHaveLength(2);
  harness.isDown = false;
  harness.stored.delete(`${PATH}/${red}`);
  expect((await harness.clusters.list()).map(({ name }) => name)).toEqual(["blue"]);
});

it("remembers a bounded number of clusters", async ({ harness }) => {
  const blue = harness.add("blue");
  await harness.clusters.get(blue);
  for (let i = 0; i < KNOWN_MAX + 5; i++) await harness.clusters.get(i.toString(16).padStart(32, "0"));
  harness.calls.length = 0;
  await harness.clusters.get(blue);
  expect(harness.calls[0], "it was forgotten").toMatch(/^confirm|^decrypt/);
  expect(harness.calls.filter((call) => call.startsWith("decrypt"))).toHaveLength(1);
});
