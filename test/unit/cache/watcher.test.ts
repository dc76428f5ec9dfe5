// The watcher: leadership, gaps, gates, flushed caches and rolled-back histories.
import { envelopeOf, signedBody, testSigner } from "../../support/signer.ts";
import { describe, expect, it as base } from "vitest";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { createMemoryData } from "../../../shared/store/memory/store/data.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { createMemoryStore } from "../../../shared/store/memory/store/store.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { CACHED_RESOURCES } from "../../../shared/kube/objects/resources.ts";
import { LANES } from "../../../shared/store/lane.ts";
import { applyMessage } from "../../../shared/controllers/cache/applier.ts";
import type { Envelope } from "../../../shared/controllers/cache/messages/envelope.ts";
import { cacheIdentity } from "../../../shared/controllers/cache/identity.ts";
import { createClusterRelease } from "../../../shared/controllers/cache/watcher/cluster-release.ts";
import { isHeartbeats } from "../../../shared/controllers/cache/messages/heartbeats.ts";
import { createHeartbeats } from "../../../shared/controllers/cache/watcher/heartbeats.ts";
import { acquireLease } from "../../../shared/controllers/cache/watcher/leader-election.ts";
import type { LanePolicy } from "../../../shared/controllers/cache/watcher/lane-policy.ts";
import { runWatcher } from "../../../shared/controllers/cache/watcher/watcher.ts";
import type { WatcherPorts } from "../../../shared/controllers/cache/watcher/watcher.ts";
import { CORE_CACHE } from "../../../shared/controllers/registry/registry.ts";
import { createApiServer } from "../../../shared/api-server/api-server.ts";
import { HOLE_RELIST_MS, HOLE_LIMIT_MS } from "../../../shared/base/times.ts";
import { UnansweredError } from "../../../shared/kube/client/errors.ts";
import type { QueueEntry } from "../../../shared/store/ports/delta-queue.ts";
import { Fate } from "../../simulation/fates.ts";
import { createSimulatedKube } from "../../simulation/kube.ts";
import { recordingLog } from "../recording-log.ts";

const it = base.extend("s", async () => scene());

const PODS = "/api/v1/namespaces/default/pods";
/** Limit in ms from a loss to the complete relist (informer §20). */
const LOSS_MS_MAX = 15_000;

function scene() {
  const clock = createVirtualClock(Date.UTC(2026, 2, 1));
  const random = createSeededRandom(1);
  const server = createApiServer({ clock, random: createSeededRandom(2) });
  const digester = createDigester("a key for tests");
  const data = createMemoryData();
  const store = createMemoryStore(
    { deployment: "test", cluster: "c1", identity: cacheIdentity(digester), holeLimitMs: HOLE_LIMIT_MS, clock },
    data,
  );
  const log = recordingLog();
  const sent: QueueEntry[] = [];
  let waiting: QueueEntry[] = [];
  /** Whether the queue accepts a message; the sender gets a success response in any case. */
  let accepts: (envelope: Envelope) => boolean = () => true;
  /** Whether the API server rejects writes of a Lease. */
  let away = false;
  let queueIsAway = false;
  let listsAreRefused = false;
  let onListPage = (): void => undefined;
  let opensFence = store.openFence;
  const doorbells = { ring: async () => {} };
  const queue = {
    send: async (entries: readonly QueueEntry[]) => {
      if (queueIsAway) throw new UnansweredError("the queue is unavailable");
      sent.push(...entries);
      waiting.push(...entries.filter(({ body }) => isHeartbeats(body) || accepts(envelopeOf(body))));
      return { failed: [] };
    },
  };

  const start = (identity: string, own: Partial<Pick<WatcherPorts, "guard" | "release" | "heartbeats">> = {}, lanes?: LanePolicy) => {
    const ends = new AbortController();
    let standMs = 0;
    const draw = (): "live" | number => {
      const ms = standMs;
      standMs = 0;
      return ms > 0 ? ms : "live";
    };
    const fate = new Fate({ clock, draw });
    const client = createSimulatedKube({ server, clock, random, component: identity, faults: () => ({ api: 0, watch: 0 }) });
    let standAfterRenewalMs = 0;
    const replace: typeof client.replace = async (request) => {
      if (away) throw new UnansweredError("unavailable");
      const answer = await client.replace(request);
      [standMs, standAfterRenewalMs] = [standAfterRenewalMs, 0];
      return answer;
    };
    const listPage: typeof client.listPage = (...request) => {
      onListPage();
      return listsAreRefused ? Promise.reject(new UnansweredError("unavailable")) : client.listPage(...request);
    };
    const kube = fate.over({ ...client, replace, listPage });
    const ports = {
      kube,
      store: fate.over({ ...store, openFence: (request: Parameters<typeof store.openFence>[0]) => opensFence(request) }),
      queue: fate.over(queue),
      doorbells,
      clock: fate.clock(),
      random,
      digester,
      signer: testSigner("c1"),
      log,
    };
    const lead = (signal: AbortSignal) =>
      acquireLease({ ...ports, reader: kube, writer: kube }, { namespace: "kube-system", name: "lease", identity }, signal);
    const options = {
      cluster: "c1",
      clusterUid: "cluster",
      identity: cacheIdentity(digester),
      holeRelistMs: HOLE_RELIST_MS,
      ...(lanes && { lanes }),
    };
    const running = runWatcher({ ...ports, lead, ...own }, options, ends.signal);
    return {
      fate,
      ends,
      running,
      /** Suspends the watcher from its next call on. */
      pause: (ms: number) => void (standMs = ms),
      /** Suspends the watcher between the response and its next renewal; earlier timers still fire. */
      stand: (ms: number) => void (standAfterRenewalMs = ms),
    };
  };

  const cluster = {
    signer: testSigner("c1"),
    store,
    doorbells,
    reader: createSimulatedKube({ server, clock, random, component: "applier", faults: () => ({ api: 0, watch: 0 }) }),
  };
  /** Applies the queued messages; messages that must wait remain. */
  const drain = async (atMost = Infinity): Promise<void> => {
    const left: QueueEntry[] = [];
    for (const [index, entry] of waiting.entries()) {
      const verdict =
        index < atMost
          ? await applyMessage(
              { cluster: () => cluster, clusters: ["c1"], registry: CORE_CACHE, digester, clock, log },
              { id: entry.id, body: entry.body },
            )
          : undefined;
      if (verdict?.kind !== "ack") left.push(entry);
    }
    waiting = left;
  };
  return {
    clock,
    server,
    identity: cacheIdentity(digester),
    store,
    data,
    log,
    sent,
    start,
    drain,
    queueIsAway: (away: boolean) => void (queueIsAway = away),
    lose: (what: (envelope: Envelope) => boolean) => void (accepts = (envelope) => !what(envelope)),
    envelopes: () => sent.filter(({ body }) => !isHeartbeats(body)).map(({ body }) => envelopeOf(body)),
    heartbeats: () => createHeartbeats({ queue, clock, random, log }),
    checkpoints: () => data.epoch?.checkpoint?.number ?? 0,
    waiting: () => waiting.length,
    /** Advances the time in seconds while the applier processes all messages. */
    async pass(ms: number) {
      for (let left = ms; left > 0; left -= 500) {
        await clock.advance(Math.min(left, 500));
        await drain();
      }
    },
    create: (name: string) =>
      server.request({
        method: "POST",
        path: PODS,
        body: JSON.stringify({ metadata: { name }, spec: { containers: [{ name: "c", image: "i" }] } }),
      }),
    remove: (name: string) =>
      server.request({ method: "DELETE", path: `${PODS}/${name}`, body: JSON.stringify({ gracePeriodSeconds: 0 }) }),
    cached: () => [...(data.epoch?.resources.get("pods")?.lanes ?? [])].flatMap((lane) => [...lane.rows.keys()]).sort(),
    flush: () => void (data.epoch = undefined),
    /** Copies all state; the returned function restores the copy. */
    snapshot: () => {
      const copy = structuredClone(data.epoch);
      return () => void (data.epoch = copy);
    },
    onListPage: (does: () => void) => void (onListPage = does),
    refuseLists: (refused: boolean) => void (listsAreRefused = refused),
    onOpenFence: (openFence: typeof store.openFence) => void (opensFence = openFence),
    refuseLeases: (refused: boolean) => void (away = refused),
    fence: () => data.epoch?.resources.get("pods")?.fence,
    lanes: () => CACHED_RESOURCES.map((resource) => data.epoch?.resources.get(resource)?.lanes.length),
    epoch: () => data.epoch?.record.epoch,
    gates: async () => (await store.gate("replicaset")).open,
  };
}

