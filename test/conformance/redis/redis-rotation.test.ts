/**
 * The key rotation of docs/internals/threat-model.md on a real Redis, step by step, with changes and syncs between the
 * steps.
 */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { rotateMacKey } from "../../../cli/rotate/mac-key.ts";
import { environmentOf } from "../../../shared/controllers/lambda/configuration.ts";
import { CACHED_RESOURCES, CONTROLLERS, objectKey, tableOf } from "../../../shared/kube/objects/resources.ts";
import { primaryAsOwner } from "../../../shared/kube/objects/owner-id.ts";
import { ensureRedisServer, startRedis, type RedisServer } from "../../support/redis.ts";
import { CACHE, startCountedSync, type CountedSync } from "../../harness/sync/counted-sync.ts";

const reason = ensureRedisServer();
const OLD = "the former key of the tests";
const NEW = "the present key of the tests";
/** The part of the watcher's configuration that a rotation of its key changes. */
const CONFIGURATION = {
  ...CACHE,
  mode: "act",
  digestKey: "the digest key of the tests",
  macKeys: [OLD],
  kube: { server: "https://127.0.0.1:1" },
  queues: { deltas: "http://127.0.0.1:1/q", doorbells: tableOf(CONTROLLERS, () => "http://127.0.0.1:1/q") },
  logLevel: "error",
  metrics: "none",
} as const;
const REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets";
const PODS = "/api/v1/namespaces/default/pods";
const MERGE = "application/merge-patch+json";

