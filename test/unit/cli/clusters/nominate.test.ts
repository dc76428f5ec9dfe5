/** Nominations of one watcher. Catches: a cluster that two watchers pass to each other, one that nobody seeks, and a release to nobody. */
import { expect, it } from "vitest";

import { nominate, RANK_WAIT_MS, rankOf, SETTLED_MS } from "../../../../cli/watch/nominate.ts";
import type { ClusterShare } from "../../../../cli/watch/nominate.ts";
import { MEMBER_SILENT_MS, MOVES_MAX } from "../../../../shared/store/ports/members.ts";
import type { Member } from "../../../../shared/store/ports/members.ts";

const NOW_MS = 1_000_000;
const OLD_MS = NOW_MS - 60_000;
const CID = "c";
/** Watchers by rank for the cluster, the highest first. */
const [FIRST, SECOND, THIRD] = ["w1", "w2", "w3"].toSorted((a, b) => (rankOf(a, CID) > rankOf(b, CID) ? -1 : 1)) as [
  string,
  string,
  string,
];

function member(id: string, given: Partial<Member> = {}): Member {
  return { id, joinedMs: OLD_MS, beatMs: NOW_MS - 500, leads: [], waits: [], ...given };
}

interface Row {
  readonly name: string;
  readonly self: string;
  readonly others: readonly Member[];
  readonly joinedMs?: number;
  readonly share?: Partial<ClusterShare>;
  readonly isGranted?: true;
  readonly want: "serve" | "move" | "moving" | "none";
}

const SILENT: Partial<Member> = { beatMs: NOW_MS - MEMBER_SILENT_MS };
const LEADS: Partial<Member> = { leads: [CID] };
const WAITS: Partial<Member> = { waits: [CID] };
const NEW: Partial<Member> = { joinedMs: NOW_MS - SETTLED_MS + 1 };
const LEADING: Partial<ClusterShare> = { role: "leading" };

const ROWS: readonly Row[] = [
  { name: "a watcher alone seeks at once, although it has just joined", self: THIRD, others: [], joinedMs: NOW_MS, want: "serve" },
  { name: "the first seeks a cluster without a leader at once", self: FIRST, others: [member(SECOND)], want: "serve" },
  {
    name: "the second waits for the first",
    self: SECOND,
    others: [member(FIRST)],
    share: { unledSinceMs: NOW_MS - RANK_WAIT_MS + 1 },
    want: "none",
  },
  {
    name: "the second seeks after its wait",
    self: SECOND,
    others: [member(FIRST)],
    share: { unledSinceMs: NOW_MS - RANK_WAIT_MS },
    want: "serve",
  },
  {
    name: "the third waits longer",
    self: THIRD,
    others: [member(FIRST), member(SECOND)],
    share: { unledSinceMs: NOW_MS - RANK_WAIT_MS },
    want: "none",
  },
  { name: "a silent watcher of a higher rank is not waited for", self: SECOND, others: [member(FIRST, SILENT)], want: "serve" },
  { name: "a silent leader does not count as leading", self: FIRST, others: [member(SECOND, { ...SILENT, ...LEADS })], want: "serve" },
  { name: "a seeker continues although its rank is low", self: SECOND, others: [member(FIRST)], share: { role: "waiting" }, want: "serve" },
  { name: "a seeker ends when another leads", self: SECOND, others: [member(FIRST, LEADS)], share: { role: "waiting" }, want: "none" },
  { name: "the first wants to move a led cluster", self: FIRST, others: [member(SECOND, LEADS)], want: "move" },
  {
    name: "the first seeks a led cluster once the move is granted",
    self: FIRST,
    others: [member(SECOND, LEADS)],
    isGranted: true,
    want: "moving",
  },
  {
    name: "a move continues after the release, until this watcher leads",
    self: FIRST,
    others: [member(SECOND)],
    share: { role: "waiting" },
    isGranted: true,
    want: "moving",
  },
  {
    name: "a move has ended once this watcher leads",
    self: FIRST,
    others: [member(SECOND)],
    share: LEADING,
    isGranted: true,
    want: "serve",
  },
  {
    name: "a watcher that has just joined moves nothing",
    self: FIRST,
    others: [member(SECOND, LEADS)],
    joinedMs: NOW_MS - SETTLED_MS + 1,
    want: "none",
  },
  { name: "the second moves nothing while the first is known", self: SECOND, others: [member(FIRST), member(THIRD, LEADS)], want: "none" },
  {
    name: "the second moves while the first has just joined",
    self: SECOND,
    others: [member(FIRST, NEW), member(THIRD, LEADS)],
    want: "move",
  },
  {
    name: "the second does not move as soon as the first falls silent",
    self: SECOND,
    others: [member(FIRST, SILENT), member(THIRD, LEADS)],
    want: "none",
  },
  {
    name: "the second moves once the first was silent for long",
    self: SECOND,
    others: [member(FIRST, { beatMs: NOW_MS - MEMBER_SILENT_MS - SETTLED_MS }), member(THIRD, LEADS)],
    want: "move",
  },
  { name: "an avoided cluster is not moved", self: FIRST, others: [member(SECOND, LEADS)], share: { isAvoided: true }, want: "none" },
  {
    name: "an avoided cluster is sought while nobody leads it",
    self: FIRST,
    others: [member(SECOND)],
    share: { isAvoided: true },
    want: "serve",
  },
  { name: "a leader keeps while the first does not wait", self: SECOND, others: [member(FIRST)], share: LEADING, want: "serve" },
  { name: "a leader releases to the first that waits", self: SECOND, others: [member(FIRST, WAITS)], share: LEADING, want: "none" },
  {
    name: "a leader keeps although one of a lower rank waits",
    self: SECOND,
    others: [member(THIRD, WAITS)],
    share: LEADING,
    want: "serve",
  },
  {
    name: "a leader keeps while the waiting one has just joined",
    self: SECOND,
    others: [member(FIRST, { ...WAITS, ...NEW })],
    share: LEADING,
    want: "serve",
  },
  {
    name: "a leader keeps while the waiting one is silent",
    self: SECOND,
    others: [member(FIRST, { ...WAITS, ...SILENT })],
    share: LEADING,
    want: "serve",
  },
  { name: "a leader keeps although another claims to lead", self: SECOND, others: [member(FIRST, LEADS)], share: LEADING, want: "serve" },
];

