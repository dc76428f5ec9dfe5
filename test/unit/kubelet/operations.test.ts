/**
 * Steps that outlive a turn.
 *
 * Catches: a step begun twice; an outcome that nobody gets, or two turns get; a pod that nobody wakes when its step ends; a kill that
 * waits for an image pull.
 */
import { beforeEach, describe, expect, it } from "vitest";
import { createVirtualClock } from "../../../shared/adapters/memory/clock.ts";
import { Operations } from "../../../shared/kubelet/operations.ts";

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

  it("O2 gives a turn that stands by the outcome, and wakes nobody", async () => {
    expect(await operations.run({ uid: "u", name: "pull", waitMs: 10, act: () => Promise.resolve("image") })).toEqual({
      kind: "done",
      value: "image",
    });
    const failed = await operations.run({ uid: "u", name: "pull", waitMs: 10, act: () => Promise.reject(new Error("no")) });
    expect(failed).toEqual({ kind: "failed", error: new Error("no") });
    await settled();
    expect([woken, operations.names("u")]).toEqual([[], []]);
  });

  it("O1 O2 runs on after a turn has ended, wakes its pod, and hands the outcome to the next turn, once", async () => {
    const { promise, resolve } = gate();
    let begun = 0;
    const ask = () => operations.run({ uid: "u", name: "pull", waitMs: 10, act: () => (begun++, promise) });
    const first = ask();
    await settled();
    await clock.advance(10);
    expect(await first).toEqual({ kind: "running" });
    expect(operations.names("u")).toEqual(["pull"]);
    resolve("image");
    await settled();
    expect([woken, operations.names("u")]).toEqual([["u"], []]);
    expect([await ask(), begun]).toEqual([{ kind: "done", value: "image" }, 1]);
    const again = ask();
    await settled();
    expect([await again, begun]).toEqual([{ kind: "done", value: "image" }, 2]);
  });

  it("O3 cancel ends the wait at once, and what can be aborted", async () => {
    const kill = gate();
    const killing = operations.run({ uid: "u", name: "kill", waitMs: 1_000, act: () => kill.promise });
    const pulling = operations.run({
      uid: "u",
      name: "pull",
      waitMs: 1_000,
      abortable: true,
      act: (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    });
    const other = operations.run({ uid: "v", name: "kill", waitMs: 1_000, act: () => kill.promise });
    await settled();
    operations.cancel("u");
    expect(await killing).toEqual({ kind: "running" });
    expect((await pulling).kind).not.toBe("done");
    await settled();
    expect([operations.names("u"), operations.names("v")]).toEqual([["kill"], ["kill"]]);
    kill.resolve("ended");
    expect(await other).toEqual({ kind: "done", value: "ended" });
  });

  it("forgets outcomes that nobody fetched", async () => {
    const { promise, resolve } = gate();
    const first = operations.run({ uid: "u", name: "pull", waitMs: 1, act: () => promise });
    await settled();
    await clock.advance(1);
    await first;
    operations.forget("u");
    resolve("late");
    await settled();
    expect(operations.names("u")).toEqual([]);
  });
});
