/**
 * Operations that outlive an iteration.
 *
 * Catches: an operation that is started twice, a result that no iteration or more than one gets, a pod that is not enqueued when its
 * operation ends, and a kill that waits for an image pull.
 */
import { beforeEach, describe, expect, it } from "vitest";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import { Operations, Pause } from "../../../../shared/node-agent/kubelet/node-ports/operations.ts";

const PULL = { uid: "u", name: "pull", pause: "it is being pulled" } as const;
const KILL = { uid: "u", name: "kill", pause: "it is ending" } as const;

/** Returns whether the iteration learns that the operation continues. */
async function paused(running: Promise<unknown>): Promise<boolean> {
  return await running.then(
    () => false,
    (error: unknown) => error instanceof Pause,
  );
}

describe("operations", () => {
  const woken: string[] = [];
  let clock: ReturnType<typeof createVirtualClock>;
  let operations: Operations;
  beforeEach(() => {
    woken.length = 0;
    clock = createVirtualClock(0);
    operations = new Operations(clock, (uid) => woken.push(uid));
  });
  const gate = () => Promise.withResolvers<string>();
  const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  it("OP2 returns the outcome to a waiting sync iteration, and does not enqueue the pod", async () => {
    expect(await operations.run({ ...PULL, waitMs: 10, act: () => Promise.resolve("image") })).toBe("image");
    const act = (): Promise<never> => Promise.reject(new Error("no"));
    await expect(operations.run({ ...PULL, waitMs: 10, act })).rejects.toThrow(new Error("no"));
    const orElse = async (error: unknown): Promise<never> => {
      throw new Error("worse", { cause: error });
    };
    await expect(operations.run({ ...PULL, waitMs: 10, act, orElse })).rejects.toThrow(new Error("worse", { cause: new Error("no") }));
    await settled();
    expect([woken, operations.names("u")]).toEqual([[], []]);
  });

  it("OP1 OP2 an operation continues after its sync iteration has ended, enqueues its pod, and returns the outcome once to the next one", async () => {
    const { promise, resolve } = gate();
    let begun = 0;
    const ask = () => operations.run({ ...PULL, waitMs: 10, act: () => (begun++, promise) });
    const first = paused(ask());
    await settled();
    await clock.advance(10);
    expect(await first).toBe(true);
    expect(operations.names("u")).toEqual(["pull"]);
    resolve("image");
    await settled();
    expect([woken, operations.names("u")]).toEqual([["u"], []]);
    expect([await ask(), begun]).toEqual(["image", 1]);
    const again = ask();
    await settled();
    expect([await again, begun]).toEqual(["image", 2]);
  });

  it("OP3 cancel ends the wait immediately, and aborts an abortable operation", async () => {
    const kill = gate();
    const killing = paused(operations.run({ ...KILL, waitMs: 1_000, act: () => kill.promise }));
    const pulling = Promise.allSettled([
      operations.run({
        ...PULL,
        waitMs: 1_000,
        abortable: true,
        act: (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
      }),
    ]);
    const other = operations.run({ ...KILL, uid: "v", waitMs: 1_000, act: () => kill.promise });
    await settled();
    operations.cancel("u");
    expect(await killing).toBe(true);
    expect(await pulling).toMatchObject([{ status: "rejected" }]);
    await settled();
    expect([operations.names("u"), operations.names("v")]).toEqual([["kill"], ["kill"]]);
    kill.resolve("ended");
    expect(await other).toBe("ended");
  });

  it("drops an outcome that arrives after the pod was forgotten", async () => {
    const { promise, resolve } = gate();
    const first = paused(operations.run({ ...PULL, waitMs: 1, act: () => promise }));
    await settled();
    await clock.advance(1);
    expect(await first).toBe(true);
    operations.forget("u");
    resolve("late");
    await settled();
    expect(operations.names("u")).toEqual([]);
  });
});
