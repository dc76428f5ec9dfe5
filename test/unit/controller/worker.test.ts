// The worker: lease, renewal, delays and outcome of a run.
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { inSession } from "../../../shared/controllers/kit/sync/in-session.ts";
import type { SyncHandler } from "../../../shared/controllers/kit/sync/session.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { LeaseEndsError } from "../../../shared/controllers/kit/errors.ts";
import { runKey, type WorkerOptions, type WorkerPorts } from "../../../shared/controllers/kit/sync/worker.ts";
import type { Owner } from "../../../shared/controllers/kit/writes.ts";
import type { Doorbell } from "../../../shared/store/ports/doorbells.ts";
import { KubeApiError, TerminalError } from "../../../shared/kube/client/errors.ts";
import type { CreateRequest, DeleteRequest, PatchRequest } from "../../../shared/kube/client/kube.ts";
import { LEASE_MS, RENEWAL_MS } from "../../../shared/base/times.ts";
import type { RetryBudget } from "../../../shared/base/retry-budget.ts";
import type { DoneResult, Outcome, Snapshot, TakeResult } from "../../../shared/store/ports/store.ts";
import type { Log } from "../../../shared/base/log.ts";
import { countedMetrics } from "../../support/counted.ts";

const bell: Doorbell = { controller: "deployment", key: "shop/web", epoch: "e", uid: "u1", delayMs: 0 };
const snapshot: Snapshot = { dependents: [], orphans: [], intents: [], failures: 0 };
const ok: TakeResult = { kind: "ok", snapshot, leaseUntilMs: 0 };

type Counted = ReturnType<typeof countedMetrics>;

interface Scene {
  readonly takes: readonly TakeResult[];
  readonly sync?: SyncHandler;
  readonly options?: WorkerOptions;
  readonly renews?: readonly (number | "stopped" | undefined | Error)[];
  readonly done?: DoneResult;
  readonly ring?: () => Promise<void>;
  /** Receives the retry budget that the worker passes to each call of the run. */
  readonly hear?: (retryBudget: RetryBudget | undefined) => unknown;
  /** The count of the handler's Event, including this occurrence. */
  readonly told?: number;
}

async function play({ takes, sync = async () => ({ kind: "done" }), options, renews = [], done, ring, hear, told = 1 }: Scene): Promise<{
  readonly did: readonly string[];
  readonly outcomes: readonly Outcome[];
  readonly elapsedMs: number;
  readonly metrics: Counted;
  /** The logged reasons for not running. */
  readonly refused: readonly unknown[];
}> {
  const clock = createVirtualClock(0);
  const metrics = countedMetrics();
  const did: string[] = [];
  const outcomes: Outcome[] = [];
  const left = [...takes];
  const renewals = [...renews];
  const log = (message: string, fields: object = {}): void => void did.push(`log ${message} ${JSON.stringify(fields)}`);
  const refused: unknown[] = [];
  const debug: Log["debug"] = (message, fields) => void (message === "key not synced" && refused.push(fields?.["why"]));
  // The dependencies that the worker itself calls; the test supplies the handler.
  const ports = {
    store: {
      take: async (_: unknown, known: object) => {
        did.push(`take ${JSON.stringify(known)}`);
        return left.shift() ?? { kind: "empty" };
      },
      renew: async () => {
        did.push(`renew at ${clock.now()}`);
        const answer = renewals.shift() ?? 1;
        if (answer instanceof Error) throw answer;
        return renews.includes(undefined) ? undefined : answer;
      },
      correlateEvents: async () => (did.push("correlateEvents"), [{ nanos: "1", count: told, isCombined: false, isHeldBack: false }]),
      done: async (_: unknown, outcome: Outcome) => {
        outcomes.push(outcome);
        return done ?? { kind: "done", failures: 0, bell: { ...bell, delayMs: 7 } };
      },
    },
    doorbells: {
      ring: async (bells: readonly Doorbell[]) => {
        for (const each of bells) did.push(`ring ${each.delayMs}`);
        await ring?.();
      },
    },
    reader: {},
    gateway: {
      mode: "act",
      forRun: () => ({
        create: async ({ retryBudget }: CreateRequest) => hear?.(retryBudget),
        patch: async ({ retryBudget }: PatchRequest) => hear?.(retryBudget),
        delete: async ({ retryBudget }: DeleteRequest) => hear?.(retryBudget),
      }),
    },
    clock,
    digester: createDigester("key"),
    random: createSeededRandom(1),
    log: { debug, info: () => {}, warn: log, error: log },
    metrics,
  } as unknown as WorkerPorts;
  let ended = false;
  const run = runKey(ports, "deployment", bell, inSession(sync), options).finally(() => (ended = true));
  for (let i = 0; !ended && i < 2_000; i++) await clock.advance(i < 20 ? 0 : 50);
  await run;
  return { did, outcomes, elapsedMs: clock.now(), metrics, refused };
}

