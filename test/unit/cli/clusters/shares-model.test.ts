/**
 * Random schedules of two to four watchers that share clusters. Catches: a cluster without a leader, with two, or that two watchers pass to
 * each other, and more clusters in motion than allowed. SHARES_SEEDS=FROM-TO runs other seeds.
 */
import { describe, expect, it } from "vitest";

import { AVOIDED_MS, MOVE_MS_MAX } from "../../../../cli/watch/cluster-shares.ts";
import { rankOf } from "../../../../cli/watch/nominate.ts";
import { MOVES_MAX } from "../../../../shared/store/ports/members.ts";
import { SharesModel } from "./shares-model.ts";
import type { ModelWatcher } from "./shares-model.ts";

const [FIRST_SEED, LAST_SEED] = (process.env["SHARES_SEEDS"] ?? "1-8").split("-").map(Number) as [number, number];
const SEEDS = Array.from({ length: LAST_SEED - FIRST_SEED + 1 }, (_, i) => FIRST_SEED + i);
/** Silence, a heartbeat, the expiry of the Lease and two reads of it. */
const TAKEN_OVER_MS = 25_000;
const STEP_MS = 250;

function names(count: number): readonly string[] {
  return Array.from({ length: count }, (_, i) => `cluster-${i}`);
}

function first(watchers: readonly ModelWatcher[], cid: string): string | undefined {
  return watchers.toSorted((a, b) => (rankOf(a.id, cid) > rankOf(b.id, cid) ? -1 : 1))[0]?.id;
}

/** Advances in steps, and checks in each that no cluster has two leaders and no more clusters move than allowed. */
async function advance(model: SharesModel, cids: readonly string[], ms: number): Promise<void> {
  for (let passedMs = 0; passedMs < ms; passedMs += STEP_MS) {
    await model.clock.advance(STEP_MS);
    for (const cid of cids) expect(model.leadersOf(cid).length, cid).toBeLessThanOrEqual(1);
    expect(model.mostMoving).toBeLessThanOrEqual(MOVES_MAX);
  }
}

/** Injects one random fault, or ends one. */
function disturb(model: SharesModel): void {
  const { random } = model;
  const chosen = <T>(list: readonly T[]): T | undefined => list[Math.floor(random.next() * list.length)];
  const alive = model.watchers.filter(({ isDead }) => !isDead);
  const watcher = chosen(alive);
  if (!watcher) return void model.start();
  const draw = random.next();
  if (draw < 0.15 && alive.length < 4) model.start(Math.floor((random.next() - 0.5) * 600_000));
  else if (draw < 0.25 && alive.length > 2) model.crash(watcher);
  else if (draw < 0.4) watcher.isPaused = !watcher.isPaused;
  else if (draw < 0.6) watcher.unreachable.add(`cluster-${Math.floor(random.next() * 12)}`);
  else if (draw < 0.7) watcher.unreachable.clear();
  else if (draw < 0.9) watcher.hidden.add(chosen(alive)?.id ?? "");
  else watcher.hidden.clear();
}

