// A sync of the ReplicaSet controller: creates, claims, intents, Events and status.
import { describe, expect, it } from "vitest";
import { NotSentError } from "../../../shared/kube/client/errors.ts";
import { CALLS_AT_ONCE_MAX } from "../../../shared/kube/client/kube.ts";
import { EXPECTATION_MS, LEASE_MS, OP_DEADLINE_MS, WRITE_MARGIN_MS } from "../../../shared/base/times.ts";
import { quota, refusal } from "../../support/scripted-api.ts";
import { SyncHarness } from "../../harness/sync/sync.ts";
import { pod, replicaSet, type PodOptions, type ReplicaOptions } from "../../support/workloads.ts";

const EMPTY_STATUS = { replicas: 0, observedGeneration: 1, terminatingReplicas: 0 };

/** Returns the names of the pods that the sync tried to create, in the order of the calls. */
function podsAsked(harness: SyncHarness): readonly (string | undefined)[] {
  return harness.api.calls.flatMap(({ verb, resource, name }) => (verb === "create" && resource === "pods" ? [name] : []));
}

/** Creates a ReplicaSet `web` and pods; `owned` pods have it as their controller. */
async function harnessOf(rs: ReplicaOptions, pods: readonly (PodOptions & { readonly owned?: boolean })[] = []): Promise<SyncHarness> {
  const harness = await SyncHarness.create();
  await harness.api.put("replicasets", replicaSet(rs));
  for (const { owned = false, ...each } of pods) await harness.api.put("pods", pod({ ...(owned && { owner: ownerIn(harness) }), ...each }));
  await harness.stream();
  return harness;
}

function ownerIn(harness: SyncHarness): { readonly uid: string } {
  return { uid: harness.api.uid("replicasets", "web") };
}

