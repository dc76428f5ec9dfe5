// The read-your-writes cache of an invocation.
import { inspect } from "node:util";
import { beforeEach, describe, expect, it } from "vitest";

import { createSyncDeployment } from "../../../functions/sync-deployment/handler.ts";
import type { KubeObject } from "../../../shared/kube/objects/wire.ts";
import { ReadYourWrites } from "../../../shared/controllers/kit/read-your-writes.ts";
import type { ClusterWiring } from "../../../shared/controllers/lambda/wiring.ts";
import { serving } from "../../../shared/controllers/lambda/wiring.ts";
import { invocationContext, sqsEvent } from "../../../shared/local/invocation.ts";
import type { Doorbell } from "../../../shared/store/ports/doorbells.ts";
import { SyncHarness } from "../../harness/sync/sync.ts";
import { liveDeployment, livePod, liveReplicaSet } from "../deployment/live-objects.ts";

const EPOCH = "epoch-1";
const KEY = { controller: "deployment", epoch: EPOCH, key: "shop/web", delayMs: 0 } as const;
let harness: SyncHarness;
let rung: Doorbell[];

/** Runs one invocation for `web` on the cached state. */
async function invoke(): Promise<void> {
  const doorbells = { ring: (bells: readonly Doorbell[]) => Promise.resolve(void rung.push(...bells)) };
  const handler = createSyncDeployment({
    ...harness.ports,
    // this test signs nothing
    ...serving("c1", harness.api, "act", { store: harness.store, signer: {} as ClusterWiring["signer"], doorbells }),
  });
  await harness.store.add(EPOCH, KEY.controller, KEY.key, 0);
  const body = JSON.stringify({ v: 1, c: "c1", ctl: KEY.controller, e: EPOCH, k: KEY.key });
  const record = { messageId: "m", receipt: "r", body, receiveCount: 1, sentAtMs: harness.clock.now() };
  let ended = false;
  const context = invocationContext({ functionName: "f", requestId: "1", remainingMs: () => 60_000 });
  const running = handler(sqsEvent([record], "arn:aws:sqs:eu-central-1:0:q"), context).finally(() => (ended = true));
  for (let turns = 0; !ended; turns++) await harness.clock.advance(turns < 200 ? 0 : 100);
  expect(await running).toEqual({ batchItemFailures: [] });
}

/** Removes the ReplicaSets' keys, as if they had been synced. */
async function forgetReplicaSets(): Promise<void> {
  const { store } = harness;
  for (const { key } of await store.queued("replicaset")) {
    const taken = { epoch: EPOCH, controller: "replicaset", key, token: "before" } as const;
    const take = await store.take(taken, {});
    if (take.kind === "moved") await store.take(taken, { ...(take.uid && { uid: take.uid }), ...(take.owner && { owner: take.owner }) });
    await store.done(taken, { kind: "ok" });
  }
}

const ownerReads = (): readonly string[] => harness.api.reads.filter((read) => read.startsWith("get replicasets"));

describe("a ReplicaSet synced as an inline follow-up", () => {
  beforeEach(() => {
    rung = [];
  });

  it("a ReplicaSet is not read again: a Deployment's first pod needs one list, one read and two creates", async () => {
    harness = await SyncHarness.of([liveDeployment(1)]);
    await invoke();
    expect(harness.spoken().slice(0, 3)).toEqual(["list replicasets", "get deployments web", expect.stringMatching("create replicasets")]);
    expect(harness.api.all("pods")).toHaveLength(1);
    expect(ownerReads()).toEqual([]);
  });

  it("a ReplicaSet is read again if the cached response is too old", async () => {
    harness = await SyncHarness.of([liveDeployment(1)]);
    harness.api.script = { "create replicasets": () => harness.clock.after(500) };
    await invoke();
    expect(harness.api.all("pods")).toHaveLength(1);
    expect(ownerReads()).toHaveLength(1);
  });

  it("creates pods for its patched size without another read, but is read again before it deletes pods", async () => {
    for (const [size, pods] of [
      [3, ["a"]],
      [1, ["a", "b", "c"]],
    ] as const) {
      harness = await SyncHarness.of([
        liveDeployment(size, { status: { observedGeneration: 1 } }),
        liveReplicaSet("web-1", "v1", pods.length, { sizedFor: [pods.length, pods.length + 1] }),
      ]);
      for (const name of pods) await harness.put(livePod(name, "web-1"));
      await harness.stream();
      await forgetReplicaSets();
      await invoke();
      expect(harness.api.all("pods").filter(({ metadata }) => metadata.deletionTimestamp === undefined)).toHaveLength(size);
      expect(ownerReads()).toEqual(size === 1 ? ["get replicasets web-1"] : []);
    }
  });

  it("a ReplicaSet is read again before it adopts orphans, which were listed after the response", async () => {
    harness = await SyncHarness.of([
      liveDeployment(2, { status: { observedGeneration: 1 } }),
      liveReplicaSet("web-1", "v1", 1, { sizedFor: [1, 2] }),
    ]);
    const { metadata, ...orphan } = livePod("orphan", "web-1");
    const { ownerReferences: _, ...free } = metadata;
    await harness.put({ ...orphan, metadata: free });
    await harness.stream();
    await forgetReplicaSets();
    await invoke();
    expect(harness.live("pods", "orphan").metadata.ownerReferences).toMatchObject([{ name: "web-1" }]);
    const spoken = harness.spoken();
    expect(spoken.slice(0, spoken.indexOf("patch pods orphan"))).toContain("get replicasets web-1");
  });
});

describe("cached responses", () => {
  const answer = (uid: string, resourceVersion: string): KubeObject => ({ metadata: { name: uid, uid, resourceVersion } });

  it("cached responses are returned only for the requested resourceVersion, and only while recent", () => {
    const answers = new ReadYourWrites();
    answers.put(answer("a", "5"), 1_000);
    expect(answers.get("a", "5", 1_499)).toMatchObject({ metadata: { resourceVersion: "5" } });
    for (const [uid, version, nowMs] of [
      ["a", "6", 1_000],
      ["b", "5", 1_000],
      ["a", "5", 1_500],
    ] as const)
      expect(answers.get(uid, version, nowMs)).toBeUndefined();
    answers.put(answer("a", "6"), 1_400);
    expect([answers.get("a", "5", 1_400), answers.get("a", "6", 1_400)]).toEqual([undefined, answer("a", "6")]);
  });

  it("cached responses are dropped when the next write of that object is sent", () => {
    const answers = new ReadYourWrites();
    answers.put(answer("a", "5"), 0);
    answers.drop("a");
    expect(answers.get("a", "5", 0)).toBeUndefined();
  });

  it("cached responses do not reveal the object when printed", () => {
    const answers = new ReadYourWrites();
    answers.put(answer("secret", "5"), 0);
    expect(inspect(answers, { depth: null, showHidden: true })).not.toContain("secret");
  });

  it("cached responses are limited to the newest ten", () => {
    const answers = new ReadYourWrites();
    for (let i = 0; i < 10; i++) answers.put(answer(`u${i}`, "1"), 0);
    answers.put(answer("u0", "2"), 0);
    answers.put(answer("u10", "1"), 0);
    expect(answers.get("u1", "1", 0)).toBeUndefined();
    expect([answers.get("u0", "2", 0), answers.get("u2", "1", 0), answers.get("u10", "1", 0)]).not.toContain(undefined);
  });
});
