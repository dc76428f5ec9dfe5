/** The data on which creates and deletes may be based: the table of replicaset §18. */
import { describe, expect, it } from "vitest";

import { basisByMark, bounded, contradicts, DISPUTE_MS, LIST_INTERVAL_MS, markOf } from "../../../shared/controllers/kit/decision-basis.ts";
import { markText, parseMark } from "../../../shared/store/decision-mark.ts";
import type { DecisionMark } from "../../../shared/store/ports/intents.ts";
import type { Row } from "../../../shared/store/ports/index-store.ts";
import { cachedPod } from "../../support/builders.ts";

const NOW_MS = 1_000_000;
const pods = { fence: "7", suspects: 2, watermark: "80", atMs: NOW_MS };
const listed: DecisionMark = { kind: "listed", fence: "7", suspects: 2, version: "90", atMs: NOW_MS - 60_000 };
const created: DecisionMark = { ...listed, kind: "created" };
const create = { verb: "create", adopts: false } as const;
const remove = { verb: "delete", adopts: false } as const;

describe("the mark of an owner (the basis of its last decision)", () => {
  it.each([
    { name: "that is missing", mark: undefined, does: create, want: "first under this fence" },
    { name: "of an earlier fence", mark: { ...listed, fence: "6" }, does: create, want: "first under this fence" },
    {
      name: "of a later fence, because the Store was rolled back",
      mark: { ...listed, fence: "8" },
      does: create,
      want: "first under this fence",
    },
    { name: "from before a SUSPECT mark", mark: { ...listed, suspects: 1 }, does: create, want: "first after SUSPECT" },
    {
      name: "of a list that contradicted the cache",
      mark: { ...listed, kind: "disputed" },
      does: create,
      want: "last list contradicted the cache",
    },
    { name: "of a list newer than a lane, before deletes", mark: listed, does: remove, want: "cache behind the last list" },
    { name: "of a list newer than a lane, before creates", mark: listed, does: create, want: undefined },
    { name: "of a list that every lane has reached", mark: { ...listed, version: "80" }, does: remove, want: undefined },
    {
      name: "of a list that every lane has reached, before deletes if losses go unnoticed",
      mark: { ...listed, version: "80" },
      does: { ...remove, losesUnseen: true },
      want: "losses show nowhere",
    },
    {
      name: "of our create, before deletes if losses go unnoticed",
      mark: created,
      does: { ...remove, losesUnseen: true },
      want: "losses show nowhere",
    },
    {
      name: "of a list that every lane has reached, before creates if losses go unnoticed",
      mark: { ...listed, version: "80" },
      does: { ...create, losesUnseen: true },
      want: undefined,
    },
    { name: "of our create, newer than a lane", mark: created, does: create, want: undefined },
    { name: "of our create, newer than a lane, before deletes", mark: created, does: remove, want: undefined },
    { name: "of our create, with pods to adopt", mark: created, does: { ...create, adopts: true }, want: "pods to adopt" },
    {
      name: "of our create, with an earlier owner of the same name",
      mark: created,
      does: create,
      gone: "85",
      want: "earlier owner of that name",
    },
    {
      name: "of our create, older than every lane",
      mark: { ...created, version: "70" },
      does: { ...create, adopts: true },
      want: undefined,
    },
  ] as const)("the reason to list pods is '$want' for a mark $name", ({ mark, does, want, ...rest }) => {
    const snapshot = { pods, ...(mark && { mark }), ...("gone" in rest && { predecessorGone: rest.gone }) };
    expect(basisByMark(snapshot, does)).toBe(want);
  });

  it.each([
    { name: "5 s ago", atMs: NOW_MS - LIST_INTERVAL_MS, want: { kind: "list" } },
    { name: "2 s ago", atMs: NOW_MS - 2_000, want: { kind: "wait", afterMs: 3_000 } },
    { name: "in the future", atMs: NOW_MS + 1, want: { kind: "list" } },
  ])("allows one list of the owner's pods in 5 s: listed $name", ({ atMs, want }) => {
    expect(bounded("first after SUSPECT", { ...listed, atMs }, NOW_MS)).toMatchObject(want);
  });

  it("a mark that records the owner's creation does not delay the first list", () => {
    expect(bounded("pods to adopt", { ...created, atMs: NOW_MS }, NOW_MS).kind).toBe("list");
    expect(bounded(undefined, { ...listed, atMs: NOW_MS }, NOW_MS).kind).toBe("cache");
    expect(bounded("first under this fence", undefined, NOW_MS).kind).toBe("list");
  });

  it("marks the cache SUSPECT at the third list within a minute that contradicts the cache", () => {
    const disputed = (disputedMs: readonly number[], isDisputed = true) =>
      markOf(pods, { ...listed, disputedMs }, { listRV: "100", nowMs: NOW_MS, isDisputed });
    expect(disputed([NOW_MS - 20_000]).isSuspect).toBe(false);
    expect(disputed([NOW_MS - 20_000, NOW_MS - 10_000])).toMatchObject({ isSuspect: true, mark: { kind: "disputed" } });
    expect(disputed([NOW_MS - DISPUTE_MS, NOW_MS - 10_000]).isSuspect).toBe(false);
    expect(disputed([NOW_MS + 1, NOW_MS + 2]).isSuspect).toBe(false);
    expect(disputed([NOW_MS - 10_000], false)).toEqual({
      isSuspect: false,
      mark: { kind: "listed", fence: "7", suspects: 2, version: "100", atMs: NOW_MS, disputedMs: [NOW_MS - 10_000] },
    });
  });

  it.each([listed, created, { ...listed, kind: "disputed", disputedMs: [1, 2] } as const])(
    "a mark is unchanged after being stored and read: %o",
    (mark) => {
      expect(parseMark(markText(mark))).toEqual(mark);
    },
  );

  it.each([undefined, "", "listed 7 2", "other 7 2 90 1 ", "listed x 2 90 1 "])(
    "a mark is ignored when it cannot be parsed: %s",
    (text) => {
      expect(parseMark(text)).toBeUndefined();
    },
  );
});

describe("contradicts, for a cache that has applied all events up to version 80", () => {
  const row = (name: string, rv: string, gone = false): Row => ({ key: `shop/${name}`, uid: name, rv, gone, object: cachedPod({ name }) });
  it.each([
    { name: "the cache has the same pods", listRV: "100", pods: [["a", "50"]], cached: [row("a", "50")], want: false },
    { name: "the cache lacks a listed pod", listRV: "100", pods: [["a", "50"]], cached: [], want: true },
    { name: "the cache lacks a listed pod newer than 80", listRV: "100", pods: [["a", "90"]], cached: [], want: false },
    { name: "the cache has an older version of a pod", listRV: "100", pods: [["a", "50"]], cached: [row("a", "40")], want: true },
    { name: "a list at 100 lacks a cached pod", listRV: "100", pods: [], cached: [row("a", "50")], want: false },
    { name: "a list at 70 lacks a cached pod", listRV: "70", pods: [], cached: [row("a", "50")], want: true },
    {
      name: "a list at 70 lacks a cached pod whose delete got a response",
      listRV: "70",
      pods: [],
      cached: [row("a", "50", true)],
      want: false,
    },
  ] as const)("is $want if $name", ({ listRV, pods: versions, cached, want }) => {
    const listedPods = versions.map(([uid, rv]) => ({ uid, rv }));
    expect(contradicts(pods, { listRV, listed: listedPods, cached })).toBe(want);
  });
});