describe("creating", () => {
  it("[replicaset 39] posts the template's labels and spec under a generated name, with one controller reference", async () => {
    const harness = await harnessOf({ replicas: 1 });
    await harness.sync();
    const body = harness.api.calls.find(({ verb, resource }) => verb === "create" && resource === "pods")?.body;
    const { template } = harness.api.find("replicasets", "web").spec as { readonly template: { readonly spec: object } };
    expect(body).toEqual({
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name: expect.stringMatching(/^web-[bcdfghjklmnpqrstvwxz2456789]{5}$/),
        generateName: "web-",
        labels: { app: "web" },
        ownerReferences: [
          { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web", ...ownerIn(harness), controller: true, blockOwnerDeletion: true },
        ],
      },
      spec: template.spec,
    });
    expect(template.spec).toMatchObject({ containers: [{ name: "c", image: "i" }] });
    expect(harness.api.events).toEqual([`Normal SuccessfulCreate Created pod: ${harness.pods[0]?.metadata.name}`]);
  });

  it("[replicaset 31] stops after the batch in which the quota is exhausted: 10 pods, 15 calls", async () => {
    const harness = await harnessOf({ replicas: 100 });
    harness.api.script = quota(10);
    await harness.sync();
    expect(harness.pods).toHaveLength(10);
    expect(harness.api.writes.filter((write) => write === "create pods")).toHaveLength(15);
    expect(await harness.failures()).toBe(1);
    harness.api.script = {};
    await harness.sync(); // does not wait for calls that were not attempted
    expect(harness.pods).toHaveLength(100);
  });

  it("[replicaset 125] a ready pod becomes available on time while a quota rejects further pods", async () => {
    const harness = await harnessOf({ replicas: 3, minReadySeconds: 5 }, [
      { name: "web-1", owned: true, readySince: "2026-03-01T10:00:00Z" },
    ]);
    harness.api.script = quota(0);
    for (let failure = 1; failure <= 14; failure++) await harness.sync();
    expect(await harness.failures()).toBe(14);
    const dueMs = await harness.queuedInMs();
    expect(dueMs).toBeGreaterThan(0);
    expect(dueMs).toBeLessThanOrEqual(5_000);
    await harness.clock.advance(dueMs ?? 0);
    await harness.ring();
    expect(harness.api.find("replicasets", "web").status).toMatchObject({ readyReplicas: 1, availableReplicas: 1 });
    expect(await harness.queuedInMs()).toBeGreaterThan(60_000);
  });

  const slowStart = [
    { id: "[replicaset 32]", limit: 0, calls: 1 },
    { id: "[replicaset 33]", limit: 10, calls: 10 },
    { id: "[replicaset 34]", limit: 5, calls: 7 },
  ];
  it.each(slowStart)("$id sends $calls creates for 10 desired pods if the quota allows $limit", async ({ limit, calls }) => {
    const harness = await harnessOf({ replicas: 10 });
    harness.api.script = quota(limit);
    await harness.sync();
    expect(harness.pods).toHaveLength(limit);
    expect(harness.api.writes.filter((write) => write === "create pods")).toHaveLength(calls);
    expect(await harness.failures()).toBe(limit === 10 ? 0 : 1);
  });

  it("[replicaset 26] [replicaset 27] [replicaset 28] creates at most 500 pods per sync: 1,200 pods in three syncs", async () => {
    const harness = await harnessOf({ replicas: 1200 });
    const counts: number[] = [];
    for (let i = 0; i < 4; i++) {
      await harness.sync();
      counts.push(harness.pods.length);
    }
    expect(counts).toEqual([500, 1000, 1200, 1200]);
  });

  it("[replicaset 40] keeps the pod's only reference even if another create of the sync fails", async () => {
    const harness = await harnessOf({ replicas: 2 });
    harness.api.script = quota(1);
    await harness.sync();
    expect(harness.pods.map(({ metadata }) => metadata.ownerReferences?.length)).toEqual([1]);
  });

  it("[replicaset 22] [replicaset P5] [informer T74] [informer T77] neither creates nor deletes while calls of a dead run may still be executed, then finds their pods and creates only the missing ones", async () => {
    const harness = await harnessOf({ replicas: 5 });
    const token = { epoch: "epoch-1", controller: "replicaset", key: "shop/web", token: "dead" } as const;
    await harness.store.take(token, ownerIn(harness));
    const names = ["web-a", "web-b", "web-c", "web-d", "web-e"];
    expect(
      await harness.store.registerIntents(
        token,
        ownerIn(harness).uid,
        names.map((name) => ({ id: `c:${name}`, verb: "create", name })),
      ),
    ).toBe("ok");
    for (const name of names.slice(0, 3)) await harness.api.put("pods", pod({ name, owner: ownerIn(harness) }));
    await harness.store.done(token, { kind: "ok" }); // a run that ends before its responses leaves its intents

    await harness.sync();
    expect(harness.api.writes).toEqual(["patch replicasets/status"]);
    expect(await harness.queuedInMs()).toBe(OP_DEADLINE_MS);

    await harness.clock.advance(OP_DEADLINE_MS);
    await harness.ring();
    expect(harness.api.reads).toEqual(names.map((name) => `get pods ${name}`));
    await harness.ring();
    expect(harness.pods.map(({ metadata }) => metadata.name).toSorted()).toEqual(names);
  });

  it("finds the pods of more than ten calls of a dead run with one list", async () => {
    const harness = await harnessOf({ replicas: 12 });
    const token = { epoch: "epoch-1", controller: "replicaset", key: "shop/web", token: "dead" } as const;
    await harness.store.take(token, ownerIn(harness));
    const names = Array.from({ length: 12 }, (_, i) => `web-${i}`);
    await harness.store.registerIntents(
      token,
      ownerIn(harness).uid,
      names.map((name) => ({ id: `c:${name}`, verb: "create", name })),
    );
    await harness.api.put("pods", pod({ name: "web-3", owner: ownerIn(harness) }));
    await harness.api.put("pods", pod({ name: "web-5", labels: {} }));
    await harness.clock.advance(LEASE_MS);
    await harness.ring();
    expect(harness.api.reads).toEqual(["list pods "]);
    await harness.ring();
    expect(harness.pods).toHaveLength(13);
    expect(harness.pods.map(({ metadata }) => metadata.name)).toEqual(expect.arrayContaining(names));
  });

  it("[replicaset P6] [informer T74] [informer T75] retries a create with a lost response under the same name, without a surplus pod", async () => {
    const harness = await harnessOf({ replicas: 3 });
    harness.api.script = { "create pods": (_, nth) => (nth === 2 ? "lost" : undefined) };
    await harness.sync();
    expect(harness.pods).toHaveLength(3);
    expect(await harness.failures()).toBe(1);
    harness.api.script = {};
    await harness.sync();
    expect(await harness.failures()).toBe(0);
    await harness.sync();
    expect(harness.pods).toHaveLength(3);
    expect(harness.api.reads.filter((read) => read.startsWith("get pods"))).toHaveLength(1);
    expect(harness.api.find("replicasets", "web").status).not.toHaveProperty("conditions");
  });

  it.each([
    { title: "the second attempt succeeds", refused: 1, stored: false, pods: 1, failures: 0 },
    { title: "the pod exists because the first attempt succeeded", refused: 1, stored: true, pods: 1, failures: 0 },
    { title: "both attempts get a 503", refused: 2, stored: false, pods: 0, failures: 1 },
  ])(
    "[replicaset 128] retries a create once, under the same pod name, after a 503 response: $title",
    async ({ refused, stored, pods, failures }) => {
      const harness = await harnessOf({ replicas: 1 });
      harness.api.script = {
        "create pods": async ({ name }, nth) => {
          if (nth > refused) return undefined;
          if (stored) await harness.api.put("pods", pod({ name, owner: ownerIn(harness) }));
          return refusal(503, "ServiceUnavailable", "no");
        },
      };
      await harness.sync();
      expect(podsAsked(harness)).toHaveLength(2);
      expect(new Set(podsAsked(harness)).size).toBe(1);
      expect(harness.pods).toHaveLength(pods);
      expect(await harness.failures()).toBe(failures);
    },
  );

  it("keeps the name if the second create is rejected, because the first may still take effect", async () => {
    const harness = await harnessOf({ replicas: 1 });
    harness.api.script = {
      "create pods": (_, nth) => (nth === 1 ? refusal(503, "ServiceUnavailable", "no") : refusal(403, "Forbidden", "quota")),
    };
    await harness.sync();
    harness.api.script = {};
    await harness.sync();
    expect(podsAsked(harness)).toHaveLength(3);
    expect(new Set(podsAsked(harness)).size).toBe(1);
  });

  it("keeps the name of an unanswered create if the next attempt is rejected, and uses the name again", async () => {
    const harness = await harnessOf({ replicas: 1 });
    harness.api.script = { "create pods": "never" };
    await harness.sync();
    harness.api.script = quota(0);
    await harness.sync();
    harness.api.script = {};
    await harness.sync();
    expect(podsAsked(harness)).toHaveLength(3);
    expect(new Set(podsAsked(harness)).size).toBe(1);
  });

  it("creates no surplus pod if the quota rejects a create whose pod already exists but is not cached", async () => {
    const harness = await harnessOf({ replicas: 1 });
    harness.api.script = { "create pods": "lost" };
    await harness.sync();
    await harness.clock.advance(60_000);
    harness.api.script = quota(0);
    await harness.sync();
    harness.api.script = {};
    await harness.sync();
    await harness.sync();
    expect(harness.pods).toHaveLength(1);
  });

  it("drops the name of a rejected create whose rejection quotes it", async () => {
    const harness = await harnessOf({ replicas: 2 });
    harness.api.script = { "create pods": ({ name }) => refusal(403, "Forbidden", `pods "${name}" is forbidden: exceeded quota`) };
    await harness.sync();
    await harness.sync();
    harness.api.script = {};
    await harness.sync();
    const asked = podsAsked(harness);
    expect(new Set(asked).size).toBe(asked.length);
  });

  it("[replicaset P13] ignores creates rejected in a terminating namespace: no Event, condition or requeue", async () => {
    const harness = await harnessOf({ replicas: 50 });
    harness.api.script = {
      "create pods": refusal(403, "Forbidden", "namespace shop is being terminated", [{ reason: "NamespaceTerminating" }]),
    };
    await harness.sync();
    expect(harness.api.writes.filter((write) => write === "create pods")).toHaveLength(50);
    expect(harness.api.events).toEqual([]);
    expect(harness.api.find("replicasets", "web").status).toEqual(EMPTY_STATUS);
    expect(await harness.queuedInMs()).toBeUndefined();

    // The pods are still pending, so a requeued key neither creates nor deletes pods.
    const posts = (): number => harness.api.writes.filter((write) => write === "create pods").length;
    for (let passedMs = 0; passedMs < EXPECTATION_MS - 20_000; passedMs += 20_000) {
      await harness.clock.advance(20_000);
      await harness.stream();
      await harness.sync();
      expect(posts(), `after ${passedMs + 20_000} ms`).toBe(50);
    }
    await harness.clock.advance(20_000);
    await harness.stream();
    await harness.sync(); // the intents' deadlines have passed: reads whether any of the pods exists
    await harness.ring();
    expect(posts()).toBe(100);
    expect(harness.api.events).toEqual([]);
  });

  it("[replicaset P14] sets ReplicaFailure once while a quota rejects creates, and removes it when the count matches", async () => {
    const harness = await harnessOf({ replicas: 3 });
    harness.api.script = quota(2);
    await harness.sync();
    expect(harness.api.find("replicasets", "web").status).toMatchObject({
      replicas: 0,
      conditions: [
        {
          type: "ReplicaFailure",
          status: "True",
          reason: "FailedCreate",
          message: "exceeded quota",
          lastTransitionTime: "2026-03-01T10:00:00Z",
        },
      ],
    });
    expect(harness.api.events).toContain("Warning FailedCreate Error creating: exceeded quota");
    harness.api.script = quota(0);
    await harness.sync();
    await harness.sync();
    expect(harness.api.writes.filter((write) => write === "patch replicasets/status")).toHaveLength(2);
    await harness.api.change("replicasets", "web", ({ spec }) => ({ spec: { ...spec, replicas: 2 } }));
    await harness.stream();
    await harness.sync();
    expect(harness.api.find("replicasets", "web").status).not.toHaveProperty("conditions");
  });

  it("[replicaset P7] [informer T73] reads its own writes: neither repeats creates nor miscounts the status while the watch is stopped", async () => {
    const harness = await harnessOf({ replicas: 2 });
    for (let i = 0; i < 3; i++) await harness.sync();
    expect(harness.api.writes.filter((write) => write === "create pods")).toHaveLength(2);
    expect(harness.api.find("replicasets", "web").status).toMatchObject({ replicas: 2 });
  });

  it("creates nothing if the live ReplicaSet has changed since the decision, and requeues it immediately", async () => {
    const harness = await harnessOf({ replicas: 1 });
    await harness.api.change("replicasets", "web", ({ spec }) => ({ spec: { ...spec, replicas: 3 } }));
    await harness.sync();
    expect(harness.api.writes).toEqual([]);
    expect(await harness.queuedInMs()).toBe(0);
    await harness.ring();
    expect(harness.pods).toHaveLength(3);
  });

  it("creates nothing for an owner that is deleted, replaced, or being deleted", async () => {
    const gone = await harnessOf({ replicas: 1 });
    await gone.api.remove("replicasets", "web");
    await gone.sync();
    expect(gone.api.writes).toEqual([]);

    const replaced = await harnessOf({ replicas: 1 });
    await replaced.api.remove("replicasets", "web");
    await replaced.api.put("replicasets", replicaSet());
    await replaced.sync();
    expect(replaced.api.writes).toEqual([]);

    const deleting = await harnessOf({ replicas: 1 });
    await deleting.api.terminate("replicasets", "web");
    await deleting.sync();
    expect(deleting.api.writes.filter((write) => write === "create pods")).toEqual([]);
  });

  it("stops before the next batch when the lease ends, and keeps no intent of calls that were not sent", async () => {
    const harness = await harnessOf({ replicas: 3 });
    harness.api.latencyMs = 4_000;
    harness.invocationMs = WRITE_MARGIN_MS + 7_000;
    await harness.sync();
    expect(harness.logged.join()).toContain("lease ends");
    expect(harness.pods).toHaveLength(1);
    expect(harness.api.writes).toEqual(["create pods"]);
    harness.api.latencyMs = 0;
    await harness.stream();
    await harness.sync();
    expect(harness.pods).toHaveLength(3);
  });

  it("sends no delete that could not finish in time, and emits no Warning Event for it", async () => {
    const pods = Array.from({ length: 100 }, (_, i) => ({ name: `web-${i}`, owned: true }));
    const harness = await harnessOf({ replicas: 0 }, pods);
    harness.api.latencyMs = 4_000;
    harness.invocationMs = WRITE_MARGIN_MS + 11_000;
    await harness.sync();
    // The owner is read first. Two rounds start after 4 and 8 s; a third one would start after 12 s.
    expect(harness.api.writes).toEqual(Array.from({ length: 2 * CALLS_AT_ONCE_MAX }, () => "delete pods"));
    expect(harness.logged.join()).toContain("lease ends");
    expect(harness.api.events.filter((event) => event.startsWith("Warning"))).toEqual([]);
    harness.api.latencyMs = 0;
    harness.invocationMs = undefined;
    await harness.sync();
    expect(harness.pods.every(({ metadata }) => metadata.deletionTimestamp !== undefined)).toBe(true);
    expect(harness.api.writes.filter((write) => write === "delete pods")).toHaveLength(100);
  });

  it("does not report a call that was never sent as an Event or condition, and sends it in the next run", async () => {
    const harness = await harnessOf({ replicas: 3 });
    harness.api.script = { "create pods": (_, nth) => (nth === 2 ? new NotSentError("not sent") : undefined) };
    await harness.sync();
    expect(harness.api.events.filter((event) => event.startsWith("Warning"))).toEqual([]);
    expect(harness.api.find("replicasets", "web").status ?? {}).not.toHaveProperty("conditions");
    harness.api.script = { "delete pods": new NotSentError("not sent") };
    await harness.sync();
    expect(harness.pods).toHaveLength(3);
    await harness.api.change("replicasets", "web", ({ spec }) => ({ spec: { ...spec, replicas: 0 } }));
    await harness.stream();
    await harness.sync();
    expect(harness.api.events.filter((event) => event.startsWith("Warning"))).toEqual([]);
    harness.api.script = {};
    await harness.sync();
    expect(harness.pods.every(({ metadata }) => metadata.deletionTimestamp !== undefined)).toBe(true);
  });

  it("adopts more orphans than fit into one write-through", async () => {
    const pods = Array.from({ length: 1_100 }, (_, i) => ({ name: `orphan-${i}` }));
    const harness = await harnessOf({ replicas: 1_100 }, pods);
    harness.storeCalls.length = 0;
    await harness.sync();
    expect(harness.api.writes).toEqual([...pods.map(() => "patch pods"), "patch replicasets/status"]);
    expect(harness.api.find("replicasets", "web").status).toMatchObject({ replicas: 1_100 });
    // Three batches of claims, and the status.
    expect(harness.storeCalls.filter((call) => call === "writeThrough")).toHaveLength(4);
    expect(await harness.failures()).toBe(0);
  });

  it("[informer T80] [informer T81] records 25 of 40 creates of one sync in ten Events: nine single ones, and one that combines 16", async () => {
    const harness = await harnessOf({ replicas: 40 });
    await harness.sync();
    expect(harness.pods).toHaveLength(40);
    const created = /^Normal SuccessfulCreate Created pod: web-[a-z0-9]{5}$/;
    expect(harness.api.events).toEqual([
      ...Array.from({ length: 9 }, () => expect.stringMatching(created) as string),
      expect.stringMatching(/^Normal SuccessfulCreate 16 \(combined from similar events\): Created pod: web-[a-z0-9]{5}$/),
    ]);
  });

  it("[informer T82] counts a repeated failure in one Event, across runs", async () => {
    const harness = await harnessOf({ replicas: 1 });
    harness.api.script = { "create pods": refusal(403, "Forbidden", "exceeded quota: small") };
    for (let attempt = 0; attempt < 30; attempt++) {
      await harness.sync();
      await harness.clock.advance(60_000);
      await harness.stream();
    }
    const told = "Error creating: exceeded quota: small";
    expect(harness.api.events[0]).toBe(`Warning FailedCreate ${told}`);
    expect(harness.api.events.slice(1)).toEqual(harness.api.events.slice(1).map((_, i) => `${i + 2} ${told}`));
    expect(harness.api.events).toHaveLength(30);
  });

  it("creates an expired Event again, in its current state", async () => {
    const harness = await harnessOf({ replicas: 1 });
    harness.api.script = { "create pods": refusal(403, "Forbidden", "no"), "patch events": refusal(404, "NotFound", "gone") };
    await harness.sync();
    await harness.clock.advance(60_000);
    await harness.sync();
    expect(harness.api.events).toEqual([
      "Warning FailedCreate Error creating: no",
      "2 Error creating: no",
      "Warning FailedCreate 2 Error creating: no",
    ]);
  });

  it("creates a new Event for each repetition while the Store cannot correlate Events", async () => {
    const harness = await harnessOf({ replicas: 1 });
    harness.api.script = { "create pods": refusal(403, "Forbidden", "no") };
    harness.ports.store.correlateEvents = () => Promise.reject(new Error("redis is unavailable"));
    await harness.sync();
    await harness.clock.advance(60_000);
    await harness.sync();
    expect(harness.api.events).toEqual(Array(2).fill("Warning FailedCreate Error creating: no"));
    expect(harness.logged.filter((line) => line.startsWith("failed to correlate Events"))).toHaveLength(2);
  });

  it("succeeds even if the API server rejects an Event", async () => {
    const harness = await harnessOf({ replicas: 1 });
    harness.api.script = { "create events": refusal(403, "Forbidden", "no events") };
    await harness.sync();
    expect(harness.pods).toHaveLength(1);
    expect(await harness.failures()).toBe(0);
  });

  it("calls the Store only for two takes, one registerIntents, one write-through per batch and one for the status, one correlateEvents, and done", async () => {
    const harness = await harnessOf({ replicas: 10 });
    harness.storeCalls.length = 0;
    await harness.sync();
    expect(harness.storeCalls.filter((verb) => verb !== "readIndex")).toEqual([
      "take",
      "take",
      "registerIntents",
      ...Array.from({ length: 4 }, () => "writeThrough"),
      "writeThrough",
      "correlateEvents",
      "done",
    ]);
    expect(harness.storeCalls.filter((verb) => verb === "readIndex")).toEqual([]);
  });
});

