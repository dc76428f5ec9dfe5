/** The conformance suite of Members (shared/store/ports/members.ts). */
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { MEMBER_FORGET_MS, MEMBER_SILENT_MS, MOVES_MAX } from "../../shared/store/ports/members.ts";
import type { Members } from "../../shared/store/ports/members.ts";

export interface MembersUnderTest {
  readonly members: Members;
  /** Changes the Store's clock, possibly back. */
  elapse(ms: number): void;
  close(): Promise<void>;
}

const NONE = { leads: [], waits: [] };

function moves(count: number, prefix = "m"): readonly string[] {
  return Array.from({ length: count }, (_, i) => `${prefix}${i}`);
}

export function membersConformance(name: string, open: () => Promise<MembersUnderTest>): void {
  describe(`members on ${name}`, () => {
    let opened: MembersUnderTest;
    let members: Members;
    beforeEach(async () => {
      opened = await open();
      members = opened.members;
    });
    afterEach(async () => await opened.close());

    it("returns the claims of the other watchers, with the times of their first and last heartbeats", async () => {
      const first = await members.beat("a", { leads: ["c1", "c2"], waits: ["c3"] }, []);
      expect(first).toMatchObject({ joinedMs: first.nowMs, granted: [], others: [] });
      opened.elapse(1_000);
      await members.beat("a", { leads: ["c1"], waits: [] }, []);
      opened.elapse(1_000);
      const second = await members.beat("b", NONE, []);
      expect(second).toEqual({
        ...{ nowMs: first.nowMs + 2_000, joinedMs: first.nowMs + 2_000, granted: [] },
        others: [{ id: "a", joinedMs: first.nowMs, beatMs: first.nowMs + 1_000, leads: ["c1"], waits: [] }],
      });
    });

    it("MR2 a watcher that was silent counts as new when it returns", async () => {
      const { joinedMs } = await members.beat("a", NONE, []);
      opened.elapse(MEMBER_SILENT_MS - 1);
      expect(await members.beat("a", NONE, [])).toMatchObject({ joinedMs });
      opened.elapse(MEMBER_SILENT_MS);
      expect(await members.beat("a", NONE, [])).toMatchObject({ joinedMs: joinedMs + 2 * MEMBER_SILENT_MS - 1 });
    });

    it("MR3 grants at most MOVES_MAX moves to all live watchers together", async () => {
      expect((await members.beat("a", NONE, moves(15))).granted).toEqual(moves(15));
      expect((await members.beat("b", NONE, moves(15))).granted).toEqual(moves(5));
      expect((await members.beat("c", NONE, moves(1))).granted).toEqual([]);
      await members.beat("a", NONE, []);
      expect((await members.beat("c", NONE, moves(MOVES_MAX))).granted).toEqual(moves(15));
    });

    it("MR3 keeps the moves that were granted, whatever else is wanted", async () => {
      await members.beat("a", NONE, moves(2, "old"));
      expect((await members.beat("a", NONE, [...moves(MOVES_MAX, "new"), "old1"])).granted).toEqual([
        "old1",
        ...moves(MOVES_MAX - 1, "new"),
      ]);
    });

    it("MR3 does not count the moves of a silent watcher, which must be granted again", async () => {
      await members.beat("a", NONE, moves(MOVES_MAX));
      opened.elapse(MEMBER_SILENT_MS);
      expect((await members.beat("b", NONE, moves(MOVES_MAX))).granted).toHaveLength(MOVES_MAX);
      expect((await members.beat("a", NONE, moves(MOVES_MAX))).granted).toEqual([]);
    });

    it("MR5 deletes the record of a watcher that leaves, or was silent for long", async () => {
      await members.beat("a", NONE, []);
      await members.beat("b", NONE, []);
      await members.leave("a");
      expect((await members.beat("c", NONE, [])).others.map(({ id }) => id)).toEqual(["b"]);
      opened.elapse(MEMBER_FORGET_MS);
      expect((await members.beat("c", NONE, [])).others).toEqual([]);
    });

    it("MR1 counts a watcher as silent after the Store's clock went back", async () => {
      opened.elapse(100_000);
      const before = await members.beat("a", NONE, []);
      opened.elapse(-100_000);
      const { nowMs } = await members.beat("b", NONE, []);
      expect(nowMs).toBe(before.nowMs - 100_000);
      opened.elapse(MEMBER_SILENT_MS);
      expect((await members.beat("b", NONE, [])).others).toMatchObject([{ id: "a", beatMs: nowMs }]);
    });
  });
}
