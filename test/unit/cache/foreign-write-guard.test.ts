/**
 * The watcher's part of the guard, on the Store in memory, with every interleaving that informer §11.9 names. Catches: a fight that goes
 * on, a standstill that a person has ended and that comes back, one that ends by itself, a term that begins without its report.
 */
import { describe, expect, it as base } from "vitest";

import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { createMemoryData } from "../../../shared/store/memory/store/data.ts";
import { createMemoryStore } from "../../../shared/store/memory/store/store.ts";
import { createForeignWriteGuard } from "../../../shared/controllers/cache/watcher/foreign-write-guard.ts";
import type { ForeignWriteGuard } from "../../../shared/controllers/cache/watcher/foreign-write-guard.ts";
import { KubeApiError, UnansweredError } from "../../../shared/kube/client/errors.ts";
import type { ListQuery } from "../../../shared/kube/client/kube.ts";
import type { Log } from "../../../shared/base/log.ts";
import type { Store } from "../../../shared/store/ports/store.ts";
import { IDENTITY } from "../../harness/store/store.ts";

const it = base.extend("s", async () => scene());

const START_MS = Date.parse("2026-03-01T10:00:00Z");
const second = (s: number): number => START_MS + s * 1_000;

/** A Deployment whose status somebody wrote in that second, or says so. */
const written = (s: number, manager = "kube-controller-manager", name = "web") => ({
  metadata: {
    namespace: "shop",
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
/** The Deployment as it was before a write of its status. */
const OTHER = { metadata: { uid: "u1" }, status: { replicas: 2 } };
/** And before one that left its status alone. */
const SAME = { metadata: { uid: "u1" }, status: { replicas: 3 } };

function scene() {
  const clock = createVirtualClock(START_MS);
  let data = createMemoryData();
  let away = false;
  let reports = 0;
  let before: () => Promise<readonly unknown[]> = async () => [OTHER];
  const asked: ListQuery[] = [];
  const store = (): Store => createMemoryStore({ deployment: "d", cluster: "c", identity: IDENTITY, holeLimitMs: 1_000, clock }, data);
  const lines: string[] = [];
  const note =
    (level: string): Log["info"] =>
    (message) =>
      void lines.push(`${level} ${message}`);
  const log: Log = { debug: note("debug"), info: note("info"), warn: note("warn"), error: note("error") };
  const reached = async <T>(ask: (store: Store) => Promise<T>): Promise<T> => {
    if (away) throw new Error("redis is away");
    return await ask(store());
  };
  const ends = new AbortController();
  const running: Promise<void>[] = [];
  return {
    clock,
    lines,
    reports: () => reports,
    /** What the API server was asked for. */
    asked,
    /** What the API server says of the version before. */
    before: (answer: () => Promise<readonly unknown[]>) => void (before = answer),
    /** A watcher that leads from that second on. */
    watcher(beganAt: number): ForeignWriteGuard {
      const guard = createForeignWriteGuard({
        store: {
          guard: () => reached((each) => each.guard()),
          reportForeignWrite: (write, nowMs) => (reports++, reached((each) => each.reportForeignWrite(write, nowMs))),
        },
        kube: {
          listPage: async (_resource, query) => {
            asked.push(query);
            return { resourceVersion: "2000", items: await before() };
          },
        },
        clock,
        log,
      });
      guard.begin(second(beganAt));
      running.push(guard.run(ends.signal));
      return guard;
    },
    /** What a person does who has seen everything up to that second. */
    async resume(seenUpTo: number): Promise<string> {
      return await store().resume({ version: (await store().guard()).version, forgivenMs: second(seenUpTo) });
    },
    seenByAnother: (atSecond: number) =>
      store().reportForeignWrite({ resource: "deployments", key: "shop/web", manager: "k3s", atMs: second(atSecond) }, START_MS),
    stop: async () => (await store().guard()).stop,
    isStopped: async () => (await store().guard()).stop !== undefined,
    redisIsAway: (is: boolean) => void (away = is),
    /** Redis as it was; the answer puts it back. */
    snapshot() {
      const { guard } = data;
      return () => void (data = { ...data, guard });
    },
    flush: () => void (data = createMemoryData()),
    /** Somebody takes the stop away and leaves the rest. */
    takeAway: () => void (data = { ...data, guard: { forgivenMs: data.guard.forgivenMs, version: "x" } }),
    async end() {
      ends.abort(new Error("over"));
      await Promise.all(running);
    },
  };
}

describe("the guard", () => {
  it("[informer T103] FG1 FG2 reports a write of another controller at once, and says so once", async ({ s }) => {
    const guard = s.watcher(0);
    guard.look("deployments", written(0)); // upstream's loops ended a second before we began
    guard.look("deployments", written(-60));
    await s.clock.advance(5_000);
    expect(await s.isStopped()).toBe(false);
    expect(s.reports()).toBe(0); // nothing is asked while nothing is wrong
    guard.look("deployments", written(3));
    await s.clock.advance(0);
    expect(await s.stop()).toMatchObject({ write: { key: "shop/web", manager: "kube-controller-manager", atMs: second(3) } });
    await s.clock.advance(10_000);
    expect(s.lines).toEqual(["error another controller is at work: no key is handed out until deltaloop resume"]);
    await s.end();
  });

  it("FG1 nothing counts before it leads: a list that is read on the way to it is everybody's past", async ({ s }) => {
    const guard = createForeignWriteGuard({
      store: { guard: never, reportForeignWrite: never },
      kube: { listPage: never },
      clock: s.clock,
      log: silent,
    });
    guard.look("deployments", written(3));
    await guard.beforeTerm().catch((error: unknown) => expect(String(error)).toContain("asked for the guard"));
    await s.end();
  });

  it("[informer T105] FG1 what an entry says alone is nothing: the status must have changed in just this version", async ({ s }) => {
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

  it("[informer T105] FG6 no write is of later than now: a resume forgives it, and what comes then stops again", async ({ s }) => {
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

  it("FG6 a stop of the far future that a former build has left is taken over as of now", async ({ s }) => {
    await s.seenByAnother(1_000_000);
    const guard = s.watcher(0);
    await guard.beforeTerm();
    await s.resume(5);
    await s.clock.advance(2_000);
    expect(await s.isStopped()).toBe(false);
    await s.end();
  });

  it("IQ2 an API server that is away delays it; one that has forgotten the version leaves it to the next write", async ({ s }) => {
    const guard = s.watcher(0);
    s.before(() => Promise.reject(new UnansweredError("no answer in time")));
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

  it("IQ1 who makes up claims all the time is asked for one by one, and holds up nobody else", async ({ s }) => {
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

  it("IQ1 of one object's claims the first waits, and no term waits for those that nobody asks for", async ({ s }) => {
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

  it("FG4 no term begins before what was seen is looked into; an API server that does not answer keeps it for 5 s", async ({ s }) => {
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

  it("FG2 a stop that is taken away is back within a second, as often as it is done", async ({ s }) => {
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

  it("FG2 a Store that is away delays the report, and the next try has it", async ({ s }) => {
    const guard = s.watcher(0);
    s.redisIsAway(true);
    guard.look("deployments", written(3));
    await s.clock.advance(3_000);
    expect(await s.isStopped()).toBe(false);
    await expect(guard.beforeTerm()).rejects.toThrow("redis is away"); // FG4
    s.redisIsAway(false);
    await s.clock.advance(1_000);
    expect(await s.isStopped()).toBe(true);
    expect(s.lines.filter((line) => line.startsWith("error"))).toHaveLength(1);
    await s.end();
  });

  it("a resume ends it, for as long as the other one writes nothing more", async ({ s }) => {
    const guard = s.watcher(0);
    guard.look("deployments", written(3));
    await s.clock.advance(0);
    expect(await s.resume(3)).toBe("resumed");
    await s.clock.advance(5_000);
    expect(await s.isStopped()).toBe(false);
    expect(s.lines.at(-1)).toBe("warn resumed by a user: earlier writes of the other controller are forgiven");
    const asked = s.reports();
    guard.look("deployments", written(3)); // listed again
    guard.look("replicasets", written(2));
    await s.clock.advance(5_000);
    expect([await s.isStopped(), s.reports()]).toEqual([false, asked]);
    guard.look("deployments", written(9));
    await s.clock.advance(0);
    expect(await s.isStopped()).toBe(true);
    await s.end();
  });

  it("FG3 the newest write is reported, so a resume that has seen less leaves it stopped", async ({ s }) => {
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

  it("two watchers: one that was paused and reports an old write after the resume is not believed", async ({ s }) => {
    const [paused, leader] = [s.watcher(0), s.watcher(20)];
    s.redisIsAway(true); // for the paused one
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

  it("FG5 the next leader, which saw nothing, takes over a stop that stands", async ({ s }) => {
    await s.seenByAnother(3); // which lives no more
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

  it("FG4 after a flush the stop stands before a term begins; Redis set back by two seconds has it again, too", async ({ s }) => {
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

  it("Redis that was set back and has lost the resume: stopped until a person resumes again, and then not", async ({ s }) => {
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

  it("a flush after the resume: what this process remembers of it stays forgiven when all is listed again", async ({ s }) => {
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

  it("a leader that begins after a hand-over there and back minds only what comes then", async ({ s }) => {
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

function never(): never {
  throw new Error("asked for the guard");
}

const silent: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
