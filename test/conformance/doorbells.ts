/** The conformance suite of Doorbells (shared/store/ports/doorbells.ts). */
import { afterEach, describe, expect, it } from "vitest";

import type { Controller } from "../../shared/kube/objects/resources.ts";
import type { MessageSource } from "../../shared/store/ports/delta-queue.ts";
import type { Doorbell, DoorbellMessage, Doorbells } from "../../shared/store/ports/doorbells.ts";
import { RUNG_WITHIN_MS } from "../../shared/base/times.ts";

export interface DoorbellsUnderTest {
  readonly doorbells: Doorbells;
  /** The cluster id of all doorbells. */
  readonly cluster: string;
  readonly sources: { readonly [C in Controller]: MessageSource };
  /** Advances the clock, or waits. */
  elapse(ms: number): Promise<void>;
  /** Number of doorbells in the ReplicaSets' queue, including delayed ones. */
  size(): Promise<number>;
  close(): Promise<void>;
}

const NOW = { max: 10, waitMs: 0 } as const;

/**
 * Runs the suite. `late` states what the adapter does with doorbells that are due later than RUNG_WITHIN_MS: it sends them ("rung") or
 * leaves them ("left"). In the first case, waits may be long.
 */
export function doorbellsConformance(name: string, late: "rung" | "left", factory: () => Promise<DoorbellsUnderTest>): void {
  describe(`doorbells on ${name}`, () => {
    const opened: DoorbellsUnderTest[] = [];
    const open = async (): Promise<DoorbellsUnderTest> => {
      const subject = await factory();
      opened.push(subject);
      return subject;
    };
    afterEach(async () => {
      for (const subject of opened.splice(0)) await subject.close();
    });

    it("DB1 sends a wake-up message (doorbell) with everything that `take` needs to the controller's own queue", async () => {
      const { doorbells, sources, cluster } = await open();
      await doorbells.ring([bell("shop/a"), { controller: "deployment", key: "shop/d", epoch: "e9", delayMs: 0 }]);
      expect(await messages(sources.replicaset)).toEqual([{ v: 1, c: cluster, ctl: "replicaset", e: "e1", k: "shop/a", u: "u1", o: "o1" }]);
      expect(await messages(sources.deployment)).toEqual([{ v: 1, c: cluster, ctl: "deployment", e: "e9", k: "shop/d" }]);
      expect(await messages(sources.replicationcontroller)).toEqual([]);
    });

    it("DB1 sends many doorbells, no doorbells, or the same doorbell twice in one call", async () => {
      const { doorbells, sources } = await open();
      await doorbells.ring([]);
      await doorbells.ring([...Array.from({ length: 23 }, (_, index) => bell(`shop/${index}`)), bell("shop/0")]);
      const keys = (await messages(sources.replicaset)).map((message) => message.k);
      expect([keys.length, new Set(keys).size]).toEqual([24, 23]);
    });

    it("DB2 delivers no doorbell before its delay", async () => {
      const { doorbells, sources, elapse } = await open();
      await doorbells.ring([bell("later", 2_000), bell("now")]);
      expect((await messages(sources.replicaset)).map((message) => message.k)).toEqual(["now"]);
      await elapse(900);
      expect(await messages(sources.replicaset)).toEqual([]);
      await elapse(2_100);
      expect((await messages(sources.replicaset)).map((message) => message.k)).toEqual(["later"]);
    });

    if (late === "rung")
      it("DB2 [informer T71] delivers each doorbell after 900 s at the latest", async () => {
        const { doorbells, sources, elapse } = await open();
        await doorbells.ring([bell("late", 1_000_000), bell("longest", Number.MAX_SAFE_INTEGER)]);
        await elapse(899_999);
        expect(await messages(sources.replicaset)).toEqual([]);
        await elapse(1);
        expect((await messages(sources.replicaset)).map((message) => message.k)).toEqual(["late", "longest"]);
      });
    else
      it("DB3 [informer T71] sends no doorbell for a key due after more than 900 s, but all others of the call", async () => {
        const { doorbells, sources, size } = await open();
        await doorbells.ring([bell("late", RUNG_WITHIN_MS + 1), bell("soon", RUNG_WITHIN_MS), bell("now")]);
        await doorbells.ring([bell("latest", Number.MAX_SAFE_INTEGER)]);
        expect(await size()).toBe(2);
        expect((await messages(sources.replicaset)).map((message) => message.k)).toEqual(["now"]);
      });

    it("DB1 redelivers an unacknowledged doorbell", async () => {
      const { doorbells, sources } = await open();
      await doorbells.ring([bell("shop/a")]);
      const [first] = await sources.replicaset.receive(NOW);
      expect(await sources.replicaset.receive(NOW)).toEqual([]);
      await sources.replicaset.setVisibility([first?.receipt ?? ""], 0);
      expect(await sources.replicaset.receive(NOW)).toMatchObject([{ messageId: first?.messageId, receiveCount: 2 }]);
    });
  });
}

function bell(key: string, delayMs = 0): Doorbell {
  return { controller: "replicaset", key, uid: "u1", owner: "o1", epoch: "e1", delayMs };
}

async function messages(source: MessageSource): Promise<readonly DoorbellMessage[]> {
  const all: DoorbellMessage[] = [];
  for (;;) {
    const some = await source.receive(NOW);
    if (some.length === 0) return all;
    all.push(...some.map((message) => JSON.parse(message.body) as DoorbellMessage)); // the adapter wrote the body
    await source.remove(some.map(({ receipt }) => receipt));
  }
}
