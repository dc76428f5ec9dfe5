// Concurrent calls of a batch, limited to the number of connections.
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { inTurn } from "../../../shared/controllers/kit/in-turn.ts";
import { CALLS_AT_ONCE_MAX } from "../../../shared/kube/client/kube.ts";

describe("inTurn", () => {
  it("runs 500 calls of 400 ms in 16 rounds, and never exceeds the connection limit", async () => {
    const clock = createVirtualClock(0);
    let running = 0;
    let most = 0;
    const all = inTurn(
      Array.from({ length: 500 }, (_, i) => i),
      () => true,
      async (i) => {
        most = Math.max(most, ++running);
        await clock.after(400);
        running--;
        return { i };
      },
    );
    let ended = false;
    void all.finally(() => (ended = true));
    while (!ended) await clock.advance(100);
    expect((await all).map((result) => result?.i)).toEqual(Array.from({ length: 500 }, (_, i) => i));
    expect([most, clock.now()]).toEqual([CALLS_AT_ONCE_MAX, 16 * 400]);
  });

  it("starts no call after the deadline, and returns the calls that were not started", async () => {
    let begun = 0;
    const results = await inTurn(
      [1, 2, 3, 4],
      () => begun < 2,
      async (item) => {
        begun++;
        return { item };
      },
    );
    expect(results).toEqual([{ item: 1 }, { item: 2 }, undefined, undefined]);
  });
});
