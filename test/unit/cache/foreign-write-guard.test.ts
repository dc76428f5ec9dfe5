/** The watcher's part of the foreign-write guard, on the memory Store, with every interleaving of informer §11.9. */
import { describe, expect, it as base } from "vitest";

import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { createMemoryData } from "../../../shared/store/memory/store/data.ts";
import { createMemoryStore } from "../../../shared/store/memory/store/store.ts";
import { createForeignWriteGuard } from "../../../shared/controllers/cache/watcher/foreign-write-guard.ts";
import type { ForeignWriteGuard } from "../../../shared/controllers/cache/watcher/foreign-write-guard.ts";
import { KubeApiError, UnansweredError } from "../../../shared/kube/client/errors.ts";
import type { ListQuery, PatchRequest } from "../../../shared/kube/client/kube.ts";
import type { KubeObject } from "../../../shared/kube/objects.ts";
import { stoppedNamespaces } from "../../../shared/store/ports/guard-store.ts";
import type { Log } from "../../../shared/base/log.ts";
import type { ForeignWrites, Store } from "../../../shared/store/ports/store.ts";
import { IDENTITY } from "../../harness/store/store.ts";

const it = base.extend("s", async () => scene());

const CANARY = { namespace: "deltaloop", name: "deltaloop-canary" };
const START_MS = Date.parse("2026-03-01T10:00:00Z");
const second = (s: number): number => START_MS + s * 1_000;

/** A Deployment whose managedFields say that another controller wrote its status in that second. */
const written = (s: number, manager = "kube-controller-manager", name = "web", namespace = "shop") => ({
  metadata: {
    namespace,
    name,
    uid: "u1",
    resourceVersion: "1000",
    managedFields: [
      {
        manager,
        operation: "Update",
        subresource: "status",
        time: new Date(second(s)).toISOString(),
        fieldsV1: { "f:status": { "f:replicas": {} } },
      },
    ],
  },
  status: { replicas: 3 },
});
/** The canary after another controller corrected it. */
const corrected = (s: number) => written(s, "kube-controller-manager", CANARY.name, CANARY.namespace);
/** The Deployment before a write of its status. */
const OTHER = { metadata: { uid: "u1" }, status: { replicas: 2 } };
/** The Deployment before a write that left its status unchanged. */
const SAME = { metadata: { uid: "u1" }, status: { replicas: 3 } };