describe("lanes", () => {
  const POLICY: LanePolicy = { smallMax: 3, rowsMax: 5, unappliedMax: 20 };
  const ONE = CACHED_RESOURCES.map(() => 1);
  const ALL = CACHED_RESOURCES.map((resource) => LANES[resource]);
  const createMany = async ({ create }: ReturnType<typeof scene>, count: number, prefix = "p"): Promise<void> => {
    for (let number = 0; number < count; number++) await create(`${prefix}${number}`);
  };

  it("GL1 an epoch begins with one lane of each resource if the cluster is small, else with all, also if counting fails", async ({ s }) => {
    await createMany(s, POLICY.smallMax);
    s.start("one", {}, POLICY);
    await s.pass(3_000);
    expect([s.lanes(), s.data.epoch?.record.lanes, await s.gates()]).toEqual([ONE, 1, true]);
    const large = scene();
    await createMany(large, POLICY.smallMax + 1);
    large.start("one", {}, POLICY);
    await large.pass(3_000);
    expect([large.lanes(), large.data.epoch?.record.lanes, await large.gates()]).toEqual([ALL, undefined, true]);
    const unknown = scene();
    unknown.refuseLists(true);
    unknown.start("one", {}, POLICY);
    await unknown.pass(2_000);
    unknown.refuseLists(false);
    await unknown.pass(10_000);
    expect([unknown.lanes(), await unknown.gates()]).toEqual([ALL, true]);
  });

  it("WA12 GL2 lanes grow in the same epoch with open gates and without a list, and lose nothing", async ({ s }) => {
    s.start("one", {}, POLICY);
    await s.pass(3_000);
    const [epoch, fence] = [s.epoch(), s.fence()];
    const before = s.envelopes().length;
    await createMany(s, POLICY.rowsMax);
    await s.pass(5_000);
    expect([s.lanes(), s.fence()]).toEqual([ONE, fence]);
    await createMany(s, 3, "q");
    for (let ms = 0; ms < 5_000; ms += 100) {
      await s.pass(100);
      expect(await s.gates(), `${ms} ms`).toBe(true);
    }
    expect([s.lanes(), s.epoch()]).toEqual([ALL, epoch]);
    expect(s.fence()).not.toBe(fence);
    await createMany(s, 3, "r");
    await s.remove("p0");
    await s.pass(5_000);
    expect(s.cached()).toHaveLength(POLICY.rowsMax + 5);
    expect(
      s
        .envelopes()
        .slice(before)
        .filter(({ k }) => k === "L" || k === "M"),
    ).toEqual([]);
    expect(new Set(s.envelopes().flatMap(({ r, ln }) => (r === "pods" ? [ln] : []))).size).toBeGreaterThan(1);
  });

  it("WA12 GL2 lanes grow when the applier cannot keep up", async ({ s }) => {
    s.start("one", {}, { ...POLICY, rowsMax: 1_000 });
    await s.pass(3_000);
    for (let second = 0; second < 8; second++) {
      for (let number = 0; number < 40; number++) {
        await s.create(`s${second}-${number}`);
        await s.clock.advance(20);
      }
      await s.drain(5);
    }
    await s.pass(60_000);
    expect([s.lanes(), await s.gates(), s.cached().length]).toEqual([ALL, true, 320]);
  });

  it("WA12 a watcher that dies while its lanes grow is followed by one that completes the growth", async ({ s }) => {
    const one = s.start("one", {}, POLICY);
    await s.pass(3_000);
    await createMany(s, POLICY.rowsMax + 1);
    const openFence = s.store.openFence.bind(s.store);
    let opened = 0;
    s.onOpenFence(async (request) => {
      if (request.grows !== true || ++opened !== 2) return await openFence(request);
      one.ends.abort();
      return await new Promise<never>(() => undefined);
    });
    await s.pass(3_000);
    expect(s.lanes()).not.toEqual(ONE);
    expect(s.lanes()).not.toEqual(ALL);
    s.start("two", {}, POLICY);
    await s.pass(40_000);
    expect([s.lanes(), await s.gates(), s.cached().length]).toEqual([ALL, true, POLICY.rowsMax + 1]);
  });

  it("GL1 a watcher that stops while it counts objects opens no epoch", async ({ s }) => {
    const { ends } = s.start("one", {}, POLICY);
    s.onListPage(() => ends.abort());
    await s.pass(3_000);
    expect(ends.signal.aborted).toBe(true);
    expect(s.epoch()).toBeUndefined();
  });

  it.each([0, 2, 16])("LG3 a watcher replaces an epoch that began with %i lanes", async (lanes) => {
    const s = scene();
    await s.store.openEpoch({ ...s.identity, clusterUid: "cluster", epoch: "old", fence: "1", lanes });
    s.start("one", {}, POLICY);
    await s.pass(5_000);
    expect([s.epoch() === "old", s.lanes(), await s.gates()]).toEqual([false, ONE, true]);
  });

  it.each([
    { from: 1, to: LANES.pods, policy: POLICY },
    { from: LANES.pods, to: 1, policy: undefined },
  ])("LG3 a watcher replaces an epoch with $from lanes that has $to under the same fence", async ({ from, to, policy }) => {
    const s = scene();
    s.start("one", {}, policy);
    await s.pass(3_000);
    const epoch = s.epoch();
    const pods = s.data.epoch?.resources.get("pods");
    expect(pods?.lanes).toHaveLength(from);
    if (pods) Object.assign(pods, { lanes: Array.from({ length: to }, () => structuredClone(pods.lanes[0])) });
    await s.pass(5_000);
    expect([s.epoch() === epoch, s.lanes(), await s.gates()]).toEqual([false, policy ? ONE : ALL, true]);
    expect(s.log.lines.map(({ fields }) => fields?.["why"])).toContain(`the store is damaged: pods have ${to} lanes, not ${from}`);
  });

  it("LG3 a watcher adopts the lanes that it finds: one, or those of an older build", async ({ s }) => {
    const one = s.start("one", {}, POLICY);
    await s.pass(3_000);
    const epoch = s.epoch();
    one.ends.abort();
    await s.pass(2_000);
    s.start("two");
    await s.pass(5_000);
    expect([s.lanes(), s.epoch(), await s.gates()]).toEqual([ONE, epoch, true]);
    const older = scene();
    const first = older.start("one");
    await older.pass(3_000);
    first.ends.abort();
    await older.pass(2_000);
    older.start("two", {}, POLICY);
    await older.pass(5_000);
    expect([older.lanes(), await older.gates()]).toEqual([ALL, true]);
  });
});

