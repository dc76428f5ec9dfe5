// Would catch: two static pods with the same name at once, a static pod that waits forever for an ended one, and a full name that is never
// released.
import { describe, expect, it } from "vitest";
import { joinWaiting, releaseFullName, startGate } from "../../../../shared/node-agent/kubelet/pod-workers/static-start.ts";
import type { StartVerdict } from "../../../../shared/node-agent/kubelet/pod-workers/static-start.ts";
import type { StaticStart, WorkerRecord } from "../../../../shared/node-agent/ports/node-store.ts";
import { record } from "../worker-builders.ts";

const STATIC = record({ isStatic: true });
const TERMINATING = record({ isStatic: true, terminatingAtMs: 1 });
const TERMINATED = record({ isStatic: true, terminatingAtMs: 1, terminatedAtMs: 2 });
const RUNNING = record({ isStatic: true, startedAtMs: 1 });

describe("startGate", () => {
  it.each<{
    id: string;
    name: string;
    start?: StaticStart;
    records: Readonly<Record<string, WorkerRecord>>;
    verdict: StartVerdict;
    /** Default: the row is unchanged. */
    after?: StaticStart;
  }>([
    {
      id: "52",
      name: "a regular pod starts in parallel to a static pod of its name",
      start: { startedUid: "other", waitingUids: [] },
      records: { self: record() },
      verdict: "start",
    },
    {
      id: "53",
      name: "no pod of the name has started",
      records: { self: STATIC },
      verdict: "start",
      after: { startedUid: "self", waitingUids: [] },
    },
    {
      id: "53",
      name: "only this pod waits",
      start: { waitingUids: ["self"] },
      records: { self: STATIC },
      verdict: "start",
      after: { startedUid: "self", waitingUids: [] },
    },
    {
      id: "53",
      name: "another pod has started",
      start: { startedUid: "other", waitingUids: ["self"] },
      records: { self: STATIC, other: RUNNING },
      verdict: "notYet",
    },
    {
      id: "53",
      name: "another pod has started whose record is gone",
      start: { startedUid: "other", waitingUids: ["self"] },
      records: { self: STATIC },
      verdict: "notYet",
    },
    { id: "53", name: "the pod has started", start: { startedUid: "self", waitingUids: [] }, records: { self: STATIC }, verdict: "start" },
    {
      id: "53",
      name: "the pod has started and is terminating, so that it is synced until its end",
      start: { startedUid: "self", waitingUids: ["next"] },
      records: { self: { ...RUNNING, terminatingAtMs: 2 }, next: STATIC },
      verdict: "start",
    },
    { id: "53", name: "the pod runs, and its row is lost", records: { self: RUNNING }, verdict: "start" },
    {
      id: "53",
      name: "another pod waits before it",
      start: { waitingUids: ["other", "self"] },
      records: { self: STATIC, other: STATIC },
      verdict: "notYet",
    },
    { id: "53", name: "the pod has no record", start: { waitingUids: ["self"] }, records: {}, verdict: "never" },
    {
      id: "53",
      name: "the pod was killed before it started",
      start: { waitingUids: ["self"] },
      records: { self: TERMINATING },
      verdict: "never",
    },
    {
      id: "53",
      name: "the pod was killed before it started and holds the name",
      start: { startedUid: "self", waitingUids: [] },
      records: { self: TERMINATING },
      verdict: "never",
    },
    { id: "53", name: "the pod is terminated", records: { self: TERMINATED }, verdict: "never" },
    {
      id: "54",
      name: "only removed pods wait before it",
      start: { waitingUids: ["gone", "gone", "dying", "self", "next"] },
      records: { self: STATIC, dying: TERMINATING, next: STATIC },
      verdict: "start",
      after: { startedUid: "self", waitingUids: ["next"] },
    },
    {
      id: "54",
      name: "removed pods before the next one are dropped",
      start: { waitingUids: ["gone", "other", "self"] },
      records: { self: STATIC, other: STATIC },
      verdict: "notYet",
      after: { waitingUids: ["other", "self"] },
    },
    {
      id: "120",
      name: "the row is lost while another pod of its name runs",
      records: { self: STATIC, other: RUNNING },
      verdict: "notYet",
    },
    {
      id: "120",
      name: "the row is lost, and the other pod that ran is finished",
      records: { self: STATIC, other: { ...RUNNING, terminatingAtMs: 1, terminatedAtMs: 2, finished: true } },
      verdict: "start",
      after: { startedUid: "self", waitingUids: [] },
    },
    {
      id: "120",
      name: "the row is lost while pods of other names, and regular ones, run",
      records: { self: STATIC, other: record({ startedAtMs: 1 }), third: { ...RUNNING, fullName: "db_shop" } },
      verdict: "start",
      after: { startedUid: "self", waitingUids: [] },
    },
  ])("[node-agent $id] the start gate returns $verdict: $name", ({ start, records, verdict, after = start }) => {
    expect(startGate("self", records["self"], start, new Map(Object.entries(records)))).toEqual({ verdict, start: after });
  });
});

describe("the static pods of one full name, started and waiting", () => {
  it("[node-agent 53] adds each waiting UID once, in order of arrival", () => {
    const one = joinWaiting(undefined, "a");
    const two = joinWaiting(one, "b");
    expect(two).toEqual({ waitingUids: ["a", "b"] });
    expect(joinWaiting(two, "a")).toBe(two);
    const running = { startedUid: "a", waitingUids: ["b"] };
    expect(joinWaiting(running, "a")).toBe(running);
    expect(joinWaiting(running, "c")).toEqual({ startedUid: "a", waitingUids: ["b", "c"] });
  });

  it.each<{ name: string; start?: StaticStart; uid: string; want?: StaticStart }>([
    { name: "nothing if the row is absent", uid: "a" },
    { name: "the only pod", start: { startedUid: "a", waitingUids: [] }, uid: "a" },
    { name: "the started pod", start: { startedUid: "a", waitingUids: ["b"] }, uid: "a", want: { waitingUids: ["b"] } },
    {
      name: "a waiting pod",
      start: { startedUid: "a", waitingUids: ["b", "c"] },
      uid: "b",
      want: { startedUid: "a", waitingUids: ["c"] },
    },
    { name: "the last waiting pod", start: { waitingUids: ["b"] }, uid: "b" },
    {
      name: "nothing if the pod is not in the row",
      start: { startedUid: "a", waitingUids: ["b"] },
      uid: "x",
      want: { startedUid: "a", waitingUids: ["b"] },
    },
  ])("[node-agent 53] [node-agent 126] releasing a full name drops $name", ({ start, uid, want }) => {
    expect(releaseFullName(start, uid)).toEqual(want);
  });

  it("[node-agent 126] passes from the old UID of an edited manifest to the new one only after the old pod has finished", () => {
    const dying = { ...RUNNING, terminatingAtMs: 2 };
    const row = joinWaiting({ startedUid: "old", waitingUids: [] }, "new");
    const gate = (start: StaticStart | undefined, old: WorkerRecord) =>
      startGate(
        "new",
        STATIC,
        start,
        new Map([
          ["new", STATIC],
          ["old", old],
        ]),
      ).verdict;
    expect(gate(row, RUNNING)).toBe("notYet");
    expect(gate(row, dying)).toBe("notYet");
    expect(gate(row, { ...dying, terminatedAtMs: 3 })).toBe("notYet");
    expect(gate(releaseFullName(row, "old"), { ...dying, terminatedAtMs: 3, finished: true })).toBe("start");
  });
});
