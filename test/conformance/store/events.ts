/**
 * The Store's record of Events: the results equal client-go's on every Store, all functions of a controller share the record, and its size
 * is bounded.
 */
import { expect, it } from "vitest";
import { EVENT_MEMORY_MAX, eventNanos, msOfNanos, type Correlated } from "../../../shared/kube/events/event-correlator.ts";
import type { ToldHappening } from "../../../shared/store/ports/store.ts";
import { eventCorpus } from "../../support/event-corpus.ts";
import type { OpenStore } from "../store.ts";
import { EPOCH } from "../../harness/store/store.ts";

const NANOS = eventNanos(1_772_359_200_000, 7);
const FIRST: Correlated = { nanos: NANOS, count: 1, isCombined: false, isHeldBack: false };
const LIVES = eventCorpus().lives.filter((calls) => calls.every(({ field }) => field === 0));

function happening(object: string, { message = "no", reason = "FailedCreate", type = "Warning", nanos = NANOS } = {}): ToldHappening {
  const source = `${object} ${type}`;
  const group = `${source} ${reason}`;
  return { source, group, key: `${group} ${message}`, nanos };
}

export function eventCases(open: OpenStore): void {
  it.each(LIVES.map((calls, index) => ({ life: index + 1, calls })))(
    "[informer T80] EV1 correlates Events as client-go does in history $life, with simultaneous Events in one call",
    async ({ calls }) => {
      const { store, fixture } = await open();
      const answers: unknown[] = [];
      for (const [atMs, atOnce] of Map.groupBy(calls, (call) => call.atMs)) {
        await fixture.clock.advance(atMs - fixture.clock.now());
        const told = atOnce.map(({ object, ...each }, i) => happening(object, { ...each, nanos: eventNanos(atMs, answers.length + i) }));
        for (const { nanos, count, isCombined, isHeldBack } of await store.correlateEvents("replicaset", told))
          answers.push(isHeldBack ? undefined : { count, isCombined, nanos: isCombined ? eventNanos(msOfNanos(nanos), 0) : nanos });
      }
      expect(answers).toEqual(calls.map(({ answer }) => answer));
    },
  );

  it("[informer T81] EV1 sends 25 of 40 Events of one object, and one more after five minutes", async () => {
    const { store, fixture } = await open();
    const answers = await store.correlateEvents(
      "replicaset",
      Array.from({ length: 40 }, () => happening("web")),
    );
    expect(answers.map(({ isHeldBack }) => isHeldBack)).toEqual([...Array<boolean>(25).fill(false), ...Array<boolean>(15).fill(true)]);
    await fixture.clock.advance(300_000);
    expect(await store.correlateEvents("replicaset", [happening("web"), happening("web")])).toEqual([
      { ...FIRST, count: 41 },
      { ...FIRST, count: 42, isHeldBack: true },
    ]);
  });

  it("[informer T82] EV1 counts equal Events from two functions as one series", async () => {
    const { store, fixture } = await open();
    const beside = await fixture.beside({});
    expect(await store.correlateEvents("replicaset", [happening("web")])).toEqual([FIRST]);
    const later = happening("web", { nanos: eventNanos(1_772_359_200_001, 8) });
    expect(await beside.correlateEvents("replicaset", [later])).toEqual([{ ...FIRST, count: 2 }]);
    expect(await store.correlateEvents("replicaset", [])).toEqual([]);
  });

  it("EV2 keeps the recorded Events of each controller and cluster separately, and across epochs", async () => {
    const harness = await (await open()).open();
    const { store, fixture } = harness;
    await store.correlateEvents("replicaset", [happening("web")]);
    expect(await store.correlateEvents("deployment", [happening("web")])).toEqual([FIRST]);
    expect(await store.openEpoch({ ...EPOCH, epoch: "e2" }, "e1")).toEqual({ kind: "opened" });
    expect(await store.correlateEvents("replicaset", [happening("web")])).toEqual([{ ...FIRST, count: 2 }]);
    const beside = await fixture.beside({ cluster: "cluster-of-another" });
    expect(await beside.correlateEvents("replicaset", [happening("web")])).toEqual([FIRST]);
    await beside.close();
  });

  it("EV3 keeps 4096 objects and evicts the least recently used", async () => {
    const { store, fixture } = await open();
    for (let at = 0; at < EVENT_MEMORY_MAX; at += 512) {
      const told = Array.from({ length: 512 }, (_, i) => happening(`web-${at + i}`));
      expect(await store.correlateEvents("replicaset", told)).toEqual(told.map(() => FIRST));
      await fixture.clock.advance(1);
    }
    const again = Array.from({ length: 511 }, (_, i) => happening(`web-${i + 1}`));
    expect(await store.correlateEvents("replicaset", again)).toEqual(again.map(() => ({ ...FIRST, count: 2 })));
    await fixture.clock.advance(1);
    expect(await store.correlateEvents("replicaset", [happening("one-more")])).toEqual([FIRST]);
    expect(await store.correlateEvents("replicaset", [happening("web-1")])).toEqual([{ ...FIRST, count: 3 }]);
    expect(await store.correlateEvents("replicaset", [happening("web-0")])).toEqual([FIRST]);
  });

  it("EV4 starts with empty counts after a loss of all data", async () => {
    const { store, fixture } = await open();
    await store.correlateEvents("replicaset", [happening("web")]);
    await fixture.flush();
    expect(await store.correlateEvents("replicaset", [happening("web")])).toEqual([FIRST]);
  });
}