describe("a quiet cluster of a process that serves several", () => {
  it("WA11 keeps its gate open with heartbeats that travel together, and writes a checkpoint every 3 s", async ({ s }) => {
    await s.create("a");
    s.start("one", { heartbeats: s.heartbeats() });
    await s.pass(90_000);
    const [own, all, checkpoints] = [s.envelopes().length, s.sent.length, s.checkpoints()];
    for (let minute = 0; minute < 5; minute++) {
      await s.pass(60_000);
      expect(await s.gates()).toBe(true);
    }
    expect(s.envelopes().length - own, "messages of lanes, in 5 minutes").toBeLessThanOrEqual(2);
    expect(s.sent.length - all).toBeLessThanOrEqual(5 * 4 + 2);
    expect(s.sent.length - all).toBeGreaterThanOrEqual(5 * 3);
    expect(s.checkpoints() - checkpoints).toBeLessThanOrEqual(5 * 20 + 1);
    expect(s.checkpoints() - checkpoints).toBeGreaterThanOrEqual(5 * 19);
  });

  it("WA11 a change is sent at once and ends the rest", async ({ s }) => {
    s.start("one", { heartbeats: s.heartbeats() });
    await s.pass(60_000);
    const checkpoints = s.checkpoints();
    await s.create("b");
    await s.clock.advance(20);
    await s.drain();
    expect(s.cached()).toEqual(["default/b"]);
    expect(s.checkpoints()).toBe(checkpoints + 1);
    await s.pass(5_000);
    expect(s.checkpoints()).toBeGreaterThanOrEqual(checkpoints + 5);
  });

  it("WA11 a bookmark raises the watermarks of quiet lanes with the next heartbeat", async ({ s }) => {
    s.start("one", { heartbeats: s.heartbeats() });
    await s.pass(30_000);
    await s.server.request({ method: "POST", path: "/api/v1/namespaces", body: JSON.stringify({ metadata: { name: "other" } }) });
    const before = BigInt(s.data.epoch?.resources.get("pods")?.lanes[3]?.watermark ?? "0");
    await s.pass(90_000);
    expect(BigInt(s.data.epoch?.resources.get("pods")?.lanes[3]?.watermark ?? "0")).toBeGreaterThan(before);
  });

  it("WA11 [informer T53] a lost message closes the gate within 20 s, as in a process that serves one cluster", async ({ s }) => {
    s.start("one", { heartbeats: s.heartbeats() });
    await s.pass(60_000);
    s.lose((envelope) => envelope.k === "D");
    await s.create("lost");
    await s.pass(500);
    s.lose(() => false);
    const lostAtMs = s.clock.now();
    while ((await s.gates()) && s.clock.now() - lostAtMs < 100_000) await s.pass(500);
    expect(s.clock.now() - lostAtMs).toBeLessThanOrEqual(20_000);
    while (!(await s.gates()) && s.clock.now() - lostAtMs < 200_000) await s.pass(500);
    expect(s.cached()).toEqual(["default/lost"]);
  });

  it("WA11 a Store that is set back is detected within 3 s", async ({ s }) => {
    s.start("one", { heartbeats: s.heartbeats() });
    await s.pass(60_000);
    const restore = s.snapshot();
    await s.pass(4_000);
    restore();
    const atMs = s.clock.now();
    while (!s.log.lines.some(({ message }) => message === "raising the fence") && s.clock.now() - atMs < 20_000) await s.pass(500);
    expect(s.clock.now() - atMs).toBeLessThanOrEqual(3_500);
    await s.pass(3_000);
    expect(await s.gates()).toBe(true);
  });

  it("WA11 a lane with a backlog in the queue opens no hole and raises no fence", async ({ s }) => {
    s.start("one", { heartbeats: s.heartbeats() });
    await s.pass(60_000);
    await s.create("slow");
    for (let ms = 0; ms < 40_000; ms += 500) await s.clock.advance(500); // the applier is behind
    await s.pass(5_000);
    expect(s.log.lines.filter(({ message }) => message === "raising the fence")).toEqual([]);
    expect(s.cached()).toEqual(["default/slow"]);
    expect(await s.gates()).toBe(true);
  });
});