describe.skipIf(reason !== undefined)(`MAC keys${reason === undefined ? "" : ` (${reason})`}`, () => {
  let server: RedisServer;
  let redis: Redis;
  let harness: CountedSync;
  let writes: string[];
  beforeAll(async () => {
    server = await startRedis();
    redis = new Redis(server.url);
  });
  afterAll(async () => {
    redis.disconnect();
    await server.stop();
  });
  beforeEach(async () => {
    harness = await startCountedSync(server.url);
    harness.rekey({ watcher: [OLD], functions: [OLD] });
    writes = [];
    harness.server.onRequest(({ userAgent, verb, resource, subresource }) => {
      if (userAgent.startsWith("deltaloop/") && resource !== "events" && verb !== "get")
        writes.push(`${verb} ${resource}${subresource === "" ? "" : "/status"}`);
    });
  });
  afterEach(() => harness.close());

  it("MAC keys are rotated during operation without lost objects or additional writes", async () => {
    await create("web", 10);
    await everydayLife("old alone", 10);
    expect(await keys([OLD])).toMatchObject({ code: 0 });

    harness.rekey({ functions: [OLD, NEW] });
    await everydayLife("functions accept both", 11);
    harness.rekey({ watcher: [NEW, OLD] });
    await everydayLife("the watcher signs with the new one", 12);
    harness.rekey({ functions: [NEW, OLD] });
    await everydayLife("the functions sign with the new one", 13);

    const look = await keys([NEW, OLD]);
    expect(look.code).toBe(1);
    expect(look.text).toMatch(
      /^pods: [1-9]\d* signed with the current key, [1-9]\d* with a former key, 0 with an unknown key or an invalid MAC/m,
    );
    expect(look.text).not.toContain(NEW);
    const resigned = await keys([NEW, OLD], "--resign");
    expect(resigned).toMatchObject({ code: 0 });
    await everydayLife("all is signed again", 14);

    harness.rekey({ watcher: [NEW], functions: [NEW] });
    expect(await keys([NEW])).toMatchObject({ code: 0 });
    await everydayLife("the old one is gone", 15);
    for (const resource of CACHED_RESOURCES)
      expect(await harness.store.keyUse(resource, false)).toMatchObject({ former: 0, foreign: 0, ghosts: 0 });
    // The first 10 creates, plus one for each of the 5 scale-ups.
    expect(writes.filter((write) => write === "create pods")).toHaveLength(15);
    expect(writes.filter((write) => write === "delete pods")).toEqual([]);
  });

  it("`deltaloop rotate mac-key` rotates the MAC key during operation, and changes the value of one secret", async () => {
    const folder = await mkdtemp(join(tmpdir(), "deltaloop-rotate-"));
    const secret = join(folder, "mac-key");
    try {
      await writeFile(secret, OLD);
      await create("web", 10);
      const said: string[] = [];
      const values: (readonly string[])[] = [];
      const environment = {
        ...watchersEnvironment(),
        DELTALOOP_MAC_KEY: undefined,
        DELTALOOP_MAC_KEY_SECRET: `file:${secret}`,
      };
      const done = await rotateMacKey({
        environment,
        waitMs: 300_000,
        finish: false,
        signal: new AbortController().signal,
        say: (line) => void said.push(line),
        now: () => 0,
        async after() {
          // All processes read the new key meanwhile, at different times.
          const keys = readFileSync(secret, "utf8").split(",");
          values.push(keys);
          harness.rekey(values.length === 1 ? { functions: keys } : { watcher: keys });
          await everydayLife(`step ${values.length}`, 10 + values.length);
          harness.rekey({ watcher: keys, functions: keys });
        },
      });
      const last = readFileSync(secret, "utf8");
      expect([done, values.map((keys) => keys.map((key) => (key === OLD ? "old" : "new")).join()), last.length]).toEqual([
        true,
        ["old,new", "new,old"],
        64,
      ]);
      expect(said.filter((line) => /^\d/.test(line)).map((line) => line.slice(0, 3))).toEqual(["1/4", "2/4", "3/4", "4/4"]);
      expect(said.join()).not.toContain(last);
      harness.rekey({ watcher: [last], functions: [last] });
      expect(await keys([last])).toMatchObject({ code: 0 });
      await everydayLife("the old one is gone", 13);
      expect(writes.filter((write) => write === "create pods")).toHaveLength(13);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it("the command finishes an interrupted rotation, or reports that no rotation is in progress", async () => {
    const folder = await mkdtemp(join(tmpdir(), "deltaloop-rotate-"));
    const secret = join(folder, "mac-key");
    const rotate = (finish: boolean) =>
      rotateMacKey({
        environment: {
          ...watchersEnvironment(),
          DELTALOOP_MAC_KEY: undefined,
          DELTALOOP_MAC_KEY_SECRET: `file:${secret}`,
        },
        waitMs: 0,
        finish,
        now: () => 0,
        after: () => Promise.resolve(),
        signal: new AbortController().signal,
        say: () => undefined,
      });
    try {
      await create("web", 3);
      await writeFile(secret, OLD);
      await expect(rotate(true)).rejects.toThrow("there is no rotation to finish");
      await writeFile(secret, `${NEW},${OLD}`);
      await expect(rotate(false)).rejects.toThrow("--finish");
      expect([await rotate(true), readFileSync(secret, "utf8")]).toEqual([true, NEW]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it.each([
    { name: "before the new key signs anything", at: 1, others: [OLD, NEW] },
    { name: "before the values of the old key are signed again", at: 2, others: [OLD] },
  ])(
    "[informer T116] one of two concurrent rotations exits with code 2, and the secret has the value of the other: $name",
    async ({ at, others }) => {
      const folder = await mkdtemp(join(tmpdir(), "deltaloop-rotate-"));
      const secret = join(folder, "mac-key");
      try {
        await writeFile(secret, OLD);
        await create("web", 3);
        let waits = 0;
        const rotating = rotateMacKey({
          environment: {
            ...watchersEnvironment(),
            DELTALOOP_MAC_KEY: undefined,
            DELTALOOP_MAC_KEY_SECRET: `file:${secret}`,
          },
          waitMs: 0,
          finish: false,
          now: () => 0,
          after: async () => {
            if (++waits === at) await writeFile(secret, others.join(","));
          },
          signal: new AbortController().signal,
          say: () => undefined,
        });
        await expect(rotating).rejects.toThrow(`another process changed file:${secret}`);
        expect(readFileSync(secret, "utf8")).toBe(others.join(","));
        expect(await keys([OLD])).toMatchObject({ code: 0 });
      } finally {
        await rm(folder, { recursive: true });
      }
    },
  );

  it("removing a key before its rows are signed again causes live reads, but loses no object", async () => {
    await create("web", 5);
    harness.rekey({ watcher: [NEW], functions: [NEW] });
    expect(await keys([NEW])).toMatchObject({ code: 1 });
    await everydayLife("too early", 6);
    // The first creates of a standalone ReplicaSet are decided on a live list.
    const ofPods = writes.filter((write) => write.endsWith("pods"));
    expect(ofPods.toSorted()).toEqual([...Array<string>(6).fill("create pods"), "list pods"]);
  });

  it("signing rows again keeps their flag `gone` and concurrent writes", async () => {
    await create("web", 3);
    const { uid } = (await harness.person.request("GET", `${REPLICA_SETS}/web`))["metadata"] as { readonly uid: string }; // every object has one
    const slice = harness.names.slice("pods", primaryAsOwner("replicaset", objectKey("default", "web"), uid));
    const [key = "", entry = ""] = Object.entries(await redis.hgetall(slice))[0] ?? [];
    await redis.hset(slice, key, `g123${entry}`);
    harness.rekey({ functions: [NEW, OLD] });
    expect(await harness.store.keyUse("pods", true)).toEqual({ current: 0, former: 6, foreign: 0, ghosts: 0, hidden: 0 });
    expect(await harness.store.keyUse("pods", true)).toEqual({ current: 6, former: 0, foreign: 0, ghosts: 0, hidden: 0 });
    const after = (await redis.hget(slice, key)) ?? "";
    expect(after.startsWith("g123\x1f")).toBe(true);
    expect(after).not.toContain(entry.slice(0, 60));
  });

  it("`deltaloop keys` counts rows whose slice entry was removed, until the object's next event", async () => {
    await create("web", 3);
    await redis.hdel(harness.names.slice("replicasets", "-default"), "default/web");
    expect(await harness.store.keyUse("replicasets", true)).toEqual({ current: 1, former: 0, foreign: 0, ghosts: 0, hidden: 1 });
    expect(await keys([OLD])).toMatchObject({ code: 1, text: expect.stringContaining("1 rows without an index entry") as string });
    await everydayLife("the next change", 4);
    expect(await keys([OLD])).toMatchObject({ code: 0 });
  });

  it("`deltaloop keys` counts values signed by an unknown key and does not sign them again", async () => {
    await create("web", 3);
    const orphans = harness.names.slice("replicasets", "-default");
    await redis.hset(orphans, "default/web", "\x1f1\x1fuid\x1fAAforged\x1f{}");
    expect(await harness.store.keyUse("replicasets", true)).toMatchObject({ foreign: 1 });
    expect(await harness.store.keyUse("replicasets", true)).toMatchObject({ foreign: 1 });
    expect(await keys([OLD])).toMatchObject({ code: 1 });
    await everydayLife("the next change", 4);
    expect(await keys([OLD])).toMatchObject({ code: 0 });
  });

  it.each([
    { name: "without a key", env: {}, text: "DELTALOOP_MAC_KEY: is missing" },
    { name: "with a key that is too short", env: { DELTALOOP_MAC_KEY: "short" }, text: "at least 16 characters" },
  ])("the command exits with code 2 $name", async ({ env, text }) => {
    const ended = await deltaloop(["keys"], { ...watchersEnvironment(), DELTALOOP_MAC_KEY: "", ...env });
    expect(ended).toMatchObject({ code: 2, text: expect.stringContaining(text) as string });
  });

  const watchersEnvironment = () => environmentOf({ ...CONFIGURATION, redis: { url: server.url, cluster: false } });

  async function create(name: string, replicas: number): Promise<void> {
    await harness.person.request("POST", REPLICA_SETS, {
      metadata: { name },
      spec: {
        replicas,
        selector: { matchLabels: { app: name } },
        template: { metadata: { labels: { app: name } }, spec: { containers: [{ name: "c", image: "i" }] } },
      },
    });
    await settled();
  }

  /** Changes a pod, scales the ReplicaSet up, and runs all keys. Then the API server and the cache must have the desired number of pods. */
  async function everydayLife(step: string, replicas: number): Promise<void> {
    const before = await podNames();
    await harness.person.request("PATCH", `${PODS}/${before[0]}`, { metadata: { labels: { step: step.replaceAll(" ", "-") } } }, MERGE);
    await settled();
    await harness.person.request("PATCH", `${REPLICA_SETS}/web`, { spec: { replicas } }, MERGE);
    await settled();
    expect(await podNames(), step).toHaveLength(replicas);
    expect(await podNames(), step).toEqual(expect.arrayContaining([...before]));
    expect(await harness.store.gate("replicaset"), step).toEqual({ open: true });
    expect(await harness.store.forgeries(), step).toEqual([]);
  }

  async function settled(): Promise<void> {
    await harness.stream();
    await harness.settle();
  }

  async function podNames(): Promise<readonly string[]> {
    const { items } = await harness.person.list(PODS);
    return items.map(({ metadata }) => (metadata as { readonly name: string }).name).toSorted(); // objects of a list
  }

  function keys(macKeys: readonly string[], ...flags: readonly string[]): ReturnType<typeof deltaloop> {
    return deltaloop(["keys", ...flags], { ...watchersEnvironment(), DELTALOOP_MAC_KEY: macKeys.join(",") });
  }
});

/** Returns standard output, standard error and the exit code. */
async function deltaloop(
  parameters: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<{ readonly code: number | null; readonly text: string }> {
  const child = spawn(process.execPath, ["cli/main.ts", ...parameters], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env["PATH"] ?? "", ...env },
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  const code = await new Promise<number | null>((resolve, reject) => child.once("error", reject).once("close", resolve));
  return { code, text };
}