describe("intents", () => {
  const dead = { epoch: "epoch-1", controller: "replicaset", key: "shop/web", token: "dead" } as const;

  /** Simulates a run that registered its deletes and was killed. */
  async function deletesOf(harness: SyncHarness, names: readonly string[]): Promise<void> {
    await harness.store.add("epoch-1", "replicaset", "shop/web", 0);
    await harness.store.take(dead, ownerIn(harness));
    const pods = names.map((name) => harness.api.find("pods", name).metadata);
    await harness.store.registerIntents(
      dead,
      ownerIn(harness).uid,
      pods.map(({ name, uid }) => ({ id: `d:${uid}`, verb: "delete", name, uid })),
    );
    await harness.store.done(dead, { kind: "ok" });
  }

  /** Returns the names of the pending calls, as a run reads them. */
  async function waitedFor(harness: SyncHarness): Promise<readonly string[]> {
    await harness.store.add("epoch-1", "replicaset", "shop/web", 0);
    const take = await harness.store.take({ ...dead, token: "look" }, ownerIn(harness));
    await harness.store.done({ ...dead, token: "look" }, { kind: "ok" });
    return take.kind === "ok" ? take.snapshot.intents.map(({ name }) => name) : [take.kind];
  }

  /** Deletes the pod, or changes it again while it is terminating. */
  async function markDeleting(harness: SyncHarness, name: string): Promise<void> {
    const { deletionTimestamp, resourceVersion } = harness.api.find("pods", name).metadata;
    if (deletionTimestamp === undefined) await harness.api.terminate("pods", name);
    else await harness.api.change("pods", name, ({ metadata }) => ({ metadata: { ...metadata, annotations: { seen: resourceVersion } } }));
  }

  it("[replicaset 14] [replicaset 15] [replicaset 16] [replicaset 17] intents are fulfilled only by the pod that they name", async () => {
    const harness = await harnessOf({ replicas: 0 }, [
      { name: "pod1", owned: true },
      { name: "pod2", owned: true },
    ]);
    await deletesOf(harness, ["pod2"]);
    await markDeleting(harness, "pod1");
    await harness.stream();
    expect(await waitedFor(harness)).toEqual(["pod2"]);
    await harness.api.remove("pods", "pod1");
    await harness.stream();
    expect(await waitedFor(harness)).toEqual(["pod2"]);
    await markDeleting(harness, "pod2");
    await harness.stream();
    expect(await harness.queuedInMs()).toBe(0);
    expect(await waitedFor(harness)).toEqual([]);
  });

  it.each([
    { verb: "registerIntents", named: "a create", pods: 0, made: 10 },
    { verb: "registerIntents", named: "a delete", pods: 2, made: 0 },
    // The batches of 1 and 2 were in flight when the first response was lost.
    { verb: "writeThrough", named: "a create", pods: 0, made: 7 },
  ] as const)(
    "$named whose Store call $verb is executed but gets no response does not block the owner, and has its effect only once",
    async ({ verb, pods, made }) => {
      const own = Array.from({ length: pods }, (_, i) => ({ name: `p${i}`, owned: true }));
      const harness = await harnessOf({ replicas: made === 0 ? 0 : 10 }, own);
      const carriedOut = harness.store[verb];
      Object.assign(harness.store, {
        async [verb](...given: unknown[]) {
          Object.assign(harness.store, { [verb]: carriedOut });
          await (carriedOut as (...each: unknown[]) => unknown)(...given);
          throw new Error("timed out");
        },
      });
      await harness.sync();
      expect(await harness.failures()).toBe(1);
      await harness.stream();
      harness.api.calls.length = 0;
      await harness.sync();
      const calls = harness.api.calls.filter(({ resource, verb: call }) => resource === "pods" && call !== "get");
      expect(calls).toHaveLength(made === 0 ? pods : made);
      expect(harness.pods.filter(({ metadata }) => metadata.deletionTimestamp === undefined)).toHaveLength(made === 0 ? 0 : 10);
      expect(await waitedFor(harness)).toEqual([]);
    },
  );

  it("a delete of a dead run ends when its pod is deleted or replaced", async () => {
    const harness = await harnessOf({ replicas: 0 }, [
      { name: "a", owned: true },
      { name: "b", owned: true },
      { name: "c", owned: true },
    ]);
    await deletesOf(harness, ["a", "b", "c"]);
    await harness.api.remove("pods", "a");
    await harness.api.remove("pods", "b");
    await harness.api.put("pods", pod({ name: "b", labels: { other: "pod" } }));
    await harness.clock.advance(LEASE_MS);
    await harness.sync(); // recovers the intents
    await harness.ring();
    expect(harness.api.calls.filter(({ verb }) => verb === "delete").map(({ name }) => name)).toEqual(["c"]);
    expect(await waitedFor(harness)).toEqual([]);
  });

  it("drops a planned name that another object uses, and uses a new one", async () => {
    const harness = await harnessOf({ replicas: 1 });
    harness.api.script = { "create pods": "never" };
    await harness.sync();
    const [name = ""] = await waitedFor(harness);
    await harness.api.put("pods", pod({ name, labels: { other: "pod" } }));
    await harness.stream();
    harness.api.script = {};
    await harness.sync();
    expect(harness.pods).toHaveLength(2);
    expect(await waitedFor(harness)).toEqual([]);
  });

  it("[replicaset 13] intents are fulfilled by a pod that is first seen while it is being deleted", async () => {
    const harness = await harnessOf({ replicas: 0 });
    await harness.api.put("pods", pod({ name: "pod1", owner: ownerIn(harness) }));
    await deletesOf(harness, ["pod1"]);
    await harness.api.terminate("pods", "pod1");
    await harness.stream(({ object }) => object.metadata.deletionTimestamp !== undefined);
    expect(await waitedFor(harness)).toEqual([]);
  });

  it("[replicaset 21] [replicaset P1] block the owner until the deletions of all five pods are seen, even if some are seen repeatedly", async () => {
    const names = ["a", "b", "c", "d", "e"];
    const harness = await harnessOf(
      { replicas: 0 },
      names.map((name) => ({ name, owned: true })),
    );
    await deletesOf(harness, names);
    for (const [i, name] of names.entries()) {
      for (let times = 0; times < 3; times++) {
        await markDeleting(harness, name);
        await harness.stream();
      }
      expect((await waitedFor(harness)).toSorted()).toEqual(names.slice(i + 1));
    }
  });
});