describe("one watcher", () => {
  it("[informer T49] lists, streams, opens the gate, and keeps it open by heartbeats alone", async ({ s }) => {
    await s.create("a");
    s.start("one");
    await s.pass(3_000);
    expect(s.cached()).toEqual(["default/a"]);
    expect(await s.gates()).toBe(true);
    await s.create("b");
    await s.remove("a");
    await s.pass(1_000);
    expect(s.cached()).toEqual(["default/b"]);
    const sentBefore = s.sent.length;
    await s.pass(120_000);
    expect(await s.gates()).toBe(true);
    for (let lane = 0; lane < LANES.pods; lane++) {
      const heard = s
        .envelopes()
        .slice(sentBefore)
        .filter(({ r, ln }) => r === "pods" && ln === lane);
      expect(heard.length, `lane ${lane}, of which it must be heard each 15 s`).toBeGreaterThanOrEqual(7);
    }
    expect(s.envelopes().filter(({ k }) => k === "M")).toHaveLength(16 + 4 + 2 + 1);
  });

  it("[informer T53] a permanently lost message closes the gate within 20 s, raises the fence, and causes a list of everything", async ({
    s,
  }) => {
    s.start("one");
    await s.pass(3_000);
    const fence = s.data.epoch?.resources.get("pods")?.fence;
    s.lose((envelope) => envelope.k === "D");
    await s.create("lost");
    await s.pass(500);
    s.lose(() => false);
    const lostAtMs = s.clock.now();
    while ((await s.gates()) && s.clock.now() - lostAtMs < 100_000) await s.pass(500);
    expect(s.clock.now() - lostAtMs).toBeLessThanOrEqual(20_000); // until the lane's next heartbeat, plus 2 s
    expect(s.cached()).toEqual([]);
    while (!(await s.gates()) && s.clock.now() - lostAtMs < 200_000) await s.pass(500);
    expect(s.clock.now() - lostAtMs).toBeGreaterThan(HOLE_RELIST_MS);
    expect(s.clock.now() - lostAtMs).toBeLessThan(HOLE_RELIST_MS + 25_000);
    expect(s.cached()).toEqual(["default/lost"]);
    expect(s.data.epoch?.resources.get("pods")?.fence).not.toBe(fence);
    expect(s.log.lines.filter(({ message }) => message === "raising the fence")).toHaveLength(1);
  });

  it("[informer T51] closes the gate within a heartbeat when the Store is rolled back by 2 s, and lists the lost changes within 15 s", async ({
    s,
  }) => {
    s.start("one");
    await s.pass(3_000);
    const restore = s.snapshot();
    await s.create("a");
    await s.pass(2_000);
    expect(s.cached()).toEqual(["default/a"]);
    restore();
    const [atMs, fence] = [s.clock.now(), s.fence()];
    while (s.fence() === fence && s.clock.now() - atMs < 100_000) {
      await s.clock.advance(50); // no message is applied, so the gate cannot open again
      if (s.fence() !== fence) expect(await s.gates()).toBe(false);
    }
    expect(s.clock.now() - atMs).toBeLessThanOrEqual(1_100);
    while (!(await s.gates()) && s.clock.now() - atMs < 100_000) await s.pass(100);
    expect(s.clock.now() - atMs).toBeLessThanOrEqual(LOSS_MS_MAX);
    expect(s.cached()).toEqual(["default/a"]);
    expect(s.log.lines.filter(({ message }) => message === "raising the fence")).toHaveLength(1);
  });

  it("[informer T51] lists within 15 s when the Store is rolled back to before the leader's fence", async ({ s }) => {
    s.start("one").ends.abort();
    await s.pass(3_000);
    s.start("two");
    await s.pass(3_000);
    const restore = s.snapshot();
    s.data.epoch?.resources.forEach((resource) => (resource.fence = "1"));
    const older = s.snapshot();
    restore();
    await s.create("a");
    await s.pass(2_000);
    older();
    const atMs = s.clock.now();
    await s.pass(1_500);
    while (!(await s.gates()) && s.clock.now() - atMs < 100_000) await s.pass(100);
    expect(s.clock.now() - atMs).toBeLessThanOrEqual(LOSS_MS_MAX);
    expect(s.cached()).toEqual(["default/a"]);
  });

  it.each([{ successor: "one" }, { successor: "two" }])(
    "LE9 the epoch continues within 20 s, with watcher $successor as the leader, after Lease writes were refused for 20 s",
    async ({ successor }) => {
      const s = scene();
      await s.create("a");
      const one = s.start("one");
      await s.pass(5_000);
      const epoch = s.data.epoch?.record.epoch;
      s.refuseLeases(true);
      await s.pass(20_000);
      if (successor === "two") one.fate.die();
      s.refuseLeases(false);
      if (successor === "two") s.start("two");
      await s.create("b");
      const atMs = s.clock.now();
      while (!s.cached().includes("default/b") && s.clock.now() - atMs < 100_000) await s.pass(500);
      expect(s.clock.now() - atMs).toBeLessThanOrEqual(20_000); // the expiry of a Lease of 15 s
      expect(s.data.epoch?.record.epoch).toBe(epoch);
      expect(s.log.lines.filter(({ message }) => message.startsWith("two clusters share this cache"))).toEqual([]);
    },
  );

  it("[informer T51] detects a rollback of rows alone as a gap at the next heartbeat, and lists 10 s later", async ({ s }) => {
    s.start("one");
    await s.pass(3_000);
    const restore = s.snapshot();
    await s.create("a");
    await s.pass(500);
    const { checkpoint, token } = s.data.epoch ?? {};
    restore();
    if (s.data.epoch) Object.assign(s.data.epoch, { checkpoint, token });
    const atMs = s.clock.now();
    while ((await s.gates()) && s.clock.now() - atMs < 100_000) await s.pass(500);
    expect(s.clock.now() - atMs).toBeLessThanOrEqual(LOSS_MS_MAX + 3_000); // the gate's limit for a gap, and its heartbeat
    while (!(await s.gates()) && s.clock.now() - atMs < 100_000) await s.pass(500);
    expect(s.clock.now() - atMs).toBeLessThanOrEqual(LOSS_MS_MAX + HOLE_RELIST_MS + 3_000);
    expect(s.cached()).toEqual(["default/a"]);
  });

  it("closes the gate immediately after a Redis failover to another primary, and lists everything within 15 s", async ({ s }) => {
    await s.create("a");
    s.start("one");
    await s.pass(3_000);
    s.data.primary = "another";
    expect(await s.gates()).toBe(false);
    const atMs = s.clock.now();
    while (!(await s.gates()) && s.clock.now() - atMs < 100_000) await s.pass(100);
    expect(s.clock.now() - atMs).toBeLessThanOrEqual(LOSS_MS_MAX);
    expect(s.cached()).toEqual(["default/a"]);
  });

  it("[informer T50] lists a new epoch within 15 s after part of the epoch's state was deleted", async ({ s }) => {
    await s.create("a");
    s.start("one");
    await s.pass(3_000);
    const epoch = s.data.epoch?.record.epoch;
    s.data.epoch?.resources.delete("replicasets");
    const atMs = s.clock.now();
    await s.pass(1_500);
    expect(s.data.epoch?.record.epoch).not.toBe(epoch);
    while (!(await s.gates()) && s.clock.now() - atMs < 100_000) await s.pass(100);
    expect(s.clock.now() - atMs).toBeLessThanOrEqual(LOSS_MS_MAX);
    expect(s.cached()).toEqual(["default/a"]);
  });

  it("[informer T40] raises the fence and completes another list after a message of the first list was permanently lost", async ({ s }) => {
    await s.create("a");
    let lost = 0;
    s.lose((envelope) => envelope.k === "L" && lost++ === 0);
    s.start("one");
    await s.pass(10_000);
    expect(await s.gates()).toBe(false);
    await s.pass(20_000);
    expect(await s.gates()).toBe(true);
    expect(s.cached()).toEqual(["default/a"]);
    expect(s.log.lines.filter(({ message }) => message === "raising the fence")).toHaveLength(1);
  });

  it("[informer T05] lists again while a lane is frozen, and raises the fence after five lists", async ({ s }) => {
    s.start("one");
    await s.pass(3_000);
    const lane = s.data.epoch?.resources.get("pods")?.lanes[3];
    if (lane) lane.frozen = true;
    await s.pass(3_000);
    expect(s.data.epoch?.resources.get("pods")?.lanes[3]?.frozen).toBe(false);
    expect(s.log.lines.filter(({ message }) => message === "raising the fence")).toEqual([]);
    for (let i = 0; i < 400 && !s.log.lines.some(({ message }) => message === "raising the fence"); i++) {
      if (lane) lane.frozen = true;
      await s.pass(500);
    }
    expect(s.log.lines.find(({ message }) => message === "raising the fence")?.fields["why"]).toContain(
      "lists of pods keep leaving lanes frozen",
    );
  });

  it("[informer T50] opens a new epoch with a complete cache after state was deleted while there was no leader", async ({ s }) => {
    await s.create("a");
    const one = s.start("one");
    await s.pass(3_000);
    one.fate.die();
    s.data.epoch?.resources.get("pods")?.lanes.forEach(({ rows }) => rows.clear());
    s.data.epoch?.resources.delete("deployments");
    s.start("two");
    await s.pass(20_000);
    expect(s.cached()).toEqual(["default/a"]);
    expect(await s.gates()).toBe(true);
  });

  it("deletes a batch of keys of older epochs every 10 s", async ({ s }) => {
    const asked: string[] = [];
    Object.assign(s.store, { forgetEpochs: async (epoch: string) => asked.push(epoch) });
    s.start("one");
    await s.pass(31_000);
    expect(asked).toEqual(Array.from({ length: 3 }, () => s.data.epoch?.record.epoch));
    expect(s.log.lines.filter(({ message }) => message === "keys of older epochs removed")).toHaveLength(3);
  });

  it("[informer FU5] deletes keys of older epochs every second while the Store reports that it is full, and every 10 s otherwise", async ({
    s,
  }) => {
    const { checkpoint } = s.store;
    const asked: (boolean | undefined)[] = [];
    let answer: "refused" | "full" | "room" = "refused";
    Object.assign(s.store, {
      forgetEpochs: async (_epoch: string, full?: boolean) => asked.push(full),
      checkpoint: async (request: Parameters<typeof checkpoint>[0]) => {
        if (answer === "refused") throw new Error("OOM");
        return { ...(await checkpoint(request)), ...(answer === "full" && { full: true }) };
      },
    });
    s.start("one");
    await s.pass(31_000);
    expect(asked).toEqual([false, false, false]);
    answer = "full";
    await s.pass(5_000);
    expect(asked.slice(3)).toEqual([true, true, true, true, true]);
    answer = "room";
    await s.pass(20_000);
    expect(asked.slice(8)).toEqual([false, false]);
  });

  it("[informer FU4] lists objects that a full Store omitted once the Store has had free memory for 15 s", async ({ s }) => {
    const { checkpoint } = s.store;
    let isFull = true;
    Object.assign(s.store, {
      checkpoint: async (request: Parameters<typeof checkpoint>[0]) => ({ ...(await checkpoint(request)), full: isFull }),
    });
    s.start("one");
    await s.pass(5_000);
    expect(await s.gates()).toBe(true);
    await s.store.markSuspect("pods", "the store is full: no room for received objects");
    await s.pass(60_000);
    expect(await s.gates()).toBe(false);
    isFull = false;
    await s.pass(14_000);
    expect(await s.gates()).toBe(false);
    await s.pass(10_000);
    expect(await s.gates()).toBe(true);
    const said = s.log.lines.filter(({ message }) => message.startsWith("the store ")).map(({ message }) => message);
    expect(said[0]).toBe("the store is full: objects are skipped and gates close until it has room");
    expect(said).toContain("the store has room again");
  });

  it("FG4 passes every object to the guard, and begins a term only after the guard's check", async ({ s }) => {
    await s.create("listed");
    const looked: string[] = [];
    let epochs: (string | undefined)[] = [];
    let isAway = false;
    const guard: WatcherPorts["guard"] = {
      look: (resource, object) => void looked.push(`${resource} ${(object as { metadata: { name: string } }).metadata.name}`),
      beforeTerm: async () => {
        epochs.push((await s.store.epoch())?.epoch);
        if (isAway) throw new UnansweredError("redis is unavailable");
      },
    };
    s.start("one", { guard });
    await s.pass(3_000);
    await s.create("watched");
    await s.remove("listed");
    await s.pass(1_000);
    expect(looked).toEqual(["pods listed", "pods watched", "pods listed", "pods listed"]);
    expect(epochs).toEqual([undefined]);
    epochs = [];
    isAway = true;
    s.flush();
    await s.pass(5_000);
    expect(epochs.length).toBeGreaterThan(1); // the watcher has retried
    expect(epochs.every((epoch) => epoch === undefined)).toBe(true);
    expect(await s.gates()).toBe(false);
    isAway = false;
    await s.pass(5_000);
    expect(await s.gates()).toBe(true);
  });

  it("[informer T50] restores the same cache in a new epoch after the Store was flushed", async ({ s }) => {
    await s.create("a");
    s.start("one");
    await s.pass(3_000);
    const before = s.data.epoch?.record.epoch;
    s.flush();
    expect(await s.gates()).toBe(false);
    await s.pass(5_000);
    expect(s.data.epoch?.record.epoch).not.toBe(before);
    expect(s.cached()).toEqual(["default/a"]);
    expect(await s.gates()).toBe(true);
  });

  it("relists a resource that is marked suspect, and keeps the gate closed meanwhile", async ({ s }) => {
    s.start("one");
    await s.pass(3_000);
    await s.store.markSuspect("pods", "a test says so");
    expect(await s.gates()).toBe(false);
    await s.pass(5_000);
    expect(await s.gates()).toBe(true);
  });

  it("after a cluster restore, resets the cache to the listed state, and lists everything again before the gate opens", async ({ s }) => {
    await s.create("a");
    s.start("one");
    await s.pass(3_000);
    const a = () => s.data.epoch?.resources.get("pods")?.lanes.flatMap(({ rows }) => rows.get("default/a") ?? [])[0];
    const before = a();
    const lane = s.data.epoch?.resources.get("pods")?.lanes.find(({ rows }) => rows.has("default/a"));
    if (before) lane?.rows.set(before.key, { ...before, rv: String(BigInt(before.rv) + 1n) });
    await s.create("b");
    await s.pass(1_000);
    s.server.expireWatches("pods");
    for (let ms = 0; ms < 5_000 && (await s.gates()); ms += 50) {
      await s.clock.advance(50);
      await s.drain();
    }
    expect(a()?.rv).toBe(before?.rv);
    expect(await s.store.gate("deployment")).toMatchObject({ open: false, reason: expect.stringContaining("the cluster was restored") });
    await s.pass(10_000);
    expect(await s.gates()).toBe(true);
    expect((await s.store.gate("deployment")).open).toBe(true);
    expect(s.cached()).toEqual(["default/a", "default/b"]);
    expect(s.log.lines.filter(({ message }) => message === "raising the fence")).toHaveLength(1);
  });

  it("[informer T58] sends nothing while the new fence cannot be opened, so that no sequence number is used twice", async ({ s }) => {
    await s.create("a");
    s.start("one");
    await s.pass(3_000);
    s.refuseLeases(true);
    await s.store.markSuspect("pods", "somebody says so");
    await s.pass(4_000);
    await s.create("b");
    await s.pass(2_000);
    s.refuseLeases(false);
    await s.pass(20_000);
    expect(s.cached()).toEqual(["default/a", "default/b"]);
    expect(await s.gates()).toBe(true);
    expect(s.sent.length).toBe(new Set(s.sent.map(({ id }) => id)).size);
  });

  it("starts another list under a new fence when a resource is marked suspect during a list", async ({ s }) => {
    s.start("one");
    await s.pass(3_000);
    await s.store.markSuspect("pods", "a test says so");
    // Messages are not applied meanwhile, so the list remains incomplete.
    await s.clock.advance(2_500);
    const pods = () => s.data.epoch?.resources.get("pods");
    expect(pods()).toMatchObject({ state: "SUSPECT", generation: 2, syncedGeneration: 1 });
    const fence = pods()?.fence;
    await s.store.markSuspect("pods", "and again");
    await s.pass(5_000);
    expect(pods()).toMatchObject({ state: "SYNCED", generation: 3, syncedGeneration: 3 });
    expect(pods()?.fence).not.toBe(fence);
    expect(await s.gates()).toBe(true);
  });

  it("lists a suspect cache again even if a rollback of the Store has lost the last list's number", async ({ s }) => {
    s.start("one");
    await s.pass(3_000);
    const pods = () => s.data.epoch?.resources.get("pods");
    Object.assign(pods() ?? {}, { syncedGeneration: 3 });
    await s.store.markSuspect("pods", "a test says so");
    await s.pass(5_000);
    expect(pods()).toMatchObject({ state: "SYNCED", generation: 4, syncedGeneration: 4 });
    expect(await s.gates()).toBe(true);
  });

  it.each([{ projection: 0 }, { digestPrefix: "k" }, { hashLayout: "v1" }, { clusterUid: "another" }])(
    "[informer T46] replaces an epoch of another build or cluster: %o",
    async (differs) => {
      const s = scene();
      await s.store.openEpoch({ ...s.identity, clusterUid: "cluster", ...differs, epoch: "old", fence: "1" });
      s.start("one");
      await s.pass(3_000);
      expect(s.data.epoch?.record.epoch).not.toBe("old");
      expect(await s.gates()).toBe(true);
    },
  );

  it("[informer T46] replaces an epoch whose build had another number of lanes", async ({ s }) => {
    await s.store.openEpoch({ ...s.identity, clusterUid: "cluster", epoch: "old", fence: "1" });
    await s.store.openFence({ epoch: "old", fence: "1", resource: "pods", lanes: LANES.pods / 2 });
    s.start("one");
    await s.pass(3_000);
    expect(s.data.epoch?.record.epoch).not.toBe("old");
    expect(s.data.epoch?.resources.get("pods")?.lanes).toHaveLength(LANES.pods);
    expect(await s.gates()).toBe(true);
  });

  it("[informer T46] keeps an epoch of the same build", async ({ s }) => {
    await s.store.openEpoch({ ...s.identity, clusterUid: "cluster", epoch: "old", fence: "1" });
    s.start("one");
    await s.pass(3_000);
    expect(s.data.epoch?.record.epoch).toBe("old");
    expect(await s.gates()).toBe(true);
  });

  it("publishes a changed release of the cluster in the same epoch and term", async ({ s }) => {
    let runs = "v1.36.3";
    const ports = { read: () => Promise.resolve(runs), clock: s.clock, log: s.log };
    const release = createClusterRelease(ports, { first: runs });
    await s.create("a");
    s.start("one", { release });
    await s.pass(3_000);
    const before = s.data.epoch?.record;
    expect(before?.release).toBe("1.36");
    await s.pass(11 * 60_000);
    runs = "v1.37.2";
    s.server.expireWatches("pods");
    await s.pass(11 * 60_000);
    expect(s.data.epoch?.record).toEqual({ ...before, release: "1.37" });
    expect(await s.gates()).toBe(true);
    const alarms = s.log.lines.filter(({ level, message }) => level === "error" || message.includes("epoch") || message.includes("fence"));
    expect(alarms.map(({ message }) => message)).toEqual(["epoch opened"]);
    await s.store.markSuspect("pods", "a test says so"); // each term selects its epoch again
    await s.pass(10_000);
    expect([s.data.epoch?.record, await s.gates()]).toEqual([{ ...before, release: "1.37" }, true]);
  });

  it("keeps an epoch of the same build that was opened on another release of the cluster", async ({ s }) => {
    await s.store.openEpoch({ ...s.identity, clusterUid: "cluster", epoch: "old", fence: "1", release: "1.36" });
    const read = (): Promise<string> => Promise.resolve("v1.37.2");
    s.start("one", { release: createClusterRelease({ read, clock: s.clock, log: s.log }, { first: "v1.37.2" }) });
    await s.pass(3_000);
    expect(s.data.epoch?.record).toMatchObject({ epoch: "old", release: "1.37" });
  });

  it("[informer T42] opens a new epoch if a list is older than the applied version, and caches the listed state in it", async ({ s }) => {
    await s.create("a");
    s.start("one");
    await s.pass(3_000);
    const epoch = s.data.epoch?.record.epoch;
    const lane = s.data.epoch?.resources.get("pods")?.lanes[3];
    if (lane) lane.watermark = "1000000";
    s.server.expireWatches("pods");
    await s.pass(10_000);
    expect(s.data.epoch?.record.epoch).not.toBe(epoch);
    expect(s.log.lines.find(({ message }) => message === "opening a new epoch")?.fields["why"]).toContain(
      "older than 1000000, which is already applied",
    );
    expect(s.cached()).toEqual(["default/a"]);
    expect(await s.gates()).toBe(true);
  });
});

