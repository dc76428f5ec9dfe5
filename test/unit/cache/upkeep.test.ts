// Upkeep: resync and audit.
import { afterEach, describe, expect, it as base } from "vitest";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { laneOf, LANES } from "../../../shared/store/lane.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import type { CachedResource } from "../../../shared/kube/objects/resources.ts";
import { runUpkeep, UPKEEP_TIMES } from "../../../shared/controllers/cache/watcher/upkeep.ts";
import { CORE_CACHE } from "../../../shared/controllers/registry/registry.ts";
import type { Doorbell } from "../../../shared/store/ports/doorbells.ts";
import { KubeApiError } from "../../../shared/kube/client/errors.ts";
import type { KubeObject } from "../../../shared/kube/objects/wire.ts";
import { AUDIT_MS, HOLE_LIMIT_MS, RESYNC_SPREAD_MS, UPKEEP_TICK_MS } from "../../../shared/base/times.ts";
import { memoryFixture } from "../../conformance/redis/fixtures.ts";
import { IDENTITY, StoreHarness } from "../../harness/store/store.ts";
import { cachedPod, cachedReplicaSet, ownedBy, put } from "../../support/builders.ts";
import { recordingLog } from "../recording-log.ts";

const it = base.extend("s", async () => await scene());

const HOUR_MS = 3_600_000;
const rs = cachedReplicaSet({ name: "web" });
const ends: AbortController[] = [];
afterEach(() => ends.splice(0).forEach((each) => each.abort()));

/** A synced memory Store with ten ReplicaSets, the first with a pod; the API server has the objects of `server`. */
async function scene() {
  const fixture = await memoryFixture({ deployment: "d", cluster: "c", identity: IDENTITY, holeLimitMs: HOLE_LIMIT_MS });
  const harness = await new StoreHarness(fixture, LANES).synced();
  const { store } = harness;
  const seed = (resource: CachedResource, item: ReturnType<typeof put>) =>
    harness.seed(resource, [item], { lane: laneOf(item.key, LANES[resource]), watermark: "0" });
  const others = Array.from({ length: 9 }, (_, i) => cachedReplicaSet({ name: `web-${i}`, resourceVersion: "2" }));
  for (const each of [rs, ...others]) await seed("replicasets", put(each, { counted: true }));
  const pod = cachedPod({ name: "web-a", resourceVersion: "3", owner: ownedBy("ReplicaSet", rs) });
  await seed("pods", put(pod));
  for (const resource of ["replicasets", "pods"] as const)
    for (let lane = 0; lane < LANES[resource]; lane++) await harness.deliver(resource, [], { kind: "W", lane, watermark: "100" });
  const reference = { apiVersion: "apps/v1", controller: true, ...ownedBy("ReplicaSet", rs) };
  const server = new Map<CachedResource, readonly KubeObject[]>([
    ["replicasets", [rs, ...others].map(({ metadata }) => ({ metadata }) as KubeObject)], // the fields that the audit reads
    [
      "pods",
      [
        {
          apiVersion: "v1",
          kind: "Pod",
          metadata: {
            namespace: "shop",
            name: "web-a",
            uid: pod.uid,
            resourceVersion: "3",
            labels: { ...pod.labels },
            ownerReferences: [reference],
          },
        } as KubeObject, // the fields that the audit reads
      ],
    ],
  ]);
  const bells: Doorbell[] = [];
  const relisted: string[] = [];
  const log = recordingLog();
  let refusal: Error | undefined;
  const lead = () => {
    const leading = new AbortController();
    ends.push(leading);
    const ports = {
      store,
      clock: fixture.clock,
      random: createSeededRandom(3),
      digester: createDigester("a key for tests"),
      registry: CORE_CACHE,
      log,
      doorbells: { ring: async (rung: readonly Doorbell[]) => void bells.push(...rung) },
      kube: {
        listPage: async (resource: CachedResource) => {
          if (refusal) throw refusal;
          return { resourceVersion: "100", items: server.get(resource) ?? [] };
        },
      },
      reader: {
        get: async (resource: string, namespace: string, name: string) =>
          server.get(resource as CachedResource)?.find(({ metadata }) => metadata.namespace === namespace && metadata.name === name),
      },
    };
    const options = {
      epoch: harness.epoch,
      times: UPKEEP_TIMES,
      relist: (resource: string, why: string) => void relisted.push(`${resource}: ${why}`),
    };
    void runUpkeep(ports, options, leading.signal);
    return leading;
  };
  /** Advances the time without reading the gate. */
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= UPKEEP_TICK_MS) await fixture.clock.advance(Math.min(left, UPKEEP_TICK_MS));
  };
  return {
    harness,
    store,
    fixture,
    server,
    pod,
    bells,
    relisted,
    log,
    lead,
    pass,
    refuse: (error?: Error) => void (refusal = error),
    resyncs: () => log.lines.filter(({ message }) => message === "resync").map(({ fields }) => fields["controller"]),
    differences: () => log.lines.filter(({ message }) => message === "the cache differs from the API server").map(({ fields }) => fields),
  };
}