/** Suspends the process as SIGSTOP and SIGCONT do: the time jumps, and then timers fire. */
const paused =
  (pauseMs: number, mayWrite: boolean[]): SyncHandler =>
  async (session) => {
    const { clock } = session;
    const ended = clock.after(6_000);
    Object.assign(clock, {
      now: (
        (now) => () =>
          now() + pauseMs
      )(clock.now),
    });
    await ended;
    mayWrite.push(session.mayWrite());
    return { kind: "done" };
  };

const wait =
  (clockMs: number): SyncHandler =>
  async (session) => {
    await session.clock.after(clockMs);
    return { kind: "done" };
  };

describe("runKey", () => {
  it.each([
    { take: { kind: "busy" }, why: "another run holds it; the end of that run requeues it if needed" },
    { take: { kind: "empty" }, why: "it was synced already" },
    { take: { kind: "gated", reason: "pods: INIT" }, why: "pods: INIT" },
    { take: { kind: "otherEpoch" }, why: "the doorbell is of another epoch" },
  ] as const)("WK1 returns when there is nothing to do ($take.kind), and logs the reason", async ({ take, why }) => {
    expect(await play({ takes: [take] })).toMatchObject({ did: ['take {"uid":"u1"}'], outcomes: [], refused: [why] });
  });

  it("WK6 does not run the handler while the guard has stopped the key, and logs which controller is active", async () => {
    const write = { resource: "deployments", key: "shop/web", manager: "kube-controller-manager", atMs: 5_000 } as const;
    const { did, outcomes, metrics } = await play({ takes: [{ kind: "stopped", stop: { kind: "seen", write, sinceMs: 5_100 } }] });
    expect(did).toEqual([
      'take {"uid":"u1"}',
      'log key not synced until you run deltaloop resume: another controller writes {"key":"shop/web","controller":"deployment","why":"stopped since 1970-01-01T00:00:05.100Z: kube-controller-manager wrote the status of deployments shop/web at 1970-01-01T00:00:05.000Z"}',
    ]);
    expect(outcomes).toEqual([]);
    expect(metrics.sums["deltaloop_doorbells_total{controller=deployment,result=stopped}"]).toBe(1);
  });

  it.each([
    { pauseMs: LEASE_MS - RENEWAL_MS - 1, renewed: true },
    { pauseMs: LEASE_MS - RENEWAL_MS, renewed: false },
  ])("renews the lease only if it has not expired while the process was paused for $pauseMs ms: $renewed", async ({ pauseMs, renewed }) => {
    const mayWrite: boolean[] = [];
    const { did } = await play({ takes: [ok], sync: paused(pauseMs, mayWrite) });
    expect(did.some((each) => each.startsWith("renew"))).toBe(renewed);
    expect(mayWrite).toEqual([renewed]);
  });

  it("WK6 starts no call after a renewal reports another active controller, and requeues the key without counting a failure", async () => {
    const mayWrite: boolean[] = [];
    const sync: SyncHandler = async (session) => {
      mayWrite.push(session.mayWrite());
      await session.clock.after(6_000);
      mayWrite.push(session.mayWrite());
      throw new LeaseEndsError();
    };
    const { did, outcomes } = await play({ takes: [ok], sync, renews: ["stopped"] });
    expect(mayWrite).toEqual([true, false]);
    expect(outcomes).toEqual([{ kind: "requeueAfter", delayMs: 0 }]);
    expect(did).toEqual([
      'take {"uid":"u1"}',
      "renew at 5000",
      'log sync aborted, key requeued: another controller writes {"key":"shop/web","controller":"deployment"}',
      "ring 7",
    ]);
    expect((await play({ takes: [ok], sync: wait(6_000), renews: ["stopped"] })).outcomes).toEqual([{ kind: "ok" }]);
  });

  it("takes the key again if the primary was replaced, with the uids returned, at most four times", async () => {
    const moved: TakeResult = { kind: "moved", uid: "u2", owner: "o" };
    expect((await play({ takes: [moved, ok] })).did).toEqual(['take {"uid":"u1"}', 'take {"uid":"u2","owner":"o"}', "ring 7"]);
    expect((await play({ takes: [{ kind: "moved" }, ok] })).did[1]).toBe("take {}");
    const storm = await play({ takes: Array.from({ length: 9 }, () => moved) });
    expect([storm.did.length, storm.outcomes]).toEqual([4, []]);
  });

  it("WK2 waits for delays below a second, up to 1.5 s in total, and sends a doorbell for longer delays", async () => {
    const notYet = (delayMs: number): TakeResult => ({ kind: "notYet", delayMs, bell });
    expect(await play({ takes: [notYet(900), ok] })).toMatchObject({
      did: ['take {"uid":"u1"}', 'take {"uid":"u1"}', "ring 7"],
      outcomes: [{ kind: "ok" }],
    });
    expect(await play({ takes: [notYet(1_000)] })).toMatchObject({
      did: ['take {"uid":"u1"}', "ring 1000"],
      refused: ["it is due later; its doorbell was sent again with that delay"],
    });
    expect((await play({ takes: [notYet(900), notYet(600), notYet(1), ok] })).did.at(-1)).toBe("ring 1");
  });

  it("WK3 renews the key's lease every 5 s until the handler returns", async () => {
    const { did } = await play({ takes: [ok], sync: wait(12_000) });
    expect(did.filter((each) => each.startsWith("renew"))).toEqual(["renew at 5000", "renew at 10000"]);
  });

  it("WK3 allows no calls if the lease or the invocation ends within the request timeout plus 1 s", async () => {
    const answers: string[] = [];
    const watch =
      (times: readonly number[]): SyncHandler =>
      async ({ clock, mayWrite }) => {
        for (const ms of times) {
          await clock.after(ms - clock.now());
          answers.push(`${clock.now()} ${mayWrite()}`);
        }
        return { kind: "done" };
      };
    const error = new Error("redis is unavailable");
    await play({ takes: [ok], sync: watch([1, 11_950, 12_000]), renews: [error, error, error] });
    await play({ takes: [ok], sync: watch([1, 3_950, 4_000]), options: { invocationEndsMs: 17_000 } });
    await play({ takes: [ok], sync: watch([1, 6_000]), renews: [undefined] });
    expect(answers).toEqual(["1 true", "11950 true", "12000 false", "1 true", "3950 true", "4000 false", "1 true", "6000 false"]);
  });

  it("WK4 passes the handler's outcome to the Store", async () => {
    const end = async (sync: SyncHandler, options?: WorkerOptions, failures = 0): Promise<Outcome | undefined> =>
      (await play({ takes: [{ ...ok, snapshot: { ...snapshot, failures } }], sync, ...(options && { options }) })).outcomes[0];
    const fail =
      (error: Error): SyncHandler =>
      async () => {
        throw error;
      };
    expect(await end(async () => ({ kind: "done" }))).toEqual({ kind: "ok" });
    expect(await end(async () => ({ kind: "again", afterMs: 700 }))).toEqual({ kind: "requeueAfter", delayMs: 700 });
    expect(await end(fail(new Error("x")))).toEqual({ kind: "retry" });
    expect(await end(fail(new TerminalError("x")))).toEqual({ kind: "drop" });
    const failed = (error: Error, afterMs: number): SyncHandler => {
      return async () => ({ kind: "failed", error, afterMs });
    };
    expect(await end(failed(new Error("x"), 700))).toEqual({ kind: "retry", withinMs: 700 });
    expect(await end(failed(new Error("x"), -1))).toEqual({ kind: "retry", withinMs: 0 });
    expect(await end(failed(new TerminalError("x"), 700))).toEqual({ kind: "drop" });
    expect(await end(fail(new Error("x")), { maxRetries: 15 }, 14)).toEqual({ kind: "retry" });
    expect(await end(fail(new Error("x")), { maxRetries: 15 }, 15)).toEqual({ kind: "drop" });
  });

  it("logs a failure with key and reason, but only code and reason of an API server error", async () => {
    const error = new KubeApiError({ code: 422, reason: "Invalid", message: "env value hunter2 is invalid" });
    const { did } = await play({
      takes: [ok],
      sync: async () => {
        throw error;
      },
    });
    expect(did.join()).toContain('"key":"shop/web"');
    expect(did.join()).toContain("422 Invalid");
    expect(did.join()).not.toContain("hunter2");
  });

  it("WK5 [informer T69b] fails a key without running it after three runs died in a row, and drops it at the retry limit", async () => {
    let runs = 0;
    const sync: SyncHandler = async () => {
      runs++;
      return { kind: "done" };
    };
    const died = (unended: number, failures = 0, kind: "ok" | "recover" = "ok"): TakeResult => ({
      kind,
      snapshot: { ...snapshot, failures, unended },
      leaseUntilMs: 0,
    });
    expect(await play({ takes: [died(2)], sync })).toMatchObject({ outcomes: [{ kind: "ok" }] });
    expect(runs).toBe(1);
    for (const kind of ["ok", "recover"] as const) {
      const { did, outcomes } = await play({ takes: [died(3, 4, kind)], sync });
      expect(outcomes).toEqual([{ kind: "retry" }]);
      expect(did[1]).toMatch(
        /^log sync failed \{"key":"shop\/web","controller":"deployment","attempt":5,"reason":".*3 consecutive runs did not finish/,
      );
    }
    const last = await play({ takes: [died(3, 15)], sync, options: { maxRetries: 15 } });
    expect(last.outcomes).toEqual([{ kind: "drop" }]);
    expect(last.did[1]).toMatch(/^log sync failed, key dropped .*"key":"shop\/web"/);
    expect(runs).toBe(1);
  });

  it("logs a doorbell that cannot be sent, and a key that another run has taken over", async () => {
    const lost = await play({
      takes: [ok],
      ring: async () => {
        throw new Error("sqs");
      },
    });
    expect(lost.did.at(-1)).toContain("failed to ring doorbells");
    const stolen = await play({ takes: [ok], done: { kind: "stolen" } });
    expect(stolen.did.at(-1)).toContain("took over the key");
  });

  it("[informer T124] sends the doorbell that a repeated done() returns", async () => {
    const again = await play({ takes: [ok], done: { kind: "ended", bell: { ...bell, delayMs: 5 } } });
    expect(again.did.slice(1)).toEqual(["ring 5"]);
    expect((await play({ takes: [ok], done: { kind: "ended" } })).did.slice(1)).toEqual([]);
  });
});

describe("the retry budget of a run", () => {
  /** Returns the run's remaining retry budget at `atMs`, as `waitMsMax mayStart`. */
  async function told(
    atMs: readonly number[],
    { call = "delete", ...scene }: Omit<Scene, "takes" | "sync" | "hear"> & { readonly call?: "delete" | "event" } = {},
  ): Promise<readonly string[]> {
    const answers: string[] = [];
    let retryBudget: RetryBudget | undefined;
    const owner: Owner = { resource: "deployments", namespace: "shop", name: "web", uid: "u1" };
    let ask = (): Promise<void> => Promise.resolve();
    const sync: SyncHandler = async ({ clock, mayWrite, perform, emit }) => {
      ask = async () => {
        for (const ms of atMs) {
          await clock.after(ms - clock.now());
          answers.push(`${retryBudget?.waitMsMax()} ${retryBudget?.mayStart()}`);
          expect(retryBudget?.mayStart()).toBe(mayWrite());
        }
      };
      if (call === "event") emit(owner, [{ type: "Normal", reason: "Scaled", message: "up" }]);
      else await perform([{ kind: "DeleteReplicaSet", owner, name: "web-1", uid: "rs-1", resourceVersion: "1" }]);
      if (call !== "event") await ask();
      return { kind: "done" };
    };
    // The recorder sends an Event after the handler has ended, so the budget is read while the Event is being sent.
    const hear = async (given: RetryBudget | undefined): Promise<void> => {
      retryBudget = given;
      if (call === "event") await ask();
    };
    await play({ takes: [ok], sync, hear, ...scene });
    return answers;
  }

  it("the retry budget ends one request timeout before the invocation ends, because the lease is renewed until then", async () => {
    expect(await told([1, 20_000, 46_999, 47_000], { options: { invocationEndsMs: 60_000 } })).toEqual([
      "46999 true",
      "27000 true",
      "1 true",
      "0 false",
    ]);
  });

  it("starts no call after a renewal has failed, however much time is left", async () => {
    const error = new Error("redis is unavailable");
    expect(await told([11_999, 12_000], { renews: [error, error, error], options: { invocationEndsMs: 60_000 } })).toEqual([
      "35001 true",
      "35000 false",
    ]);
  });

  it("the retry budget is at most a minute, and at most 10 s for an Event", async () => {
    expect(await told([1])).toEqual(["60000 true"]);
    for (const times of [1, 2])
      expect(await told([1, 4_000, 11_000], { call: "event", told: times })).toEqual(["9999 true", "6000 true", "0 true"]);
  });

  it("sends no Event after the budget has ended, and does not call the Store for one", async () => {
    let calls = 0;
    const sync: SyncHandler = async ({ clock, mayWrite, emit }) => {
      emit({ resource: "deployments", namespace: "shop", name: "web", uid: "u1" }, [{ type: "Normal", reason: "Scaled", message: "up" }]);
      await clock.after(10_000);
      expect(mayWrite()).toBe(false);
      return { kind: "done" };
    };
    const { did } = await play({ takes: [ok], sync, hear: () => calls++, options: { invocationEndsMs: 20_000 } });
    expect(calls).toBe(0);
    expect(did).not.toContain("correlateEvents");
  });
});

describe("metrics of a run", () => {
  it("count as upstream's work queue does, by the outcome of take and handler", async () => {
    const { metrics } = await play({ takes: [{ kind: "moved", uid: "u2" }, ok], sync: wait(2_000), options: { rungMs: -500 } });
    expect(metrics.sums).toEqual({
      "deltaloop_doorbells_total{controller=deployment,result=moved}": 1,
      "deltaloop_doorbells_total{controller=deployment,result=ok}": 1,
      "deltaloop_syncs_total{controller=deployment,outcome=ok}": 1,
      "workqueue_adds_total{name=deployment}": 1,
    });
    expect(metrics.observed).toEqual({
      "workqueue_queue_duration_seconds{name=deployment}": [0.5],
      "workqueue_work_duration_seconds{name=deployment}": [2],
    });
  });

  it("count a failed sync as a retry, and a sync that only recovers expired operations as a stale-sync skip", async () => {
    const failing: SyncHandler = async () => Promise.reject(new Error("no"));
    expect((await play({ takes: [ok], sync: failing })).metrics.sums["workqueue_retries_total{name=deployment}"]).toBe(1);
    const recovered = await play({ takes: [{ kind: "recover", snapshot, leaseUntilMs: 0 }] });
    expect(recovered.metrics.sums["replicaset_controller_stale_sync_skips_total{group=apps,resource=deployments}"]).toBe(1);
  });

  it("do not count a delayed doorbell as an add, or a closed gate as a sync", async () => {
    const later = await play({ takes: [{ kind: "notYet", delayMs: 5_000, bell }] });
    expect(later.metrics.sums).toEqual({ "deltaloop_doorbells_total{controller=deployment,result=notYet}": 1 });
    const gated = await play({ takes: [{ kind: "gated", reason: "r" }] });
    expect(gated.metrics.sums).toEqual({ "deltaloop_doorbells_total{controller=deployment,result=gated}": 1 });
  });
});