describe("a written-through version above the stream's version", () => {
  const written = (s: ReturnType<typeof scene>, version: string): void => {
    const pods = s.data.epoch?.resources.get("pods");
    if (pods === undefined) throw new Error("pods are not cached");
    pods.written = version;
  };
  const WHY = "pods are cached at resourceVersion 999999, and the API server is at the older";

  it("WA10 opens a new epoch if the API server has not reached the version after 15 s", async ({ s }) => {
    await s.create("a");
    s.start("one");
    await s.pass(5_000);
    const epoch = s.data.epoch?.record.epoch;
    written(s, "999999");
    await s.pass(14_000);
    expect(s.data.epoch?.record.epoch).toBe(epoch);
    await s.pass(6_000);
    expect(s.data.epoch?.record.epoch).not.toBe(epoch);
    const opened = s.log.lines.filter(({ message }) => message === "opening a new epoch");
    expect(opened.map(({ fields }) => String(fields["why"]))).toEqual([expect.stringContaining(WHY)]);
    await s.pass(5_000);
    expect(s.cached()).toEqual(["default/a"]);
    expect(await s.gates()).toBe(true);
  });

  it("WA10 keeps the epoch if only the stream lags behind the API server", async ({ s }) => {
    await s.create("a");
    s.start("one");
    await s.pass(5_000);
    const epoch = s.data.epoch?.record.epoch;
    const path = "/api/v1/namespaces/default/configmaps";
    const answer = await s.server.request({ method: "POST", path, body: JSON.stringify({ metadata: { name: "newer" } }) });
    // the created object
    const created = "body" in answer ? (answer.body as { readonly metadata: { readonly resourceVersion: string } }) : undefined;
    written(s, created?.metadata.resourceVersion ?? "");
    await s.pass(40_000);
    expect(s.data.epoch?.record.epoch).toBe(epoch);
  });
});