describe("recreation", () => {
  it("[replicaset 23] a late response for a deleted owner has no effect, and a sync of its key sends no request", async () => {
    const harness = await harnessOf({ replicas: 1 });
    const { uid } = ownerIn(harness);
    await harness.sync();
    await harness.api.remove("replicasets", "web");
    await harness.stream();
    const before = harness.api.calls.length;
    await harness.store.writeThrough(
      { epoch: "epoch-1", controller: "replicaset", key: "shop/web", token: "late" },
      { resource: "pods", items: [], counts: [], ownerUid: uid, lower: ["c:web-x"], plan: [], gone: [], ownStatus: false },
    );
    await harness.sync();
    expect(harness.api.calls).toHaveLength(before);
  });

  it.each([
    { id: "[replicaset 24]", collapsed: false },
    { id: "[replicaset 25]", collapsed: true },
  ])("$id [replicaset P10] a new owner with the old name creates its own pod (seen as one change: $collapsed)", async ({ collapsed }) => {
    const harness = await harnessOf({ replicas: 1 });
    const old = ownerIn(harness);
    await harness.sync();
    await harness.api.remove("replicasets", "web");
    if (!collapsed) await harness.stream();
    await harness.api.put("replicasets", replicaSet());
    await harness.stream(({ type }) => type !== "DELETED");
    await harness.sync();
    expect(harness.pods.map(({ metadata }) => metadata.ownerReferences?.[0]?.uid)).toEqual([old.uid, ownerIn(harness).uid]);
  });
});