function scene() {
  const clock = createVirtualClock(START_MS);
  let data = createMemoryData();
  let away = false;
  let reports = 0;
  let before: () => Promise<readonly unknown[]> = async () => [OTHER];
  const asked: ListQuery[] = [];
  /** Changes of the canary's status by the watcher. */
  const changes: unknown[] = [];
  let canary: () => Promise<KubeObject | undefined> = async () => ({
    metadata: { name: CANARY.name, uid: "u", resourceVersion: "1" },
    status: { replicas: changes.at(-1) },
  });
  const store = (): Store => createMemoryStore({ deployment: "d", cluster: "c", identity: IDENTITY, holeLimitMs: 1_000, clock }, data);
  const lines: string[] = [];
  const note =
    (level: string): Log["info"] =>
    (message) =>
      void lines.push(`${level} ${message}`);
  const log: Log = { debug: note("debug"), info: note("info"), warn: note("warn"), error: note("error") };
  const reached = async <T>(ask: (store: Store) => Promise<T>): Promise<T> => {
    if (away) throw new Error("redis is unavailable");
    return await ask(store());
  };
  const ends = new AbortController();
  const running: Promise<void>[] = [];
  return {
    clock,
    lines,
    reports: () => reports,
    /** Requests to the API server. */
    asked,
    /** The API server's answer for the previous version. */
    before: (answer: () => Promise<readonly unknown[]>) => void (before = answer),
    /** A watcher that becomes leader in that second. */
    watcher(beganAt: number): ForeignWriteGuard {
      const ports = {
        store: {
          guard: () => reached((each) => each.guard()),
          reportForeignWrites: (writes: ForeignWrites, nowMs: number) => (
            reports++,
            reached((each) => each.reportForeignWrites(writes, nowMs))
          ),
        },
        kube: {
          get: () => canary(),
          patch: async ({ body }: PatchRequest) => {
            changes.push((body as { readonly status: { readonly replicas: number } }).status.replicas);
            return { metadata: { name: "x", uid: "u", resourceVersion: "1" } };
          },
          listPage: async (_resource: unknown, query: ListQuery) => {
            asked.push(query);
            return { resourceVersion: "2000", items: await before() };
          },
        },
        clock,
        log,
      };
      const guard = createForeignWriteGuard(ports, CANARY);
      guard.begin(second(beganAt));
      running.push(guard.run(ends.signal));
      return guard;
    },
    changes,
    /** The API server's answer for the canary. */
    canary: (answer: typeof canary) => void (canary = answer),
    /** A user's resume that accepts all writes up to that second. */
    async resume(seenUpTo: number, namespace?: string): Promise<string> {
      const seen = await store().guard();
      return await store().resume({ seen, acceptedMs: second(seenUpTo), ...(namespace !== undefined && { namespace }) });
    },
    seenByAnother: (atSecond: number) =>
      store().reportForeignWrites(
        { namespaces: [{ resource: "deployments", key: "shop/web", manager: "k3s", atMs: second(atSecond) }] },
        START_MS,
      ),
    stop: async (namespace = "shop") => stoppedNamespaces(await store().guard()).get(namespace),
    isStopped: async () => stoppedNamespaces(await store().guard()).has("shop"),
    everythingStopped: async () => (await store().guard()).stop,
    redisIsAway: (is: boolean) => void (away = is),
    /** Copies Redis; the returned function restores the copy. */
    snapshot() {
      const { guard } = data;
      return () => void (data = { ...data, guard });
    },
    flush: () => void (data = createMemoryData()),
    /** Deletes the record of the stop, and nothing else. */
    takeAway: () => void (data = { ...data, guard: { acceptedMs: data.guard.acceptedMs, namespaces: new Map() } }),
    async end() {
      ends.abort(new Error("over"));
      await Promise.all(running);
    },
  };
}