describe("two watchers", () => {
  it("lists after a crash, because the Store may have been rolled back meanwhile, but not after a clean shutdown", async ({ s }) => {
    await s.create("a");
    const [one, generation] = [s.start("one"), () => s.data.epoch?.resources.get("pods")?.generation];
    await s.pass(3_000);
    expect([generation(), s.data.epoch?.suspectMarks]).toEqual([1, 0]);
    one.ends.abort("stopped");
    const two = s.start("two");
    for (let ms = 0; ms < 5_000; ms += 100) {
      await s.pass(100);
      expect(await s.gates()).toBe(true);
    }
    expect([generation(), s.data.epoch?.suspectMarks]).toEqual([1, 0]);
    two.fate.die();
    s.start("three");
    await s.pass(16_500);
    expect([generation(), s.data.epoch?.suspectMarks]).toEqual([2, CACHED_RESOURCES.length]);
    await s.pass(3_000);
    expect(await s.gates()).toBe(true);
  });

  it("WA13 opens the gate with its list after minutes without a watcher, not with the next heartbeat", async ({ s }) => {
    await s.create("a");
    const one = s.start("one");
    await s.pass(3_000);
    one.fate.die();
    await s.pass(120_000);
    expect(await s.gates()).toBe(false);
    const [from, fence] = [s.clock.now(), s.fence()];
    s.start("two");
    while (s.fence() === fence && s.clock.now() < from + 30_000) await s.pass(100);
    await s.pass(1_000);
    expect(await s.gates()).toBe(true);
  });

  it("[informer T30] the second watcher resumes from the lowest applied version, not from the last one sent, and misses no event", async ({
    s,
  }) => {
    const one = s.start("one");
    await s.pass(3_000);
    for (let i = 0; i < 100; i++) await s.create(`p${String(i).padStart(3, "0")}`);
    await s.clock.advance(200);
    expect(s.waiting()).toBeGreaterThan(10);
    await s.drain(Math.floor(s.waiting() * 0.6));
    const watermarks = (s.data.epoch?.resources.get("pods")?.lanes ?? []).map(({ watermark }) => Number(watermark));
    one.ends.abort("stopped");
    const generation = s.data.epoch?.resources.get("pods")?.generation;
    s.start("two");
    await s.pass(40_000);
    expect(s.cached()).toHaveLength(100);
    expect(s.data.epoch?.resources.get("pods")?.generation).toBe(generation);
    const fence = s.data.epoch?.resources.get("pods")?.fence;
    const versions = s
      .envelopes()
      .flatMap((each) => (each.f === fence && each.k === "D" && each.r === "pods" ? each.items.map(({ rv }) => Number(rv)) : []));
    expect(Math.min(...versions)).toBeGreaterThan(Math.min(...watermarks));
    expect(versions.length).toBeGreaterThan(0);
    expect(versions.length).toBeLessThan(100);
  });

  it("[informer T29] the next watcher reads events again that its predecessor had received but not sent", async ({ s }) => {
    const one = s.start("one");
    await s.pass(3_000);
    s.queueIsAway(true);
    await s.create("unsent");
    await s.pass(3_000); // so that the checkpoints do not include it
    const { generation } = s.data.epoch?.resources.get("pods") ?? {};
    one.ends.abort("stopped");
    await s.clock.advance(100);
    s.queueIsAway(false);
    s.start("two");
    await s.pass(30_000);
    expect(s.cached()).toEqual(["default/unsent"]);
    expect(s.data.epoch?.resources.get("pods")?.generation).toBe(generation); // through a watch, not a list
  });

  it("[informer T54] a watcher that was suspended for a minute has been replaced, and its late messages are dropped", async ({ s }) => {
    await s.create("a");
    const one = s.start("one");
    await s.pass(3_000);
    const late = { ...s.sent.filter(({ body }) => envelopeOf(body).r === "pods").at(-1) };
    one.fate.die();
    s.start("two");
    await s.pass(60_000);
    const before = JSON.stringify([s.cached(), s.data.epoch?.resources.get("pods")?.lanes.map(({ last, watermark }) => [last, watermark])]);
    // The first watcher's last message, with an unused sequence number: a manifest that would delete all rows.
    const { k: _, ...head } = envelopeOf(late.body ?? "") as Envelope & { readonly rv?: string };
    const lane = head.ln;
    const body = signedBody("c1", { ...head, sq: head.sq + 1, k: "M", L: "999999", part: 1, parts: 1, rows: [] });
    await applyMessage(
      {
        cluster: () => ({ store: s.store, signer: testSigner("c1"), doorbells: { ring: async () => {} }, reader: never }),
        clusters: ["c1"],
        registry: CORE_CACHE,
        digester: createDigester("x"),
        clock: s.clock,
        log: s.log,
      },
      { id: `late-${lane}`, body },
    );
    expect(JSON.stringify([s.cached(), s.data.epoch?.resources.get("pods")?.lanes.map(({ last, watermark }) => [last, watermark])])).toBe(
      before,
    );
    expect(s.log.lines.at(-1)).toMatchObject({ message: "message dropped", fields: { why: "fence" } });
  });

  it("[informer T54] a watcher suspended for 30 s sends nothing more, stops leading, and leads again when the other watcher ends", async ({
    s,
  }) => {
    await s.create("a");
    const one = s.start("one");
    await s.pass(3_000);
    const two = s.start("two");
    await s.pass(2_000);
    const fence = s.fence() ?? "";
    one.stand(30_000);
    await s.pass(13_000); // by then, its idle lanes are due for a heartbeat
    await s.create("b");
    await s.pass(16_000);
    expect(s.fence()).not.toBe(fence);
    const sent = s.envelopes().filter(({ f }) => f === fence).length;
    await s.remove("a");
    await s.pass(10_000);
    expect(s.envelopes().filter(({ f }) => f === fence)).toHaveLength(sent);
    expect(s.log.lines.filter(({ message }) => message === "no longer leading")).toHaveLength(1);
    two.ends.abort(new Error("SIGTERM"));
    await s.pass(4_000);
    await s.create("c");
    await s.pass(2_000);
    expect(s.cached()).toEqual(["default/b", "default/c"]);
    expect(s.log.lines.filter(({ message }) => message === "leading")).toHaveLength(3);
  });

  it("[informer T58] a leader with an outdated fence stops leading at its next checkpoint, and logs it once", async ({ s }) => {
    s.start("one");
    await s.pass(3_000);
    const epoch = s.data.epoch?.record.epoch ?? "";
    // Another watcher has taken the Lease after a missed renewal.
    const lease = { path: "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/lease", body: '{"spec":{"holderIdentity":"two"}}' };
    const headers = { "content-type": "application/merge-patch+json" };
    await s.server.request({ method: "PATCH", ...lease, headers });
    await s.store.openFence({ epoch, fence: s.server.resourceVersion, resource: "pods", lanes: 16 });
    await s.pass(2_000);
    expect(s.data.epoch?.record.epoch).toBe(epoch);
    const said = s.log.lines.filter(({ message }) => message === "no longer leading");
    expect(said.map(({ fields }) => fields?.["why"])).toEqual(["another watcher has a newer fence"]);
  });

  it("[informer T57] releases the Lease on shutdown, and the next watcher leads within seconds", async ({ s }) => {
    const one = s.start("one");
    await s.pass(3_000);
    s.start("two");
    await s.pass(3_000);
    one.ends.abort(new Error("SIGTERM"));
    await s.pass(5_000);
    await one.running;
    expect(s.log.lines.filter(({ message }) => message === "leading")).toHaveLength(2);
    expect(await s.gates()).toBe(true);
  });
});