describe("claiming", () => {
  it("[replicaset 30] sends no request when the count matches", async () => {
    const harness = await harnessOf(
      {
        replicas: 2,
        status: {
          replicas: 2,
          fullyLabeledReplicas: 2,
          readyReplicas: 2,
          availableReplicas: 2,
          terminatingReplicas: 0,
          observedGeneration: 1,
        },
      },
      [
        { name: "a", owned: true },
        { name: "b", owned: true },
      ],
    );
    harness.storeCalls.length = 0;
    await harness.sync();
    expect(harness.api.calls).toEqual([]);
    expect(harness.storeCalls).toEqual(["take", "take", "done"]);
  });

  it("[replicaset 35] ignores a matching pod of another controller", async () => {
    const harness = await harnessOf({ replicas: 2 }, [{ name: "a", owner: { uid: "rs-9", name: "other" } }]);
    await harness.sync();
    expect(harness.api.writes).toEqual(["create pods", "create pods", "patch replicasets/status"]);
  });

  it("[replicaset 94] [replicaset 95] [replicaset 104] adopts matching orphans after one live read of the owner, and counts them in the same sync", async () => {
    const harness = await harnessOf({ replicas: 2 }, [{ name: "a" }, { name: "b" }]);
    const plain = { apiVersion: "apps/v1", kind: "StatefulSet", name: "s", uid: "s-1", controller: false };
    await harness.api.change("pods", "a", ({ metadata }) => ({ metadata: { ...metadata, ownerReferences: [plain] } }));
    await harness.api.change("pods", "b", ({ metadata }) => ({
      metadata: { ...metadata, ownerReferences: [{ apiVersion: "apps/v1", kind: "ReplicaSet", name: "web", ...ownerIn(harness) }] },
    }));
    await harness.stream();
    await harness.sync();
    expect(harness.api.writes).toEqual(["patch pods", "patch pods", "patch replicasets/status"]);
    expect(harness.api.reads).toEqual(["get replicasets web"]);
    const ours = {
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      name: "web",
      ...ownerIn(harness),
      controller: true,
      blockOwnerDeletion: true,
    };
    expect(harness.api.find("pods", "a").metadata.ownerReferences).toEqual([ours, plain]);
    expect(harness.api.find("pods", "b").metadata.ownerReferences).toEqual([ours]);
    expect(harness.api.find("replicasets", "web").status).toMatchObject({ replicas: 2, readyReplicas: 2 });
  });

  it("[replicaset 36] tries every orphan after a failed adoption, then ends the sync without creates or a status write", async () => {
    const harness = await harnessOf({ replicas: 2 }, [{ name: "a" }, { name: "b" }]);
    harness.api.script = { "patch pods": refusal(500, "InternalError", "no") };
    await harness.sync();
    expect(harness.api.writes).toEqual(["patch pods", "patch pods"]);
    expect(await harness.failures()).toBe(1);
  });

  it("[replicaset 37] [replicaset P20] for a ReplicaSet that is being deleted, adopts, releases and creates no pods, but still updates the status", async () => {
    const harness = await harnessOf({ replicas: 2, deleting: true }, [
      { name: "a" },
      { name: "b", owned: true, labels: { app: "x" } },
      { name: "c", owned: true },
    ]);
    await harness.sync();
    expect(harness.api.writes).toEqual(["patch replicasets/status"]);
    expect(harness.api.find("replicasets", "web").status).toMatchObject({ replicas: 1 });
    expect(await harness.failures()).toBe(0);
  });

  it("[replicaset 38] adopts nothing when the live owner is being deleted, and returns upstream's message", async () => {
    const harness = await harnessOf({ replicas: 2 }, [{ name: "a" }]);
    await harness.api.terminate("replicasets", "web");
    await harness.sync();
    expect(harness.api.writes).toEqual([]);
    expect(harness.logged.join()).toContain(
      `can't adopt Pod shop/a (${harness.api.uid("pods", "a")}): shop/web has just been deleted at 2026-03-01 10:00:00 +0000 UTC`,
    );
    expect(await harness.failures()).toBe(1);
  });

  it("[replicaset P22] reads the owner once for three orphans; if its uid differs, returns one aggregated error and patches nothing", async () => {
    const harness = await harnessOf({ replicas: 2 }, [{ name: "a" }, { name: "b" }, { name: "c" }]);
    const wanted = ownerIn(harness).uid;
    await harness.api.remove("replicasets", "web");
    await harness.api.put("replicasets", replicaSet());
    await harness.sync();
    expect(harness.api.reads).toEqual(["get replicasets web"]);
    expect(harness.api.writes).toEqual([]);
    const why = `can't recheck DeletionTimestamp: original ReplicaSet shop/web is gone: got uid ${ownerIn(harness).uid}, wanted ${wanted}`;
    const one = (name: string): string => `can't adopt Pod shop/${name} (${harness.api.uid("pods", name)}): ${why}`;
    expect(harness.logged[0]).toContain(`[${one("a")}, ${one("b")}, ${one("c")}]`);
  });

  it("[replicaset P21] [replicaset 41] skips 404 and fails on 422 and 409 when adopting; accepts 404 and 422 and fails on 500 when releasing", async () => {
    const table = [
      { orphan: true, error: refusal(404, "NotFound", "gone"), failures: 0 },
      { orphan: true, error: refusal(422, "Invalid", "another controller"), failures: 1 },
      { orphan: true, error: refusal(409, "Conflict", "again"), failures: 1 },
      { orphan: false, error: refusal(404, "NotFound", "gone"), failures: 0 },
      { orphan: false, error: refusal(422, "Invalid", "other uid"), failures: 0 },
      { orphan: false, error: refusal(500, "InternalError", "no"), failures: 1 },
    ];
    for (const { orphan, error, failures } of table) {
      const harness = await harnessOf({ replicas: 0 }, [orphan ? { name: "a" } : { name: "a", owned: true, labels: { app: "x" } }]);
      harness.api.script = { "patch pods": error };
      await harness.sync();
      expect([error.code, orphan, await harness.failures()]).toEqual([error.code, orphan, failures]);
      expect(harness.api.events).toEqual([]);
    }
  });

  it("[replicaset 103] releases a pod that no longer matches and replaces it in the same sync", async () => {
    const harness = await harnessOf({ replicas: 1 }, [{ name: "a", owned: true, labels: { app: "x" } }]);
    await harness.sync();
    expect(harness.api.writes).toEqual(["patch pods", "create pods", "patch replicasets/status"]);
    expect(harness.api.find("pods", "a").metadata).not.toHaveProperty("ownerReferences");
  });

  it("[replicaset P19] ignores orphans that are terminating, finished, or in another namespace", async () => {
    const harness = await harnessOf({ replicas: 0 }, [
      { name: "a", deleting: true },
      { name: "b", phase: "Succeeded" },
    ]);
    await harness.api.put("pods", { ...pod({ name: "c" }), metadata: { ...pod({ name: "c" }).metadata, namespace: "other" } });
    await harness.stream();
    await harness.sync();
    expect(harness.api.writes).toEqual(["patch replicasets/status"]);
  });

  it("does not claim a pod whose adoption returns a deletionTimestamp", async () => {
    const harness = await harnessOf({ replicas: 1 }, [{ name: "a" }]);
    await harness.api.terminate("pods", "a");
    await harness.sync();
    expect(harness.api.writes).toEqual(["patch pods", "create pods", "patch replicasets/status"]);
  });

  it("[replicaset 107] adopts all matching pods and deletes the surplus in the same sync", async () => {
    const harness = await harnessOf({ replicas: 2 }, [{ name: "a" }, { name: "b" }, { name: "c" }]);
    await harness.sync();
    expect(harness.api.writes).toEqual(["patch pods", "patch pods", "patch pods", "delete pods", "patch replicasets/status"]);
  });
});