describe("the guard against a second active controller", () => {
  it("[informer T103] FG1 FG2 reports a status write of another controller immediately, and logs it once", async ({ s }) => {
    const guard = s.watcher(0);
    guard.look("deployments", written(0)); // upstream's controllers stopped a second before ours started
    guard.look("deployments", written(-60));
    await s.clock.advance(5_000);
    expect(await s.isStopped()).toBe(false);
    expect(s.reports()).toBe(0); // sends no request without another controller's write
    guard.look("deployments", written(3));
    await s.clock.advance(0);
    expect(await s.stop()).toMatchObject({ write: { key: "shop/web", manager: "kube-controller-manager", atMs: second(3) } });
    await s.clock.advance(10_000);
    expect(s.lines).toEqual([
      "error another controller writes in this namespace; syncing none of its keys until you run deltaloop resume -n NAMESPACE",
      "warn no other controller wrote the canary within 10 s: only the affected namespaces are stopped",
    ]);
    await s.end();
  });

  it("FG1 ignores writes that were made before its watcher became the leader", async ({ s }) => {
    const guard = createForeignWriteGuard(
      {
        store: { guard: never, reportForeignWrites: never },
        kube: { listPage: never, get: never, patch: never },
        clock: s.clock,
        log: silent,
      },
      CANARY,
    );
    guard.look("deployments", written(3));
    await guard.beforeTerm().catch((error: unknown) => expect(String(error)).toContain("asked for the guard"));
    await s.end();
  });

  it("[informer T105] FG1 reports a managedFields entry only if the status also changed in exactly that version", async ({ s }) => {
    const guard = s.watcher(0);
    for (const items of [[SAME], [], [{ ...OTHER, metadata: { uid: "u0" } }]]) {
      s.before(async () => items);
      guard.look("deployments", written(3));
      await s.clock.advance(5_000);
    }
    expect([await s.isStopped(), s.reports(), s.lines]).toEqual([false, 0, []]);
    expect(s.asked[0]).toEqual({
      fieldSelector: "metadata.namespace=shop,metadata.name=web",
      resourceVersion: "999",
      resourceVersionMatch: "Exact",
    });
    s.before(async () => [OTHER]);
    guard.look("deployments", written(4));
    await s.clock.advance(0);
    expect(await s.isStopped()).toBe(true);
    await s.end();
  });

  it("[informer T105] FG6 the guard never dates a write in the future: a resume covers that write, and only a later write triggers the stop again", async ({
    s,
  }) => {
    const guard = s.watcher(0);
    await s.clock.advance(5_000);
    guard.look("deployments", written(1_000_000));
    await s.clock.advance(0);
    expect(await s.stop()).toMatchObject({ write: { atMs: second(10) } });
    await s.resume(10);
    await s.clock.advance(6_000);
    expect(await s.isStopped()).toBe(false);
    guard.look("deployments", written(11));
    await s.clock.advance(0);
    expect(await s.isStopped()).toBe(true);
    await s.end();
  });

  it("FG6 treats a stop that an earlier build stored with a time in the far future as one of the current time", async ({ s }) => {
    await s.seenByAnother(1_000_000);
    const guard = s.watcher(0);
    await guard.beforeTerm();
    await s.resume(5);
    await s.clock.advance(2_000);
    expect(await s.isStopped()).toBe(false);
    await s.end();
  });

  it("IQ2 retries the check while the API server is unavailable, and drops it when the version has expired; the next write is reported", async ({
    s,
  }) => {
    const guard = s.watcher(0);
    s.before(() => Promise.reject(new UnansweredError("no response in time")));
    guard.look("deployments", written(3));
    await s.clock.advance(5_500);
    expect([await s.isStopped(), s.asked.length]).toEqual([false, 6]);
    s.before(async () => [OTHER]);
    await s.clock.advance(1_000);
    expect(await s.isStopped()).toBe(true);
    await s.resume(3);
    await s.clock.advance(1_000);
    s.before(() => Promise.reject(new KubeApiError({ code: 410, reason: "Expired", message: "too old" })));
    guard.look("deployments", written(9));
    await s.clock.advance(5_000);
    expect([await s.isStopped(), s.asked.length]).toEqual([false, 8]);
    expect(s.lines).toContain("warn gave up looking up the writer of a status");
    await s.end();
  });

  it("IQ1 checks repeated fabricated managedFields entries of an object one at a time, without delaying other objects", async ({ s }) => {
    const guard = s.watcher(0);
    const answers: (() => void)[] = [];
    s.before(async () => {
      await new Promise<void>((resolve) => answers.push(resolve));
      return [SAME];
    });
    for (let nth = 0; nth < 100; nth++) guard.look("deployments", written(3, "k3s", `made-up-${nth % 5}`));
    await s.clock.advance(0);
    for (let nth = 0; nth < 100; nth++) guard.look("deployments", written(3, "k3s", `made-up-${nth % 5}`));
    s.before(async () => [OTHER]);
    guard.look("deployments", written(4));
    answers.splice(0).forEach((answer) => answer());
    await s.clock.advance(0);
    expect(await s.isStopped()).toBe(true);
    expect(s.asked.length).toBeLessThanOrEqual(11);
    await s.end();
  });

  it("IQ1 queues one check for each object, and a term begins without waiting for queued checks", async ({ s }) => {
    const guard = s.watcher(0);
    const answers: (() => void)[] = [];
    s.before(async () => {
      await new Promise<void>((resolve) => answers.push(resolve));
      return [SAME];
    });
    for (let nth = 0; nth < 4; nth++) guard.look("deployments", written(3, "k3s", `made-up-${nth}`));
    await s.clock.advance(0);
    s.before(async () => [SAME]);
    for (const resourceVersion of ["1001", "1002", "1003"]) {
      const { metadata, ...rest } = written(3);
      guard.look("deployments", { ...rest, metadata: { ...metadata, resourceVersion } });
    }
    answers.forEach((answer) => answer());
    const begins = guard.beforeTerm().then(() => "has begun");
    await s.clock.advance(0);
    expect(await Promise.race([begins, s.clock.after(1).then(() => "waits"), s.clock.advance(1)])).toBe("has begun");
    expect(s.asked.slice(4).map(({ resourceVersion }) => resourceVersion)).toEqual(["1000"]);
    await s.end();
  });

  it("FG4 a term begins after the running check of a write, or after 5 s if the API server does not answer", async ({ s }) => {
    const guard = s.watcher(0);
    let answer = (): void => undefined;
    s.before(async () => {
      await new Promise<void>((resolve) => (answer = resolve));
      return [OTHER];
    });
    guard.look("deployments", written(3));
    let hasBegun = false;
    const begins = guard.beforeTerm().then(() => (hasBegun = true));
    await s.clock.advance(4_000);
    expect(hasBegun).toBe(false);
    answer();
    await begins;
    expect(await s.isStopped()).toBe(true);
    guard.look("deployments", written(5));
    const late = guard.beforeTerm();
    await s.clock.advance(5_000);
    await late;
    answer();
    await s.end();
  });

  it("FG2 restores the stop within a second each time it is deleted from Redis", async ({ s }) => {
    s.watcher(0).look("deployments", written(3));
    await s.clock.advance(0);
    for (let round = 0; round < 3; round++) {
      s.takeAway();
      expect(await s.isStopped()).toBe(false);
      await s.clock.advance(1_000);
      expect(await s.isStopped()).toBe(true);
    }
    await s.end();
  });

  it("FG2 an unavailable Store delays the report until the next attempt", async ({ s }) => {
    const guard = s.watcher(0);
    s.redisIsAway(true);
    guard.look("deployments", written(3));
    await s.clock.advance(3_000);
    expect(await s.isStopped()).toBe(false);
    await expect(guard.beforeTerm()).rejects.toThrow("redis is unavailable"); // FG4: the term does not begin
    s.redisIsAway(false);
    await s.clock.advance(1_000);
    expect(await s.isStopped()).toBe(true);
    expect(s.lines.filter((line) => line.startsWith("error"))).toHaveLength(1);
    await s.end();
  });

  it("a resume lifts the stop until the other controller writes again", async ({ s }) => {
    const guard = s.watcher(0);
    guard.look("deployments", written(3));
    await s.clock.advance(0);
    expect(await s.resume(3)).toBe("resumed");
    await s.clock.advance(5_000);
    expect(await s.isStopped()).toBe(false);
    expect(s.lines.at(-1)).toBe("warn resumed by a user: earlier writes of the other controller are ignored");
    const asked = s.reports();
    guard.look("deployments", written(3)); // a later list
    guard.look("replicasets", written(2));
    await s.clock.advance(5_000);
    expect([await s.isStopped(), s.reports()]).toEqual([false, asked]);
    guard.look("deployments", written(9));
    await s.clock.advance(0);
    expect(await s.isStopped()).toBe(true);
    await s.end();
  });

  it("FG3 reports the newest write, so that a resume up to an older write does not lift the stop", async ({ s }) => {
    const guard = s.watcher(0);
    guard.look("deployments", written(3));
    guard.look("deployments", written(5, "k3s", "web-2"));
    guard.look("deployments", written(4, "kube-controller-manager", "web-3"));
    await s.clock.advance(1_000);
    expect(await s.stop()).toMatchObject({ write: { manager: "k3s", atMs: second(5) } });
    await s.resume(4);
    await s.clock.advance(1_000);
    expect(await s.isStopped()).toBe(true);
    await s.resume(5);
    await s.clock.advance(1_000);
    expect(await s.isStopped()).toBe(false);
    await s.end();
  });

  it("ignores a write from before `deltaloop resume` that a stalled second watcher reports afterwards", async ({ s }) => {
    const [paused, leader] = [s.watcher(0), s.watcher(20)];
    s.redisIsAway(true); // for the paused namespace
    paused.look("deployments", written(3));
    await s.clock.advance(0);
    s.redisIsAway(false);
    leader.look("deployments", written(25));
    await s.clock.advance(0);
    await s.resume(25);
    await s.clock.advance(5_000);
    expect(await s.isStopped()).toBe(false);
    await s.end();
  });

  it("FG5 a new leader restores a deleted stop even if it has not seen the write that caused the stop", async ({ s }) => {
    await s.seenByAnother(3); // by a watcher that has terminated
    const next = s.watcher(20);
    await next.beforeTerm();
    s.takeAway();
    await s.clock.advance(1_000);
    expect(await s.isStopped()).toBe(true);
    await s.resume(3);
    await s.clock.advance(1_000);
    await next.beforeTerm();
    expect(await s.isStopped()).toBe(false);
    await s.end();
  });

  it("FG4 restores the stop before a term begins after Redis was flushed or rolled back", async ({ s }) => {
    const guard = s.watcher(0);
    const back = s.snapshot();
    guard.look("deployments", written(3));
    await s.clock.advance(500);
    back();
    expect(await s.isStopped()).toBe(false);
    await guard.beforeTerm();
    expect(await s.isStopped()).toBe(true);
    s.flush();
    await guard.beforeTerm();
    expect(await s.isStopped()).toBe(true);
    await s.end();
  });

  it("stays stopped after a rollback of Redis has lost the resume, until a user resumes again", async ({ s }) => {
    const guard = s.watcher(0);
    guard.look("deployments", written(3));
    await s.clock.advance(0);
    const back = s.snapshot();
    await s.resume(3);
    await s.clock.advance(1_000);
    back();
    await guard.beforeTerm();
    expect(await s.isStopped()).toBe(true);
    await s.resume(3);
    await guard.beforeTerm();
    await s.clock.advance(1_000);
    expect(await s.isStopped()).toBe(false);
    await s.end();
  });

  it("ignores a resumed write when it is listed again after a flush of Redis", async ({ s }) => {
    const guard = s.watcher(0);
    guard.look("deployments", written(3));
    await s.clock.advance(0);
    await s.resume(3);
    await s.clock.advance(1_000);
    s.flush();
    await guard.beforeTerm();
    guard.look("deployments", written(3));
    await s.clock.advance(1_000);
    expect(await s.isStopped()).toBe(false);
    await s.end();
  });

  it("a leader ignores writes from before its start, even if it has led before", async ({ s }) => {
    const guard = s.watcher(60);
    guard.look("deployments", written(30));
    await s.clock.advance(1_000);
    expect(await s.isStopped()).toBe(false);
    guard.look("deployments", written(61));
    await s.clock.advance(0);
    expect(await s.isStopped()).toBe(true);
    await s.end();
  });
});