describe("a restored etcd with older revisions", () => {
  /** Makes fifty writes that the restore discards; the last fence is also from that time. */
  async function lostTime(s: ReturnType<typeof scene>): Promise<void> {
    await s.remove("a");
    for (let i = 0; i < 50; i++) await s.create(`lost-${i}`);
    await s.pass(1_000);
    await s.store.markSuspect("pods", "a test wants a late fence");
    await s.pass(4_000);
    expect(s.cached()).toHaveLength(50);
    expect(await s.gates()).toBe(true);
  }

  const podsFence = (s: ReturnType<typeof scene>): bigint => BigInt(s.fence() ?? "0");
  const errors = (s: ReturnType<typeof scene>, text: string): number =>
    s.log.lines.filter(({ message, fields }) => message === "opening a new epoch" && String(fields["why"]).includes(text)).length;

  it("[informer T52] [informer T52b] the rollback of etcd is detected when the watches are reopened, and the same leader opens a new epoch whose cache equals the server", async ({
    s,
  }) => {
    await s.create("a");
    s.start("one");
    await s.pass(3_000);
    const restore = s.server.backup();
    await lostTime(s);
    const [epoch, fence] = [s.data.epoch?.record.epoch, podsFence(s)];
    restore();
    const atMs = s.clock.now();
    while (s.data.epoch?.record.epoch === epoch && s.clock.now() - atMs < 160_000) await s.pass(500);
    while (!(await s.gates()) && s.clock.now() - atMs < 160_000) await s.pass(500);
    expect(s.clock.now() - atMs).toBeLessThanOrEqual(LOSS_MS_MAX);
    expect(s.data.epoch?.record.epoch).not.toBe(epoch);
    expect(podsFence(s)).toBeLessThan(fence);
    expect(s.cached()).toEqual(["default/a"]);
    await s.create("b");
    await s.remove("a");
    await s.pass(1_000);
    expect(s.cached()).toEqual(["default/b"]);
    await s.pass(60_000);
    expect(errors(s, "")).toBe(1);
    expect(await s.gates()).toBe(true);
  });

  it("[informer T52] adds nothing from the restored API server to the cache of the old epoch", async ({ s }) => {
    await s.create("a");
    s.start("one");
    await s.pass(3_000);
    const restore = s.server.backup();
    await lostTime(s);
    const [epoch, sent] = [s.data.epoch?.record.epoch, s.sent.length];
    restore();
    await s.pass(10_000);
    expect(
      s
        .envelopes()
        .slice(sent)
        .filter(({ e, k }) => e === epoch && k !== "W"),
    ).toEqual([]);
    expect(errors(s, "already applied")).toBe(1);
  });

  it("[informer T52b] a leader that starts after the restore opens a new epoch once the old one has not changed for 60 s", async ({
    s,
  }) => {
    await s.create("a");
    const one = s.start("one");
    await s.pass(3_000);
    const restore = s.server.backup();
    await lostTime(s);
    one.fate.die();
    restore();
    const epoch = s.data.epoch?.record.epoch;
    s.start("two");
    await s.pass(60_000);
    expect(s.data.epoch?.record.epoch).toBe(epoch);
    await s.pass(40_000);
    expect(s.data.epoch?.record.epoch).not.toBe(epoch);
    expect(s.log.lines.filter(({ message }) => message.startsWith("two clusters share this cache"))).toHaveLength(1);
    expect(s.cached()).toEqual(["default/a"]);
    expect(await s.gates()).toBe(true);
  });

  it("[informer T52b] a leader suspended during the restore opens no epoch, although its fence is the greatest", async ({ s }) => {
    await s.create("a");
    const one = s.start("one");
    await s.pass(3_000);
    const restore = s.server.backup();
    await lostTime(s);
    const old = podsFence(s);
    one.pause(60_000);
    await s.pass(3_000);
    restore();
    s.start("two");
    await s.pass(100_000);
    const epoch = s.data.epoch?.record.epoch;
    expect(podsFence(s)).toBeLessThan(old);
    let most = 0n;
    for (let ms = 0; ms < 40_000; ms += 500) {
      await s.pass(500);
      most = podsFence(s) > most ? podsFence(s) : most;
    }
    expect(most).toBeLessThan(old);
    expect(s.data.epoch?.record.epoch).toBe(epoch);
    expect(s.cached()).toEqual(["default/a"]);
    expect(await s.gates()).toBe(true);
  });
});

const never = createSimulatedKube({
  server: createApiServer({ clock: createVirtualClock(0), random: createSeededRandom(1) }),
  clock: createVirtualClock(0),
  random: createSeededRandom(1),
  component: "never",
  faults: () => ({ api: 0, watch: 0 }),
});