describe("the resync", () => {
  it("[informer T79] occurs after 5 to 15 hours for each controller, and enqueues each primary once within ten minutes", async ({ s }) => {
    await s.harness.store.add(s.harness.epoch, "replicaset", "shop/web", 0);
    s.lead();
    await s.pass(5 * HOUR_MS - 1);
    expect(s.resyncs()).toEqual([]);
    await s.pass(10 * HOUR_MS + 2 * UPKEEP_TICK_MS);
    expect(new Set(s.resyncs())).toEqual(new Set(["deployment", "replicaset", "replicationcontroller"]));
    const keys = s.bells.map(({ key }) => key);
    expect(keys).toEqual(Array.from({ length: 9 }, (_, i) => `shop/web-${i}`)); // web is queued already
    for (const { delayMs } of s.bells) expect(delayMs).toBeLessThan(RESYNC_SPREAD_MS);
    expect(s.bells.at(-1)?.delayMs).toBe(0.9 * RESYNC_SPREAD_MS);
  });

  it("[informer T79] the resync keeps its schedule when another watcher leads", async ({ s }) => {
    for (let term = 0; term < 16; term++) {
      const leading = s.lead();
      await s.pass(HOUR_MS);
      leading.abort();
      await s.pass(1_000);
    }
    expect(new Set(s.resyncs()).size).toBe(3);
  });

  it("[informer T90] requeues keys that were parked after too many failures", async ({ s }) => {
    await s.store.add(s.harness.epoch, "replicaset", "shop/web", 0);
    await s.harness.heartbeat();
    await s.store.done((await s.harness.taken("replicaset", "shop/web")).run, { kind: "drop" });
    expect(await s.store.parked("replicaset")).toHaveLength(1);
    s.lead();
    await s.pass(15 * HOUR_MS + 2 * UPKEEP_TICK_MS);
    expect(await s.store.parked("replicaset")).toEqual([]);
    expect((await s.store.queued("replicaset")).map(({ key }) => key)).toContain("shop/web");
  });
});

describe("the audit", () => {
  const audited = (s: Awaited<ReturnType<typeof scene>>) => s.log.lines.filter(({ message }) => message === "audit");

  it("checks every resource within its period, and reports nothing when cache and server agree", async ({ s }) => {
    s.lead();
    await s.pass(AUDIT_MS);
    expect(new Set(audited(s).map(({ fields }) => fields["resource"]))).toEqual(
      new Set(["deployments", "replicasets", "replicationcontrollers", "pods"]),
    );
    expect(s.differences()).toEqual([]);
    expect(s.relisted).toEqual([]);
    expect(audited(s).find(({ fields }) => fields["resource"] === "replicasets")?.fields).toMatchObject({ count: 10 });
  });

  it("[informer T94] relists, and reports missing, surplus or old rows", async ({ s }) => {
    const [first, ...rest] = s.server.get("replicasets") ?? [];
    const more = { metadata: { ...first?.metadata, name: "lost", uid: "lost", resourceVersion: "4" } } as KubeObject;
    const older = { metadata: { ...rest[0]?.metadata, resourceVersion: "90" } } as KubeObject;
    s.server.set("replicasets", [more, older, ...rest.slice(1)]);
    s.lead();
    await s.pass(AUDIT_MS);
    expect(s.differences()).toEqual([
      { resource: "replicasets", difference: "older", count: 1, rows: "shop/web-0" },
      { resource: "replicasets", difference: "surplus", count: 1, rows: "shop/web" },
      { resource: "replicasets", difference: "missing", count: 1, rows: "shop/lost" },
    ]);
    expect(s.relisted).toEqual(["replicasets: the audit found rows that differ: 1 older, 1 surplus, 1 missing"]);
  });

  it("[informer T94] replaces an entry with an invalid signature by the object from the API server, and enqueues its owner", async ({
    s,
  }) => {
    const slice = (await s.store.readEntries("pods", ["shop/web-a"]))[0]?.stands.slice ?? "";
    await s.fixture.spoil({ resource: "pods", key: "shop/web-a", where: "entry", slice, text: "" });
    await s.fixture.spoil({ resource: "pods", key: "shop/ghost", where: "entry", slice, text: "planted" });
    s.lead();
    await s.pass(AUDIT_MS);
    expect(s.differences().map(({ difference, rows }) => [difference, rows])).toEqual([
      ["unbelieved", "shop/web-a"],
      ["ghost", "shop/ghost"],
    ]);
    expect((await s.store.readEntries("pods", ["shop/web-a"]))[0]?.row).toMatchObject({ key: "shop/web-a", rv: "3" });
    expect(await s.store.readGhosts("pods")).toEqual([]);
    expect(s.bells.map(({ controller, key }) => `${controller} ${key}`)).toContain("replicaset shop/web");
    expect(s.relisted).toEqual([]);
  });

  it("retries after a failure, and relists when the server no longer has the requested version", async ({ s }) => {
    s.refuse(new Error("no answer"));
    s.lead();
    await s.pass(AUDIT_MS);
    expect(s.log.lines.filter(({ message }) => message === "upkeep failed, retrying at the next tick").length).toBeGreaterThan(4);
    s.refuse(new KubeApiError({ code: 504, reason: "Timeout", message: "Too large resource version: 9, current: 1" }));
    await s.pass(2 * UPKEEP_TICK_MS);
    expect(s.relisted).toHaveLength(4);
    s.refuse();
    await s.pass(AUDIT_MS);
    expect(audited(s).length).toBeGreaterThanOrEqual(4);
  });
});