describe("deleting", () => {
  const three = [
    { name: "a", owned: true },
    { name: "b", owned: true },
    { name: "c", owned: true },
  ] as const;

  it("[replicaset 99] deletes two surplus pods, records an Event for each, and counts them as terminating", async () => {
    const [a, b, c] = three;
    const harness = await harnessOf({ replicas: 1 }, [{ ...a, phase: "Pending" }, { ...b, phase: "Pending" }, c]);
    await harness.sync();
    expect(harness.api.writes).toEqual(["delete pods", "delete pods", "patch replicasets/status"]);
    expect(harness.api.events.toSorted()).toEqual(["Normal SuccessfulDelete Deleted pod: a", "Normal SuccessfulDelete Deleted pod: b"]);
    await harness.sync();
    expect(harness.api.find("replicasets", "web").status).toMatchObject({ replicas: 1, terminatingReplicas: 2 });
  });

  it("writes the status on a release without terminatingReplicas", async () => {
    const harness = await harnessOf({ replicas: 3 }, three);
    await harness.publish("1.34");
    await harness.sync();
    expect(harness.logged).toEqual([]);
    expect(harness.api.find("replicasets", "web").status).toMatchObject({ replicas: 3, observedGeneration: 1 });
    expect(harness.api.find("replicasets", "web").status).not.toHaveProperty("terminatingReplicas");
  });

  it("[replicaset 42] ignores a pod that is already deleted, without a failure or Event, and does not count it again", async () => {
    const harness = await harnessOf({ replicas: 0 }, three.slice(0, 1));
    harness.api.script = { "delete pods": refusal(404, "NotFound", "gone") };
    await harness.sync();
    expect(harness.api.events).toEqual([]);
    expect(await harness.failures()).toBe(0);
    await harness.sync();
    expect(harness.api.writes.filter((write) => write === "delete pods")).toHaveLength(1);
    expect(harness.api.find("replicasets", "web").status).toMatchObject({ replicas: 0, terminatingReplicas: 0 });
  });

  it("[replicaset 81] reports a rejected delete in an Event and a condition", async () => {
    const harness = await harnessOf({ replicas: 2 }, three);
    harness.api.script = { "delete pods": refusal(403, "Forbidden", "no") };
    await harness.sync();
    expect(harness.api.events).toEqual(["Warning FailedDelete Error deleting: no"]);
    expect(harness.api.find("replicasets", "web").status).toMatchObject({
      conditions: [{ reason: "FailedDelete", message: "unable to delete pods: no" }],
    });
  });

  it("[informer T76] deletes no other pod after an unanswered delete until its outcome is known", async () => {
    const harness = await harnessOf({ replicas: 2 }, three);
    harness.api.script = { "delete pods": "never" };
    await harness.sync();
    harness.api.script = {};
    await harness.sync();
    const names = harness.api.calls.filter(({ verb }) => verb === "delete").map(({ name }) => name);
    expect(names).toHaveLength(3);
    expect(new Set(names).size).toBe(1);
    expect(harness.pods.filter(({ metadata }) => metadata.deletionTimestamp !== undefined)).toHaveLength(1);
  });

  it("[informer T76] treats a pod deleted without grace as deleted before the watch reports it", async () => {
    // A pod without a node is not terminated by a kubelet.
    const harness = await harnessOf({ replicas: 2 }, [...three.slice(0, 2), { name: "c", owned: true, phase: "Pending", nodeName: "" }]);
    await harness.sync();
    expect(harness.pods.map(({ metadata }) => metadata.name)).toEqual(["a", "b"]);
    await harness.sync();
    expect(harness.pods).toHaveLength(2);
    expect(harness.api.writes.filter((write) => write === "delete pods")).toHaveLength(1);
  });

  it("deletes the pod on the node with more related pods, and reads the siblings' pods twice", async () => {
    const owner = [{ apiVersion: "apps/v1", kind: "Deployment", name: "d", uid: "d-1", controller: true }];
    const harness = await harnessOf({ replicas: 1, ownerReferences: owner }, [
      { name: "a", owned: true, nodeName: "n1" },
      { name: "b", owned: true, nodeName: "n2" },
    ]);
    const { uid } = (await harness.api.put("replicasets", replicaSet({ name: "web-old", ownerReferences: owner }))).metadata;
    await harness.api.put("pods", pod({ name: "c", owner: { name: "web-old", uid }, nodeName: "n2" }));
    await harness.stream();
    harness.storeCalls.length = 0;
    await harness.sync();
    expect(harness.api.calls.filter(({ verb }) => verb === "delete").map(({ name }) => name)).toEqual(["b"]);
    expect(harness.storeCalls.filter((verb) => verb === "readSlices")).toHaveLength(2);
  });
});