describe("watchers that share clusters", () => {
  it.each(SEEDS)(
    "lead each cluster exactly once after any faults, and then change nothing (seed %i)",
    async (seed) => {
      const cids = names(12);
      const model = new SharesModel(cids, seed);
      model.start();
      model.start(-120_000);
      for (let fault = 0; fault < 25; fault++) {
        await advance(model, cids, 1_000 + Math.floor(model.random.next() * 20_000));
        disturb(model);
      }
      for (const watcher of model.watchers) {
        watcher.isPaused = false;
        watcher.unreachable.clear();
        watcher.hidden.clear();
      }
      await advance(model, cids, AVOIDED_MS + 2 * MOVE_MS_MAX);
      const settled = model.changes.length;
      for (const cid of cids) expect(model.leadersOf(cid), cid).toEqual([first(model.live(), cid)]);
      await advance(model, cids, 60_000);
      expect(model.changes.slice(settled)).toEqual([]);
    },
    60_000,
  );

  it("never pass a cluster back and forth while their member lists differ", async () => {
    const cids = names(40);
    const model = new SharesModel(cids, 1);
    const watchers = [model.start(), model.start(), model.start()];
    await advance(model, cids, 60_000);
    // Each knows the next one only, so none has the list of another.
    watchers.forEach((watcher, i) => watcher.hidden.add(watchers[(i + 2) % 3]?.id ?? ""));
    await advance(model, cids, 300_000);
    for (const cid of cids) {
      const leaders = model.changes.filter((change) => change.cid === cid).map(({ to }) => to);
      expect(leaders, cid).toEqual([...new Set(leaders)]);
      expect(model.leadersOf(cid)).toHaveLength(1);
    }
  });

  it("move at most 20 of 200 clusters at once to a watcher that joins, and leave the others", async () => {
    const cids = names(200);
    const model = new SharesModel(cids, 2);
    const old = model.start();
    await advance(model, cids, 20_000);
    const before = model.changes.length;
    expect(before).toBe(200);
    const joined = model.start();
    await advance(model, cids, 10_000);
    expect(model.changes).toHaveLength(before); // membership changes wait
    await advance(model, cids, 120_000);
    expect(model.mostMoving).toBeGreaterThan(10);
    expect(model.mostBesides).toBeLessThanOrEqual(MOVES_MAX); // no Lease is read for a move that was not granted
    const own = cids.filter((cid) => first([old, joined], cid) === joined.id);
    expect(
      model.changes
        .slice(before)
        .map(({ cid }) => cid)
        .toSorted(),
    ).toEqual(own.toSorted());
  });

  it("move at most 20 clusters at once from a leader that was paused, whose clusters all were sought meanwhile", async () => {
    const cids = names(200);
    const model = new SharesModel(cids, 6);
    const old = model.start();
    await advance(model, cids, 20_000);
    model.start();
    await advance(model, cids, 12_000);
    old.isPaused = true;
    await advance(model, cids, 8_000);
    expect(model.mostBesides).toBeGreaterThan(100);
    old.isPaused = false;
    await advance(model, cids, 120_000);
    for (const cid of cids) expect(model.leadersOf(cid), cid).toEqual([first(model.live(), cid)]);
  });

  it("take over the clusters of a crashed watcher within 25 s, and of one that leaves within 5 s", async () => {
    const cids = names(60);
    const model = new SharesModel(cids, 3);
    const [crashes, leaves] = [model.start(), model.start()];
    model.start();
    await advance(model, cids, 90_000);
    model.crash(crashes);
    await advance(model, cids, TAKEN_OVER_MS);
    for (const cid of cids) expect(model.leadersOf(cid), cid).toHaveLength(1);
    leaves.stop();
    await advance(model, cids, 5_000);
    for (const cid of cids) expect(model.leadersOf(cid), cid).toEqual(["watcher-3"]);
  });

  it("lead a cluster that its nominee cannot reach, and give it back after the nominee reaches it again", async () => {
    const cids = names(10);
    const model = new SharesModel(cids, 4);
    const watchers = [model.start(), model.start()];
    const cid = cids[0] ?? "";
    const nominee = watchers.find(({ id }) => id === first(watchers, cid));
    nominee?.unreachable.add(cid);
    await advance(model, cids, 20_000);
    expect(model.leadersOf(cid)).toEqual([watchers.find((watcher) => watcher !== nominee)?.id]);
    await advance(model, cids, 3 * AVOIDED_MS);
    expect(model.changes.filter((change) => change.cid === cid)).toHaveLength(1);
    nominee?.unreachable.clear();
    await advance(model, cids, AVOIDED_MS + MOVE_MS_MAX);
    expect(model.leadersOf(cid)).toEqual([nominee?.id]);
  });

  it("cost a watcher alone one heartbeat every two seconds, and no session more", async () => {
    const cids = names(50);
    const model = new SharesModel(cids, 5);
    model.start();
    await advance(model, cids, 60_000);
    expect(model.sessions).toBe(50);
    expect(model.beats).toBeLessThan(40);
  });
});