it.each(ROWS)("$name", ({ self, others, joinedMs = OLD_MS, share, isGranted, want }) => {
  const view = { nowMs: NOW_MS, joinedMs, granted: isGranted ? [CID] : [], others };
  const { serves, moves } = nominate(self, view, [{ cid: CID, role: "none", unledSinceMs: NOW_MS, isAvoided: false, ...share }]);
  expect({ serves: serves.has(CID), moves }).toEqual({
    serves: want === "serve" || want === "moving",
    moves: want === "move" || want === "moving" ? [CID] : [],
  });
});

it("names the granted moves first, and no more than can be granted", () => {
  const cids = Array.from({ length: 200 }, (_, i) => `c${i}`);
  const shares = cids.map((cid) => ({ cid, role: "none", isAvoided: false }) as const);
  const own = cids.filter((cid) => rankOf(FIRST, cid) > rankOf(SECOND, cid));
  const granted = own.slice(-3);
  const view = { nowMs: NOW_MS, joinedMs: OLD_MS, granted, others: [member(SECOND, { leads: cids })] };
  const { serves, moves } = nominate(FIRST, view, shares);
  expect(moves).toHaveLength(MOVES_MAX);
  expect(moves.slice(0, 3)).toEqual(granted);
  expect([...serves]).toEqual(granted);
});

it("spreads clusters evenly, and moves only those of the watcher that joins or leaves", () => {
  const cids = Array.from({ length: 3_000 }, (_, i) => `cluster-${i}`);
  const nominee = (watchers: readonly string[], cid: string) => watchers.toSorted((a, b) => (rankOf(a, cid) > rankOf(b, cid) ? -1 : 1))[0];
  const three = cids.map((cid) => nominee(["a", "b", "c"], cid));
  for (const watcher of ["a", "b", "c"]) expect(three.filter((each) => each === watcher).length).toBeGreaterThan(900);
  const four = cids.map((cid) => nominee(["a", "b", "c", "d"], cid));
  expect(four.filter((each, i) => each !== three[i] && each !== "d")).toEqual([]);
});