describe("status", () => {
  it("[replicaset 70] [replicaset 12] fails after one live read and two attempts with the same counts if every status write fails", async () => {
    const harness = await harnessOf({ replicas: 1 }, [{ name: "a", owned: true }]);
    harness.api.script = { "patch replicasets/status": refusal(500, "InternalError", "no") };
    await harness.sync();
    expect(harness.api.reads).toEqual(["get replicasets web"]);
    const bodies = harness.api.calls.filter(({ verb }) => verb === "patch").map(({ body }) => body);
    expect(bodies).toHaveLength(2);
    expect(bodies).toEqual([
      expect.objectContaining({ status: expect.objectContaining({ replicas: 1 }) }),
      expect.objectContaining({ status: expect.objectContaining({ replicas: 1 }) }),
    ]);
    expect(await harness.failures()).toBe(1);
    expect(await harness.queuedInMs()).toBeDefined();
  });

  it("[replicaset P18] keeps a condition that another client sets meanwhile", async () => {
    const harness = await harnessOf({ replicas: 1 }, [{ name: "a", owned: true }]);
    await harness.api.change("replicasets", "web", () => ({ status: { conditions: [{ type: "StatusUpdate", status: "True" }] } }));
    await harness.sync();
    expect(harness.api.writes).toEqual(["patch replicasets/status", "patch replicasets/status"]);
    expect(harness.api.find("replicasets", "web").status).toMatchObject({
      replicas: 1,
      conditions: [{ type: "StatusUpdate", status: "True" }],
    });
  });

  it("requeues without writing the status when the spec changed before the status write", async () => {
    const harness = await harnessOf({ replicas: 1 }, [{ name: "a", owned: true }]);
    await harness.api.change("replicasets", "web", ({ spec }) => ({ spec: { ...spec, replicas: 2 } }));
    await harness.sync();
    expect(harness.api.find("replicasets", "web").status).toEqual({ replicas: 0 });
    expect(await harness.queuedInMs()).toBe(0);
    await harness.ring();
    await harness.ring();
    expect(harness.api.find("replicasets", "web").status).toMatchObject({ replicas: 2, observedGeneration: 2 });
  });

  it("[replicaset 29] computes the status from the pods before its creates, and writes the new counts in the next sync", async () => {
    const harness = await harnessOf(
      {
        replicas: 2,
        status: {
          replicas: 1,
          fullyLabeledReplicas: 1,
          readyReplicas: 1,
          availableReplicas: 1,
          terminatingReplicas: 0,
          observedGeneration: 1,
        },
      },
      [{ name: "a", owned: true }],
    );
    await harness.sync();
    expect(harness.api.writes).toEqual(["create pods"]);
    await harness.sync();
    expect(harness.api.writes).toEqual(["create pods", "patch replicasets/status"]);
    await harness.api.remove("pods", "a");
    await harness.stream();
    harness.api.script = quota(0);
    await harness.sync();
    await harness.sync();
    expect(harness.api.writes.slice(2)).toEqual(["create pods", "patch replicasets/status", "create pods"]);
  });

  it("[replicaset 18] requeues for the time at which the first ready pod becomes available", async () => {
    const status = {
      replicas: 4,
      fullyLabeledReplicas: 4,
      readyReplicas: 3,
      availableReplicas: 0,
      terminatingReplicas: 0,
      observedGeneration: 1,
    };
    const harness = await harnessOf({ replicas: 4, minReadySeconds: 5, status }, [
      { name: "a", owned: true, phase: "Pending" },
      { name: "b", owned: true, readySince: "2026-03-01T10:00:00Z" },
      { name: "c", owned: true, readySince: "2026-03-01T09:59:58Z" },
      { name: "d", owned: true, readySince: "2026-03-01T09:59:55.700Z" },
    ]);
    await harness.sync();
    expect(harness.api.writes).toEqual([]);
    expect(await harness.queuedInMs()).toBe(700);
  });

  it("ends the sync without an error for an invalid selector and a missing owner", async () => {
    const harness = await harnessOf({});
    const live = harness.api.find("replicasets", "web");
    // Current API servers reject it.
    const spec = { ...live.spec, selector: { matchExpressions: [{ key: "a", operator: "Near" }] } };
    harness.forge("replicasets", { ...live, spec });
    await harness.stream();
    await harness.sync();
    await harness.sync("shop/nobody");
    expect(harness.api.calls).toEqual([]);
    expect(await harness.failures()).toBe(0);
  });
});

