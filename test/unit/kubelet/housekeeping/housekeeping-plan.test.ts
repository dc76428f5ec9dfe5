// Would catch: a pod that is never started or finalised; an unowned or desired container that is killed; a directory, mirror pod or status
// that is removed too early or never; a pod that is never enqueued again; and a decision that is based on outdated containers.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { needsCurrentList, housekeepingPlan } from "../../../../shared/node-agent/kubelet/housekeeping/housekeeping-plan.ts";
import type {
  DesiredPod,
  HousekeepingInput,
  HousekeepingPlan,
} from "../../../../shared/node-agent/kubelet/housekeeping/housekeeping-plan.ts";
import type { WorkerRecord } from "../../../../shared/node-agent/ports/node-store.ts";
import { record, started } from "../worker-builders.ts";

const POD: DesiredPod = { fullName: "web_shop", isStatic: false, isMirror: false, phaseIsTerminal: false };
const DONE: DesiredPod = { ...POD, phaseIsTerminal: true };
const TERMINATING = started({ terminatingAtMs: 1 });
const TERMINATED = started({ terminatingAtMs: 1, terminatedAtMs: 2 });
const FINISHED = { ...TERMINATED, finished: true } as const;

const NOTHING: HousekeepingPlan = {
  create: [],
  kill: [],
  killRuntimeOnly: [],
  stopProbes: [],
  dropStatuses: [],
  removeDirectories: [],
  removeCgroups: [],
  reduceCgroups: [],
  deleteMirrors: [],
  releaseFullNames: new Map(),
  schedule: [],
};

interface Case {
  readonly id?: string;
  readonly name: string;
  readonly desired?: Readonly<Record<string, DesiredPod>>;
  readonly records?: Readonly<Record<string, WorkerRecord>>;
  readonly running?: readonly string[];
  readonly rest?: Partial<HousekeepingInput>;
  readonly want: Partial<HousekeepingPlan>;
}

/** Every desired pod is due, unless a case overrides that. */
function input({ desired = {}, records = {}, running = [], rest = {} }: Case): HousekeepingInput {
  return {
    desired: new Map(Object.entries(desired)),
    records: new Map(Object.entries(records)),
    runningUids: new Set(running),
    directories: [],
    cgroups: [],
    cachedStatusUids: [],
    probedUids: [],
    orphanMirrors: [],
    staticStarts: new Map(),
    due: new Set(Object.keys(desired)),
    ...rest,
  };
}

const WORKERS: readonly Case[] = [
  { name: "keeps a pod that has its worker", desired: { a: POD }, records: { a: started() }, running: ["a"], want: {} },
  { name: "creates the worker of a desired pod", desired: { a: POD }, want: { create: ["a"] } },
  {
    id: "[node-agent 120]",
    name: "restores the worker of a running pod and kills nothing",
    desired: { a: POD },
    running: ["a"],
    want: { create: ["a"] },
  },
  {
    id: "[node-agent 120]",
    name: "restores the worker of a pod that is being deleted",
    desired: { a: { ...POD, deletionTimestamp: true } },
    running: ["a"],
    want: { create: ["a"] },
  },
  { name: "creates no worker for a pod that was rejected or has ended", desired: { a: DONE }, want: {} },
  {
    name: "finalizes a rejected pod when it is deleted",
    desired: { a: { ...DONE, deletionTimestamp: true } },
    want: { kill: ["a"] },
  },
  { name: "finalizes a rejected pod only once", desired: { a: { ...DONE, deletionTimestamp: true } }, records: { a: FINISHED }, want: {} },
  {
    name: "stops a running pod with a terminal phase as a desired pod, not as an orphan",
    desired: { a: DONE, b: { ...DONE, deletionTimestamp: true } },
    running: ["a", "b"],
    want: { create: ["a", "b"] },
  },
  { name: "kills running pods that are not desired and have no worker", running: ["x"], want: { killRuntimeOnly: ["x"] } },
  { name: "leaves a running pod to its worker", records: { x: TERMINATING, y: FINISHED }, running: ["x", "y"], want: {} },
  {
    name: "creates no worker for a mirror pod, and treats a running pod with its UID as an orphan",
    desired: { m: { ...POD, isMirror: true } },
    running: ["m"],
    want: { killRuntimeOnly: ["m"] },
  },
];