describe("the canary", () => {
  it("FG7 stops only the namespace of the write, and changes the canary's status, which a cluster-wide controller would correct", async ({
    s,
  }) => {
    const guard = s.watcher(0);
    guard.look("deployments", written(3));
    await s.clock.advance(11_000);
    expect([await s.isStopped(), await s.everythingStopped(), s.changes]).toEqual([true, undefined, [1]]);
    expect(s.lines.at(-1)).toBe("warn no other controller wrote the canary within 10 s: only the affected namespaces are stopped");
    expect(guard.look("replicasets", corrected(12))).toBe("canary"); // a later correction than expected counts too
    await s.clock.advance(0);
    expect(await s.everythingStopped()).toMatchObject({ write: { key: "deltaloop/deltaloop-canary", atMs: second(12) } });
    expect([await s.isStopped(), s.asked.length]).toEqual([false, 1]); // the canary needs no verification
    await s.end();
  });

  it("FG7 ignores our own and users' writes to the canary, and treats a ReplicaSet of its name in another namespace as any other", async ({
    s,
  }) => {
    const guard = s.watcher(0);
    for (const manager of ["deltaloop-watcher", "kubectl-edit"])
      expect(
        guard.look("replicasets", { ...corrected(3), metadata: { ...written(3, manager, CANARY.name, CANARY.namespace).metadata } }),
      ).toBe("canary");
    expect(guard.look("replicasets", written(3, "k3s", CANARY.name, "shop"))).toBeUndefined();
    await s.clock.advance(0);
    expect([await s.everythingStopped(), await s.isStopped()]).toEqual([undefined, true]);
    await s.end();
  });

  it("FG7 changes the canary once in 10 s for writes in two namespaces, with a different status each time", async ({ s }) => {
    const guard = s.watcher(0);
    guard.look("deployments", written(3, "k3s", "web", "shop"));
    guard.look("deployments", written(3, "k3s", "web", "bank"));
    await s.clock.advance(9_000);
    expect([await s.stop("shop"), await s.stop("bank"), s.changes]).toMatchObject([{ kind: "seen" }, { kind: "seen" }, [1]]);
    guard.look("deployments", written(9, "k3s", "web", "third"));
    await s.clock.advance(2_000);
    expect(s.changes).toEqual([1, 2]);
    await s.end();
  });

  it("FG5 FG7 CY4 a watcher that starts within 10 s of a stop changes the canary again, after its own start", async ({ s }) => {
    await s.seenByAnother(3); // by a watcher that has terminated
    const next = s.watcher(5);
    await next.beforeTerm();
    await s.clock.advance(900);
    expect(s.changes).toEqual([]);
    await s.clock.advance(100);
    expect(s.changes).toEqual([1]);
    expect(next.look("replicasets", corrected(5))).toBe("canary"); // a write before this watcher became leader
    await s.clock.advance(0);
    expect(await s.everythingStopped()).toBeUndefined();
    next.look("replicasets", corrected(6));
    await s.clock.advance(0);
    expect(await s.everythingStopped()).toBeDefined();
    await s.end();
  });

  it("FG7 a resume within 10 s of the stop lifts it for the namespace, and later writes of the canary are still detected", async ({
    s,
  }) => {
    const guard = s.watcher(0);
    guard.look("deployments", written(3));
    await s.clock.advance(4_000);
    await s.resume(3, "shop");
    await s.clock.advance(1_000);
    expect(await s.isStopped()).toBe(false);
    guard.look("replicasets", corrected(5));
    await s.clock.advance(0);
    expect(await s.everythingStopped()).toBeDefined();
    await s.resume(5);
    await s.clock.advance(1_000);
    expect(await s.everythingStopped()).toBeUndefined();
    expect(s.lines.at(-1)).toBe("warn resumed by a user: earlier writes of the other controller are ignored");
    await s.end();
  });

  it("FG3 a resume of one namespace leaves the others stopped, and the next write there stops it again", async ({ s }) => {
    const guard = s.watcher(0);
    for (const namespace of ["shop", "bank"]) guard.look("deployments", written(3, "k3s", "web", namespace));
    await s.clock.advance(0);
    await s.resume(3, "shop");
    await s.clock.advance(5_000);
    expect([await s.isStopped(), await s.stop("bank")]).toMatchObject([false, { kind: "seen" }]);
    guard.look("deployments", written(9));
    await s.clock.advance(0);
    expect(await s.isStopped()).toBe(true);
    await s.end();
  });

  it("CY1 retries while the canary is missing or cannot be changed, logs it once, and stops namespaces one by one meanwhile", async ({
    s,
  }) => {
    const guard = s.watcher(0);
    s.canary(async () => undefined);
    guard.look("deployments", written(3));
    await s.clock.advance(20_000);
    expect([await s.isStopped(), s.changes]).toEqual([true, []]);
    expect(s.lines.filter((line) => line.includes("canary"))).toEqual([
      "error failed to change the canary, retrying; until then, writes of another controller stop only their own namespaces",
    ]);
    s.canary(async () => ({ metadata: { name: "x", uid: "u", resourceVersion: "1" } }));
    await s.clock.advance(1_000);
    expect(s.changes).toEqual([1]);
    await s.end();
  });
});

function never(): never {
  throw new Error("asked for the guard");
}

const silent: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