describe("a ReplicationController", () => {
  it("is the kind in owner references and Events, and has no terminatingReplicas", async () => {
    const harness = await SyncHarness.create({ controller: "replicationcontroller" });
    const rs = replicaSet({ replicas: 2 });
    const given = { ...rs, spec: { ...rs.spec, selector: { app: "web" } } };
    const { uid } = (await harness.api.put("replicationcontrollers", given)).metadata;
    await harness.api.put("pods", pod({ name: "a" }));
    await harness.stream();
    await harness.sync();
    expect(harness.api.writes).toEqual(["patch pods", "create pods", "patch replicationcontrollers/status"]);
    expect(harness.pods.map(({ metadata }) => metadata.ownerReferences)).toEqual(
      Array.from({ length: 2 }, () => [
        { apiVersion: "v1", kind: "ReplicationController", name: "web", uid, controller: true, blockOwnerDeletion: true },
      ]),
    );
    expect(harness.api.find("replicationcontrollers", "web").status).not.toHaveProperty("terminatingReplicas");
    const event = harness.api.calls.find(({ resource }) => resource === "events")?.body;
    expect(event).toMatchObject({
      source: { component: "replication-controller" },
      involvedObject: { kind: "ReplicationController", apiVersion: "v1", name: "web", uid },
    });
  });
});

describe("sync in shadow mode", () => {
  it("decides creates without sending requests or registering intents, and reports that it cannot decide the status", async () => {
    const harness = await SyncHarness.create({ mode: "shadow" });
    await harness.api.put("replicasets", replicaSet({ replicas: 2 }));
    await harness.stream();
    harness.storeCalls.length = 0;
    await harness.sync();
    expect(harness.api.calls).toEqual([]);
    expect(harness.storeCalls).toEqual(["take", "take", "done"]);
    const lines = harness.traced.filter(({ kind }) => kind === "decided" || kind === "notDecided" || kind === "event");
    expect(
      lines.map((line) =>
        line.kind === "decided" ? line.write.kind : line.kind === "notDecided" ? `not decided: ${line.what}` : line.kind,
      ),
    ).toEqual(["CreatePods", "not decided: status"]);
  });
});
