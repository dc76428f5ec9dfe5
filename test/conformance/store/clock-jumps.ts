/** Changes of the clock of the Store's server (informer §12.5; ST1–ST4). */
import { expect, it as base } from "vitest";

import { CLOCK_TRUST_MS, HOLE_LIMIT_MS, LEASE_MS, OP_DEADLINE_MS } from "../../../shared/base/times.ts";
import { CACHED_RESOURCES } from "../../../shared/kube/objects/resources.ts";
import { cachedReplicaSet, put } from "../../support/builders.ts";
import type { OpenStore } from "../store.ts";
import type { StoreHarness } from "../../harness/store/store.ts";

const KEY = "shop/web";
const C = "replicaset";
const rs = cachedReplicaSet();
const SECOND_MS = 1_000;
const JUMPS = [300_000, -300_000];

/** A leader of the Store that sends a checkpoint and a heartbeat each second, by its own clock. */
class Leader {
  readonly harness: StoreHarness;
  #beat = 0;
  /** Milliseconds by which the leader's own clock is ahead. */
  aheadMs = 0;

  constructor(harness: StoreHarness) {
    this.harness = harness;
  }

  async beat(): Promise<void> {
    const { store, epoch, fence, fixture } = this.harness;
    const nowMs = fixture.clock.steadyNow() + this.aheadMs;
    const answer = await store.checkpoint({ epoch, fence, sent: {}, beat: this.#beat + 1, answered: this.#beat, nowMs });
    expect(answer).toMatchObject({ kind: "ok" });
    this.#beat++;
  }

  async lives(seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second++) {
      await this.harness.fixture.clock.advance(SECOND_MS);
      await this.beat();
      for (const resource of CACHED_RESOURCES) await this.harness.deliver(resource, [], { kind: "W", watermark: "1" });
    }
  }
}

export function clockCases(open: OpenStore): void {
  const it = base.extend("leader", async () => {
    const harness = await (await open()).synced();
    await harness.seed("replicasets", [put(rs, { counted: true })]);
    const leader = new Leader(harness);
    await leader.beat();
    return leader;
  });
  const take = async ({ harness }: Leader, token?: string) => (await harness.take(harness.run(C, KEY, token))).kind;

  it.for(JUMPS)("ST1 a key is due at its time after a clock jump of %i ms", async (jumpMs, { leader }) => {
    const { store, epoch, fixture } = leader.harness;
    await store.add(epoch, C, KEY, 5_000);
    fixture.clock.jump(jumpMs);
    await leader.lives(4);
    expect(await take(leader)).toBe("notYet");
    await leader.lives(1);
    expect(await take(leader)).toBe("ok");
  });

  it.for(JUMPS)("ST1 stored times are neither too early nor too late after a clock jump of %i ms", async (jumpMs, { leader }) => {
    const { store, epoch, fixture } = leader.harness;
    fixture.clock.jump(jumpMs);
    await store.add(epoch, C, KEY, 5_000); // precedes the checkpoint that detects the jump
    await leader.lives(8);
    expect(await take(leader)).toBe("ok");
  });

  it.for(JUMPS)("ST2 a run keeps its key for the whole lease despite a clock jump of %i ms", async (jumpMs, { leader }) => {
    const { store, epoch, fixture } = leader.harness;
    await store.add(epoch, C, KEY, 0);
    expect(await take(leader, "first")).toBe("ok");
    fixture.clock.jump(jumpMs);
    expect(await take(leader, "second")).not.toBe("ok");
    await leader.lives(LEASE_MS / SECOND_MS - 4);
    expect(await take(leader, "second")).toBe("busy");
    await leader.lives(5);
    expect(await take(leader, "second")).toBe("ok");
  });

  it("ST2 a small clock jump does not shorten a key's lease", async ({ leader }) => {
    const { store, epoch, fixture } = leader.harness;
    await store.add(epoch, C, KEY, 0);
    expect(await take(leader, "first")).toBe("ok");
    await leader.lives(LEASE_MS / SECOND_MS - 1);
    fixture.clock.jump(20_000); // too short to close the gate
    expect(await take(leader, "second")).toBe("busy");
  });

  it.for(JUMPS)(
    "ST2 recovery waits until calls of a dead run can no longer take effect, despite a clock jump of %i ms",
    async (jumpMs, { leader }) => {
      const { harness } = leader;
      const { store, epoch, fixture } = harness;
      await store.add(epoch, C, KEY, 0);
      const { run } = await harness.taken(C, KEY);
      await store.registerIntents(run, rs.metadata.uid, [{ id: "c:web-1", verb: "create", name: "web-1" }]);
      await store.done(run, { kind: "requeueAfter", delayMs: 0 });
      fixture.clock.jump(jumpMs);
      await leader.lives(OP_DEADLINE_MS / SECOND_MS - 4);
      await store.add(epoch, C, KEY, 0);
      const early = await harness.taken(C, KEY);
      expect(early.kind).toBe("ok");
      await store.done(early.run, { kind: "ok" });
      await leader.lives(5);
      expect((await harness.taken(C, KEY)).kind).toBe("recover");
    },
  );

  it.for(JUMPS)("ST2 the gate closes at a clock jump of %i ms, and opens with the next checkpoint", async (jumpMs, { leader }) => {
    const { store, fixture } = leader.harness;
    await leader.lives(1);
    fixture.clock.jump(jumpMs);
    expect(await store.gate(C)).toMatchObject({ open: false });
    await leader.beat();
    expect(await store.gate(C)).toEqual({ open: true });
    await leader.lives(HOLE_LIMIT_MS / SECOND_MS + 1);
    expect(await store.gate(C)).toEqual({ open: true });
  });

  it("ST2 without checkpoints no key is taken over from another run, and the gate closes after a minute", async ({ leader }) => {
    const { store, epoch, fixture } = leader.harness;
    await leader.lives(1);
    await store.add(epoch, C, KEY, 0);
    expect(await take(leader, "first")).toBe("ok");
    await fixture.clock.advance(59_000);
    expect(await store.gate(C)).toEqual({ open: true });
    expect(await take(leader, "second")).toBe("busy");
    await fixture.clock.advance(2_000);
    expect(await store.gate(C)).toMatchObject({ open: false, reason: expect.stringContaining("silent") });
  });

  it("ST3 a pause of the leader does not count as a clock jump", async ({ leader }) => {
    const { store, epoch, fixture } = leader.harness;
    await store.add(epoch, C, KEY, 20_000);
    await fixture.clock.advance(20_000 + CLOCK_TRUST_MS);
    await leader.beat();
    expect(await take(leader)).toBe("ok");
  });

  it("ST3 a leader whose own clock is set forward does not end the lease of a key", async ({ leader }) => {
    const { store, epoch } = leader.harness;
    await store.add(epoch, C, KEY, 0);
    expect(await take(leader, "first")).toBe("ok");
    leader.aheadMs = 300_000;
    await leader.lives(3);
    expect(await take(leader, "second")).toBe("busy");
  });

  it("ST4 uses the server's time after a checkpoint of an older build", async ({ leader }) => {
    const { store, epoch, fence, fixture } = leader.harness;
    fixture.clock.jump(-300_000);
    await leader.lives(1);
    await store.add(epoch, C, KEY, 0);
    await store.checkpoint({ epoch, fence, sent: {}, beat: 9, answered: 0 });
    fixture.clock.jump(300_000);
    expect(await take(leader)).toBe("ok");
  });
}
