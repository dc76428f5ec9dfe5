/** Intents and their recovery (informer §13 layers 1 and 4; IT1–IT4). */
import { expect, it as base } from "vitest";

import type { Intent, Taken } from "../../../shared/store/ports/store.ts";
import { EXPECTATION_MS, LEASE_MS, MAY_LAND_MS, OP_DEADLINE_MS as DEADLINE_MS } from "../../../shared/base/times.ts";
import { asOwner, cachedPod, cachedReplicaSet, effect, ownedBy, put, remove } from "../../support/builders.ts";
import type { OpenStore } from "../store.ts";
import { rung, type StoreHarness } from "../../harness/store/store.ts";

const KEY = "shop/web";
const C = "replicaset";
const rs = cachedReplicaSet({ resourceVersion: "5" });
const UID = rs.metadata.uid;
const OWNER = asOwner("replicaset", rs);
const create = (name: string) => ({ id: `c:${name}`, verb: "create", name }) as const;
const destroy = (name: string) => ({ id: `d:uid-${name}`, verb: "delete", name, uid: `uid-${name}` }) as const;
const owned = (name: string, resourceVersion: string) => cachedPod({ name, resourceVersion, owner: ownedBy("ReplicaSet", rs) });

export function intentCases(open: OpenStore): void {
  const it = base
    .extend("started", async () => await running())
    .extend("harness", ({ started }) => started.harness)
    .extend("run", ({ started }) => started.run);
  /** A ReplicaSet, and a run of its key. */
  const running = async (): Promise<{ readonly harness: StoreHarness; readonly run: Taken }> => {
    const harness = await (await open()).synced();
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    const { run } = await again(harness);
    return { harness, run };
  };
  const again = async (harness: StoreHarness) => {
    await harness.store.add(harness.epoch, C, KEY, 0);
    return harness.taken(C, KEY);
  };
  /** Returns the pending intents, as a new run reads them; `run` must have ended. */
  const standing = async (harness: StoreHarness): Promise<readonly Intent[]> => {
    const { run, snapshot } = await again(harness);
    await harness.store.done(run, { kind: "ok" });
    return snapshot.intents;
  };
  const stamps = async (harness: StoreHarness) => (await standing(harness)).map((op) => [op.id, op.deadlineMs]);
  const lowers = (...ops: readonly string[]) => ({ lowers: ops.map((op) => ({ owner: OWNER, op })) });

  it("registers pending intents with a deadline of 15 s, and ignores a repeated registration", async ({ harness, run }) => {
    const ops = [create("a"), destroy("b")];
    for (let time = 0; time < 2; time++) {
      expect(await harness.store.registerIntents(run, UID, ops)).toBe("ok");
      await harness.pass(1_000);
    }
    await harness.store.done(run, { kind: "ok" });
    const deadlineMs = harness.now() - 1_000 + DEADLINE_MS;
    expect(await standing(harness)).toEqual(ops.map((op) => ({ ...op, state: "pending", token: run.token, deadlineMs })));
  });

  it("IT1 registers nothing without the key's lease, or for a uid other than the key's", async ({ harness, run }) => {
    expect(await harness.store.registerIntents({ ...run, token: "other" }, UID, [create("a")])).toBe("stolen");
    expect(await harness.store.registerIntents(run, "other-uid", [create("a")])).toBe("stolen");
    await harness.seed("replicasets", [put(cachedReplicaSet({ uid: "rs2", resourceVersion: "9" }), { counted: true })]);
    expect(await harness.store.registerIntents(run, UID, [create("a")])).toBe("stolen");
    await harness.seed("replicasets", [remove(cachedReplicaSet({ uid: "rs2" }), "10", { counted: true })]);
    expect(await harness.store.registerIntents(run, "rs2", [create("a")])).toBe("stolen");
    await harness.seed("replicasets", [put(cachedReplicaSet({ resourceVersion: "12" }), { counted: true })]);
    await harness.store.done(run, { kind: "ok" });
    expect(await standing(harness)).toEqual([]);
  });

  it("IT2 [informer T76] a watch event lowers an intent once, by name or uid, and enqueues the key that registered it", async ({
    harness,
    run,
  }) => {
    await harness.store.registerIntents(run, UID, [create("a"), destroy("b"), create("c")]);
    await harness.store.done(run, { kind: "ok" });
    const sequence = harness.nextSequence("pods");
    const items = [put(owned("a", "10"), lowers("c:a", "d:uid-a")), put(owned("b", "11"), lowers("c:b", "d:uid-b"))];
    expect(rung(await harness.deliver("pods", items, { sequence }))).toEqual([`${C} ${KEY}`]);
    expect((await standing(harness)).map((op) => op.id)).toEqual(["c:c"]);
    for (const again of [await harness.deliver("pods", items, { sequence }), await harness.deliver("pods", items)])
      expect(rung(again)).toEqual([]);
    expect((await standing(harness)).map((op) => op.id)).toEqual(["c:c"]);
  });

  it("IT2 [replicaset 19] events without an intent count for no other intent: 11 creations for 10 intents leave 30 deletions pending", async ({
    harness,
    run,
  }) => {
    const names = (prefix: string, count: number) => Array.from({ length: count }, (_, i) => `${prefix}${i}`);
    const [made, doomed] = [names("m", 10), names("d", 30)];
    await harness.store.registerIntents(run, UID, [...made.map(create), ...doomed.map(destroy)]);
    await harness.store.done(run, { kind: "ok" });
    const created = [...made, "stray"].map((name, i) => put(owned(name, `${10 + i}`), lowers(`c:${name}`)));
    await harness.deliver("pods", created);
    expect((await standing(harness)).map((op) => op.name)).toEqual(expect.arrayContaining(doomed));
    expect(await standing(harness)).toHaveLength(30);
    const ended = [...doomed, "stray"].map((name, i) => remove(owned(name, `${30 + i}`), `${30 + i}`, lowers(`d:uid-${name}`)));
    await harness.deliver("pods", ended);
    expect(await standing(harness)).toEqual([]);
    // A surplus observation does not settle the next intent either.
    const { run: next } = await again(harness);
    await harness.store.registerIntents(next, UID, [create("next")]);
    await harness.store.done(next, { kind: "ok" });
    expect((await standing(harness)).map((op) => op.name)).toEqual(["next"]);
  });

  it("IT2 an event that lowers no intent does not enqueue the owner", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [create("c")]);
    await harness.store.done(run, { kind: "ok" });
    const others = {
      lowers: [
        { owner: "other", op: "c:c" },
        { owner: OWNER, op: "c:other" },
        { owner: OWNER, op: "d:c" },
      ],
    };
    expect(rung(await harness.deliver("pods", [put(owned("c", "10"), others)]))).toEqual([]);
    expect(await standing(harness)).toHaveLength(1);
  });

  it("lowering the run's own intents does not enqueue its key, even after rejected creates", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [create("a"), create("b")]);
    const answer = await harness.writeThrough(run, "pods", [], { ownerUid: UID, lower: ["c:a", "c:b", "c:none"] });
    expect(answer).toEqual({ kind: "ok", bells: [], outcomes: [] });
    expect(await harness.dirty(C)).toEqual([]);
    expect(await harness.store.done(run, { kind: "retry" })).toMatchObject({ bell: { delayMs: 5 } });
    expect(await standing(harness)).toEqual([]);
  });

  it("[informer T73] responses to the run's own calls lower their intents and are cached immediately", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [create("a"), create("b"), create("c")]);
    const items = ["a", "b", "c"].map((name, index) => put(owned(name, `${index + 10}`), lowers(`c:${name}`)));
    expect(await harness.writeThrough(run, "pods", items, { ownerUid: UID })).toMatchObject({
      kind: "ok",
      outcomes: ["changed", "changed", "changed"],
    });
    await harness.store.done(run, { kind: "ok" });
    const { snapshot } = await again(harness);
    expect([snapshot.dependents.length, snapshot.intents.length]).toEqual([3, 0]);
  });

  it("IT1 a run lowers and re-plans only intents that it registered", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [create("a"), create("b")]);
    await harness.store.done(run, { kind: "ok" });
    const other = await again(harness);
    await harness.writeThrough(other.run, "pods", [], { ownerUid: UID, lower: ["c:a"], plan: [{ id: "c:b", mayLand: true }] });
    await harness.store.done(other.run, { kind: "ok" });
    expect((await standing(harness)).map((op) => [op.id, op.state])).toEqual([
      ["c:a", "pending"],
      ["c:b", "pending"],
    ]);
  });

  it("a create that must not be repeated blocks the key for upstream's expectation timeout, and is then looked up", async ({
    harness,
    run,
  }) => {
    await harness.store.registerIntents(run, UID, [create("a"), create("b")]);
    await harness.writeThrough(run, "pods", [], { ownerUid: UID, lower: ["c:b"], hold: ["c:a", "c:b", "c:x"] });
    const untilMs = harness.now() + EXPECTATION_MS;
    await harness.writeThrough(run, "pods", [], { ownerUid: UID, lower: ["c:none"] });
    await harness.store.done(run, { kind: "ok" });
    expect(await standing(harness)).toMatchObject([{ id: "c:a", state: "pending", deadlineMs: untilMs }]);
    await harness.pass(EXPECTATION_MS - 1);
    expect(await standing(harness)).toHaveLength(1);
    await harness.pass(1);
    await harness.store.add(harness.epoch, C, KEY, 0);
    const { kind, snapshot } = await harness.taken(C, KEY);
    expect([kind, snapshot.intents.map((op) => op.id)]).toEqual(["recover", ["c:a"]]);
  });

  it("does not extend the deadline of an intent of another run on request", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [create("a")]);
    await harness.store.done(run, { kind: "ok" });
    const other = await again(harness);
    await harness.writeThrough(other.run, "pods", [], { ownerUid: UID, hold: ["c:a"] });
    await harness.store.done(other.run, { kind: "ok" });
    expect((await standing(harness)).map((op) => op.deadlineMs)).toEqual(other.snapshot.intents.map((op) => op.deadlineMs));
  });

  it("an unanswered create becomes a planned intent with the time until which it may still take effect", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [create("a"), { ...create("b"), mayLandUntilMs: 77 }, create("c")]);
    await harness.pass(5_000);
    const landsUntil = harness.now() + MAY_LAND_MS;
    await harness.writeThrough(run, "pods", [], {
      ownerUid: UID,
      plan: [
        { id: "c:a", mayLand: true },
        { id: "c:b", mayLand: false },
        { id: "c:c", mayLand: false },
      ],
    });
    await harness.store.done(run, { kind: "retry" });
    expect(await standing(harness)).toMatchObject([
      { id: "c:a", state: "planned", mayLandUntilMs: landsUntil },
      { id: "c:b", state: "planned", mayLandUntilMs: 77 },
      { id: "c:c", state: "planned" },
    ]);
    const [, , c] = await standing(harness);
    expect(c?.mayLandUntilMs).toBeUndefined();
  });

  it("does not re-plan an intent that a watch event has already lowered", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [create("a")]);
    await harness.seed("pods", [put(owned("a", "10"), lowers("c:a"))]);
    await harness.writeThrough(run, "pods", [], { ownerUid: UID, plan: [{ id: "c:a", mayLand: true }] });
    await harness.store.done(run, { kind: "retry" });
    expect(await standing(harness)).toEqual([]);
  });

  it("planned intents have no deadline, and neither block a sync nor need recovery", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [create("a")]);
    await harness.writeThrough(run, "pods", [], { ownerUid: UID, plan: [{ id: "c:a", mayLand: false }] });
    await harness.store.done(run, { kind: "ok" });
    await harness.pass(60_000);
    const next = await again(harness);
    expect([next.kind, next.snapshot.intents.map((op) => op.state)]).toEqual(["ok", ["planned"]]);
    expect(await harness.dirty(C)).toEqual([]);
  });

  it("IT3 a snapshot has unexpired intents of an earlier run, and the key becomes due at their first deadline", async ({
    harness,
    run,
  }) => {
    await harness.store.registerIntents(run, UID, [create("a")]);
    await harness.pass(1_000);
    await harness.store.done(run, { kind: "ok" });
    const next = await again(harness);
    expect([next.kind, next.snapshot.intents.map((op) => op.id)]).toEqual(["ok", ["c:a"]]);
    expect(await harness.readyIn(C, KEY)).toBe(DEADLINE_MS - 1_000);
    expect(await harness.store.done(next.run, { kind: "ok" })).toMatchObject({ bell: { delayMs: DEADLINE_MS - 1_000 } });
  });

  it("IT3 [replicaset 20] [informer T74] [informer T77] recovers expired intents of any age before a decision", async () => {
    for (const age of [LEASE_MS, 300_000]) {
      const { harness, run } = await running();
      await harness.store.registerIntents(run, UID, [create("a"), destroy("b")]);
      await harness.pass(age); // the function was killed with SIGKILL
      const next = await harness.taken(C, KEY);
      expect(next.kind).toBe("recover");
      expect(next.snapshot.primary?.uid).toBe(UID);
      expect(next.snapshot.intents.map((op) => op.id)).toEqual(["c:a", "d:uid-b"]);
      // Pod a exists, pod b does not.
      const found = put(owned("a", "10"), lowers("c:a"));
      expect(await harness.writeThrough(next.run, "pods", [found], { ownerUid: UID, lower: ["c:a", "d:uid-b"] })).toMatchObject({
        kind: "ok",
      });
      expect(await harness.store.done(next.run, { kind: "requeueAfter", delayMs: 0 })).toMatchObject({ bell: { delayMs: 0 } });
      const after = await harness.taken(C, KEY);
      expect([after.kind, after.snapshot.intents, after.snapshot.dependents.map((row) => row.key)]).toEqual(["ok", [], ["shop/a"]]);
    }
  });

  it("IT3 recovery returns only expired intents, and keeps a create whose object is missing as planned", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [create("a")]);
    await harness.pass(1_000);
    await harness.store.done(run, { kind: "ok" });
    const second = await again(harness);
    await harness.store.registerIntents(second.run, UID, [create("b")]);
    await harness.store.done(second.run, { kind: "ok" });
    await harness.pass(DEADLINE_MS - 1_000);
    const third = await harness.taken(C, KEY);
    expect([third.kind, third.snapshot.intents.map((op) => op.id)]).toEqual(["recover", ["c:a"]]);
    await harness.writeThrough(third.run, "pods", [], { ownerUid: UID, plan: [{ id: "c:a", mayLand: false }], lower: ["c:b"] });
    await harness.store.done(third.run, { kind: "ok" });
    expect((await standing(harness)).map((op) => [op.id, op.state])).toEqual([
      ["c:a", "planned"],
      ["c:b", "pending"],
    ]);
  });

  it("IT1 rejects the recovery of a run that lost its key", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [create("a"), create("b")]);
    await harness.pass(LEASE_MS);
    const frozen = await harness.taken(C, KEY);
    await harness.pass(LEASE_MS);
    const holder = await harness.taken(C, KEY);
    expect([frozen.kind, holder.kind]).toEqual(["recover", "recover"]);
    for (const late of [run, frozen.run])
      await harness.writeThrough(late, "pods", [], { ownerUid: UID, lower: ["c:a"], plan: [{ id: "c:b", mayLand: true }] });
    await harness.writeThrough(holder.run, "pods", [], { ownerUid: UID, lower: ["c:b"] });
    await harness.store.done(holder.run, { kind: "ok" });
    expect((await standing(harness)).map((op) => [op.id, op.state])).toEqual([["c:a", "pending"]]);
  });

  it("a registration restarts the deadlines of the run's pending intents", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [create("a"), create("b"), create("p")]);
    await harness.writeThrough(run, "pods", [], { ownerUid: UID, plan: [{ id: "c:p", mayLand: false }] });
    await harness.pass(3_000);
    await harness.store.registerIntents(run, UID, [create("c")]);
    const registered = harness.now() + DEADLINE_MS;
    await harness.store.done(run, { kind: "ok" });
    expect(await stamps(harness)).toEqual([
      ["c:a", registered],
      ["c:b", registered],
      ["c:c", registered],
      ["c:p", registered - 3_000],
    ]);
  });

  it("a write-through restarts the deadlines of the run's pending intents, even if it must be repeated", async () => {
    for (const moved of [false, true]) {
      const { harness, run } = await running();
      await harness.store.registerIntents(run, UID, [create("a"), create("p")]);
      await harness.writeThrough(run, "pods", [], { ownerUid: UID, plan: [{ id: "c:p", mayLand: false }] });
      await harness.pass(3_000);
      const items = moved
        ? [put(owned("x", "10"), { expected: { key: "shop/x", uid: "x", rv: "3", gone: false, object: owned("x", "3") } })]
        : [];
      expect((await harness.writeThrough(run, "pods", [], { ownerUid: UID, items })).kind).toBe(moved ? "retry" : "ok");
      const written = harness.now() + DEADLINE_MS;
      await harness.store.done(run, { kind: "ok" });
      expect(await stamps(harness)).toEqual([
        ["c:a", written],
        ["c:p", written - 3_000],
      ]);
    }
  });

  it("the write-through of another run does not extend the deadlines of intents", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [create("a")]);
    await harness.store.done(run, { kind: "ok" });
    const deadlineMs = harness.now() + DEADLINE_MS;
    await harness.pass(3_000);
    const other = await again(harness);
    await harness.writeThrough(other.run, "pods", [], { ownerUid: UID });
    await harness.store.done(other.run, { kind: "ok" });
    expect(await standing(harness)).toMatchObject([{ id: "c:a", deadlineMs, token: run.token }]);
  });

  it("[informer T75] the next run reuses the name of a planned create", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [create("a")]);
    await harness.writeThrough(run, "pods", [], { ownerUid: UID, plan: [{ id: "c:a", mayLand: true }] });
    await harness.store.done(run, { kind: "retry" });
    const second = await again(harness);
    const [op] = second.snapshot.intents;
    expect(op).toMatchObject({ id: "c:a", name: "a", state: "planned" });
    await harness.store.registerIntents(second.run, UID, [
      { ...create("a"), ...(op?.mayLandUntilMs !== undefined && { mayLandUntilMs: op.mayLandUntilMs }) },
    ]);
    await harness.store.done(second.run, { kind: "ok" });
    expect(await standing(harness)).toMatchObject([
      { id: "c:a", state: "pending", token: second.run.token, mayLandUntilMs: op?.mayLandUntilMs },
    ]);
  });

  it("IT4 [replicaset 91] [replicaset 92] removes intents with their owner, and a recreated owner has none", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [create("a")]);
    await harness.store.done(run, { kind: "ok" });
    await harness.seed("replicasets", [remove(rs, "9", { counted: true, effects: [effect(C, rs, { self: true })] })]);
    expect((await harness.taken(C, KEY)).snapshot.intents).toEqual([]);
    await harness.pass(LEASE_MS);
    // Even a dependent with the same uid settles nothing, because the intents were deleted.
    await harness.seed("replicasets", [put(cachedReplicaSet({ resourceVersion: "20" }), { counted: true })]);
    const heir = await harness.taken(C, KEY);
    expect([heir.kind, heir.snapshot.intents]).toEqual(["ok", []]);
  });

  it("IT5 only the holder of the key's lease stores the number of generated names, and a registration without it keeps it", async ({
    harness,
    run,
  }) => {
    const drawn = async () => {
      const { run: next, snapshot } = await again(harness);
      await harness.store.done(next, { kind: "ok" });
      return snapshot.drawn;
    };
    expect(await harness.store.registerIntents({ ...run, token: "other" }, UID, [create("a")], 9)).toBe("stolen");
    await harness.store.registerIntents(run, UID, [create("a")]); // as an older build stores it
    await harness.store.done(run, { kind: "ok" });
    expect(await drawn()).toBeUndefined();
    const { run: second } = await again(harness);
    await harness.store.registerIntents(second, UID, [create("b")], 2);
    await harness.store.registerIntents(second, UID, [create("c"), create("d")], 4);
    await harness.store.registerIntents(second, UID, [destroy("b")]);
    await harness.writeThrough(second, "pods", [], { ownerUid: UID, lower: ["c:a", "c:b", "c:c", "c:d", "d:uid-b"] });
    await harness.store.done(second, { kind: "ok" });
    expect(await drawn()).toBe(4);
    await harness.seed("replicasets", [remove(rs, "9", { counted: true })]);
    await harness.seed("replicasets", [put(cachedReplicaSet({ resourceVersion: "20" }), { counted: true })]);
    expect(await drawn()).toBeUndefined();
  });

  it("the deletion of a pod with an owner's uid does not remove the owner's intents", async ({ harness, run }) => {
    await harness.store.registerIntents(run, UID, [create("a")]);
    await harness.store.done(run, { kind: "ok" });
    await harness.seed("pods", [put(cachedPod({ name: "odd", uid: UID, resourceVersion: "10" }))]);
    await harness.seed("pods", [remove(cachedPod({ name: "odd", uid: UID }), "11")]);
    expect(await standing(harness)).toHaveLength(1);
  });
}