const LEFTOVERS: readonly Case[] = [
  {
    name: "stops the probes of pods that have stopped or are unknown",
    records: { a: started(), b: TERMINATING, c: TERMINATED, d: FINISHED },
    rest: { probedUids: ["a", "b", "c", "d", "e"] },
    want: { stopProbes: ["c", "d", "e"] },
  },
  {
    name: "drops statuses of pods that are not desired, but keeps those of mirror pods",
    desired: { a: POD, m: { ...POD, isMirror: true } },
    records: { a: started(), x: TERMINATING },
    rest: { cachedStatusUids: ["a", "m", "x"], due: new Set("a") },
    want: { dropStatuses: ["x"] },
  },
  {
    name: "removes directories only of pods that are not desired, not running, not mounted, and whose worker is done",
    desired: { a: POD, b: DONE },
    records: { a: started(), t: TERMINATING, d: TERMINATED, f: FINISHED, r: FINISHED },
    running: ["r"],
    rest: { directories: ["a", "b", "t", "d", "f", "r", "m", "x"], mountedUids: new Set(["m"]) },
    want: { removeDirectories: ["f", "x"] },
  },
  {
    id: "[node-agent 191]",
    name: "removes cgroups only of pods that are not terminating, not running, and not about to get a worker",
    desired: { a: POD, b: DONE, c: POD },
    records: { a: started(), t: TERMINATING, d: TERMINATED, f: FINISHED, r: FINISHED },
    running: ["r", "k"],
    rest: { cgroups: ["a", "b", "c", "t", "d", "f", "r", "k", "x"] },
    want: { create: ["c"], killRuntimeOnly: ["k"], removeCgroups: ["b", "d", "f", "x"] },
  },
  {
    id: "[node-agent 191]",
    name: "keeps a pod's cgroup at minimum shares while its directory exists",
    records: { d: TERMINATED },
    rest: { cgroups: ["d", "x", "y"], directories: ["d", "x"] },
    want: { removeCgroups: ["y"], reduceCgroups: ["d", "x"], removeDirectories: ["x"] },
  },
  {
    name: "deletes orphan mirrors, but not while their static pod terminates",
    records: {
      a: started({ isStatic: true, fullName: "a_ns", terminatingAtMs: 1 }),
      b: started({ isStatic: true, fullName: "b_ns", terminatingAtMs: 1, terminatedAtMs: 2 }),
      c: started({ isStatic: false, fullName: "c_ns", terminatingAtMs: 1 }),
      d: started({ isStatic: true, fullName: "d_ns" }),
    },
    rest: { orphanMirrors: ["a_ns", "b_ns", "c_ns", "d_ns", "e_ns"] },
    want: { deleteMirrors: ["b_ns", "c_ns", "d_ns", "e_ns"] },
  },
  {
    id: "[node-agent 120]",
    name: "releases full names whose holder disappeared without releasing them",
    desired: { back: POD },
    records: { live: started({ isStatic: true }), over: FINISHED },
    running: ["runs"],
    rest: {
      staticStarts: new Map([
        ["a", { startedUid: "gone", waitingUids: ["w"] }],
        ["b", { startedUid: "over", waitingUids: [] }],
        ["c", { startedUid: "live", waitingUids: [] }],
        ["d", { startedUid: "runs", waitingUids: [] }],
        ["e", { startedUid: "back", waitingUids: [] }],
        ["f", { waitingUids: ["w"] }],
      ]),
    },
    want: {
      create: ["back"],
      killRuntimeOnly: ["runs"],
      releaseFullNames: new Map([
        ["a", "gone"],
        ["b", "over"],
      ]),
    },
  },
];

const WORK_QUEUE: readonly Case[] = [
  {
    id: "[node-agent 124]",
    name: "enqueues all desired pods when the work queue is lost",
    desired: { a: POD, b: POD, c: POD },
    records: { a: started(), b: TERMINATING, c: record() },
    rest: { due: new Set() },
    want: { schedule: ["a", "b", "c"] },
  },
  {
    id: "[node-agent 124]",
    name: "enqueues desired pods that are not in the work queue, including new ones",
    desired: { a: POD, b: POD, c: POD },
    records: { a: started(), b: started() },
    rest: { due: new Set(["a"]) },
    want: { create: ["c"], schedule: ["b", "c"] },
  },
  {
    id: "[node-agent 124]",
    name: "does not enqueue pods without work: finished, rejected and mirror pods, and orphans",
    desired: { a: POD, b: DONE, m: { ...POD, isMirror: true } },
    records: { a: FINISHED, x: TERMINATING },
    rest: { due: new Set() },
    want: {},
  },
];

describe("housekeepingPlan", () => {
  it.each([...WORKERS, ...LEFTOVERS, ...WORK_QUEUE].map((row) => ({ id: "", ...row })))("$id $name", (row) => {
    expect(housekeepingPlan(input(row))).toEqual({ ...NOTHING, ...row.want });
  });
});

/** A node with three pods in random states. */
const NODES = fc.record({
  desired: fc.dictionary(fc.constantFrom("a", "b", "c"), fc.constantFrom(POD, DONE, { ...POD, isMirror: true })),
  records: fc.dictionary(fc.constantFrom("a", "b", "c"), fc.constantFrom(started(), TERMINATING, TERMINATED, FINISHED)),
  rest: fc.record({
    directories: fc.subarray(["a", "b", "c"]),
    cgroups: fc.subarray(["a", "b", "c"]),
    staticStarts: fc.constantFrom(new Map(), new Map([["web_shop", { startedUid: "a", waitingUids: [] }]])),
  }),
});

describe("[node-agent 480] needsCurrentList", () => {
  const steady = { name: "", desired: { a: POD }, records: { a: started() }, rest: { directories: ["a"], cgroups: ["a"] }, want: {} };

  it("needsCurrentList is false for a node without starting or ending pods", () => {
    expect(needsCurrentList(input({ ...steady, running: ["a"] }))).toBe(false);
    expect(needsCurrentList(input({ ...steady, running: ["a", "x"] }))).toBe(true);
    expect(needsCurrentList(input({ ...steady, records: { a: started(), b: FINISHED }, rest: { directories: ["a", "b"] } }))).toBe(true);
  });

  it("needsCurrentList is true whenever the list can change the plan", () => {
    const uids = fc.subarray(["a", "b", "c", "x"]);
    const law = fc.property(NODES, uids, uids, (node, seen, now) => {
      const asSeen = input({ ...node, running: seen, name: "", want: {} });
      fc.pre(!needsCurrentList(asSeen));
      const known = now.filter((uid) => asSeen.records.has(uid) || asSeen.desired.get(uid)?.isMirror === false);
      expect(housekeepingPlan({ ...asSeen, runningUids: new Set(known) })).toEqual(housekeepingPlan(asSeen));
    });
    fc.assert(law, { numRuns: 2_000 });
  });
});
