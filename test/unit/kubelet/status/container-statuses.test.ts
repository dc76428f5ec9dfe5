// Would catch: a restart that is not counted or counted twice, a lost exit code, and a running pod that is reported as Pending.
import { describe, expect, it } from "vitest";
import { containerStatuses } from "../../../../shared/node-agent/kubelet/status/container-statuses.ts";
import type { ObservedContainer } from "../../../../shared/node-agent/kubelet/types/observed-pod.ts";
import type { ContainerStatusEntry, NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import type { WaitingReason } from "../../../../shared/node-agent/ports/node-store.ts";
import { backOff, ended, entry, running, succeeded, waiting } from "../container-status-fixtures.ts";
import { IMAGE, ago, container, containerSpec, exited, nodePod, observed, sidecarSpec } from "../fixtures.ts";

const REF = `sha256:${"ab".repeat(32)}`;
const CRASH: WaitingReason = { reason: "CrashLoopBackOff", message: "back-off 10s" };
const RUNTIME = { runtimeName: "containerd" };
const STARTED = { startedAt: ago(40) };
const UNSEEN = {
  exitCode: 137,
  reason: "ContainerStatusUnknown",
  message: "The container could not be located when the pod was terminated",
};
const UNSEEN_RUN = { ...UNSEEN, message: "The container could not be located when the pod was deleted.  The container used to be Running" };

interface Case {
  readonly pod?: NodePod;
  readonly instances?: readonly ObservedContainer[];
  readonly previous?: ContainerStatusEntry;
  readonly reason?: WaitingReason;
}

/** Returns the status of the regular container `a`. */
function statusOf({ pod = nodePod({ containers: ["a"] }), instances = [], previous, reason }: Case): Partial<ContainerStatusEntry> {
  const known = { ...RUNTIME, pod, observed: observed({ containers: instances }), reasons: reason === undefined ? {} : { a: reason } };
  const group = { containers: pod.spec.containers, previous: previous && [previous], isInit: false };
  return containerStatuses(known, group)[0] ?? {};
}

describe("a container without an instance in the runtime", () => {
  const table: readonly (Case & { readonly name: string; readonly want: Partial<ContainerStatusEntry> })[] = [
    {
      name: "waits to be created",
      want: { state: { waiting: { reason: "ContainerCreating" } }, restartCount: 0, imageID: "", image: IMAGE },
    },
    {
      name: "waits for init containers",
      pod: nodePod({ initContainers: ["i"], containers: ["a"] }),
      want: { state: { waiting: { reason: "PodInitializing" } } },
    },
    { name: "keeps its state once it has terminated", previous: ended("a", 3), want: ended("a", 3) },
    {
      name: "keeps restart count and last termination while it waits",
      previous: backOff("a", 1),
      want: { state: { waiting: { reason: "ContainerCreating" } }, restartCount: 1, lastState: backOff("a", 1).lastState ?? {} },
    },
    {
      name: "waits with its unobserved exit in lastState and an incremented restartCount if it ran",
      previous: running("a", { restartCount: 2 }),
      want: { state: { waiting: { reason: "ContainerCreating" } }, restartCount: 3, lastState: { terminated: UNSEEN_RUN } },
    },
    {
      name: "has its unobserved exit in lastState and an unchanged restartCount if it ran in a pod that is being deleted",
      pod: nodePod({ containers: ["a"], deletionTimestamp: ago(5) }),
      previous: running("a", { restartCount: 2 }),
      want: { restartCount: 2, lastState: { terminated: UNSEEN_RUN } },
    },
    {
      name: "keeps a known last termination if it has run since",
      previous: running("a", { restartCount: 2, lastState: ended("a", 7).state ?? {} }),
      want: { restartCount: 2, lastState: ended("a", 7).state ?? {} },
    },
    {
      name: "waits with the reason if it could not be created",
      reason: { reason: "ErrImagePull", message: "no such image" },
      want: { state: { waiting: { reason: "ErrImagePull", message: "no such image" } }, lastState: {} },
    },
  ];
  it.each(table)("a container without an instance $name", ({ want, ...given }) => expect(statusOf(given)).toMatchObject(want));
});

describe("a container with instances in the runtime", () => {
  it("reports all fields of a running container", () => {
    expect(statusOf({ instances: [container({ name: "a", restartCount: 1 })] })).toEqual({
      name: "a",
      image: IMAGE,
      imageID: REF,
      containerID: "containerd://a-1",
      resources: {},
      ready: false,
      restartCount: 1,
      state: { running: { startedAt: ago(39) } },
      lastState: {},
    });
  });

  it("[node-agent 137] prefixes container ids with the runtime's name, and ignores the prefix in comparisons", () => {
    const pod = nodePod({ containers: ["a"] });
    const previous = [ended("a", 3, { containerID: "containerd://a-1" })];
    const known = { pod, observed: observed({ containers: [exited("a", 3, { restartCount: 1 }), exited("a", 2)] }), reasons: {} };
    const group = { containers: pod.spec.containers, previous, isInit: false };
    const [status] = containerStatuses({ ...known, runtimeName: "cri-o" }, group);
    expect(status).toMatchObject({
      containerID: "cri-o://a-1",
      state: { terminated: { exitCode: 3, containerID: "cri-o://a-1" } },
      lastState: { terminated: { exitCode: 2, containerID: "cri-o://a-0" } },
    });
    const alone = { pod, observed: observed({ containers: [exited("a", 3, { restartCount: 1 })] }), reasons: {}, runtimeName: "cri-o" };
    expect(containerStatuses(alone, group)[0]?.lastState).toEqual({});
  });

  it("[node-agent 92] reports exit code, reason, message and times of an exited container", () => {
    expect(statusOf({ instances: [exited("a", 3, { message: "bye" })] }).state).toEqual({
      terminated: { exitCode: 3, reason: "Error", message: "bye", ...STARTED, finishedAt: ago(10), containerID: "containerd://a-0" },
    });
  });

  it.each([
    { name: "the same container id", id: "containerd://a-0", want: "bye" },
    { name: "another container id, whose message is dropped", id: "containerd://a-9", want: undefined },
  ])(
    "keeps a reported termination message only for the same container when the termination log no longer exists: $name",
    ({ id, want }) => {
      const state = { terminated: { exitCode: 3, message: "bye", containerID: id } };
      const { state: now } = statusOf({ instances: [exited("a", 3)], previous: ended("a", 3, { state }) });
      expect(now?.terminated?.message).toBe(want);
    },
  );

  const table: readonly (Case & { readonly name: string; readonly want: Partial<ContainerStatusEntry> })[] = [
    { name: "CREATED waits", instances: [container({ name: "a", state: "CONTAINER_CREATED" })], want: { state: { waiting: {} } } },
    {
      name: "UNKNOWN waits, if it never ran",
      instances: [container({ name: "a", state: "CONTAINER_UNKNOWN" })],
      want: { state: { waiting: {} } },
    },
    {
      name: "UNKNOWN is terminated, if it ran",
      instances: [container({ name: "a", state: "CONTAINER_UNKNOWN" })],
      previous: running("a", { restartCount: 4 }),
      want: { state: { terminated: UNSEEN }, restartCount: 5 },
    },
    {
      name: "[node-agent 92] the newest instance is the state, the previous one the last state",
      instances: [container({ name: "a", restartCount: 2 }), exited("a", 1, { restartCount: 1 }), exited("a", 9)],
      want: {
        restartCount: 2,
        containerID: "containerd://a-2",
        lastState: { terminated: { exitCode: 1, containerID: "containerd://a-1" } as never },
      },
    },
    {
      name: "the termination of a removed instance is not lost",
      instances: [container({ name: "a", restartCount: 1 })],
      previous: ended("a", 5),
      want: { restartCount: 1, lastState: ended("a", 5).state ?? {} },
    },
    {
      name: "the termination before a removed instance is not lost while the same instance runs",
      instances: [container({ name: "a", restartCount: 1 })],
      previous: running("a", { containerID: "containerd://a-1", lastState: ended("a", 5).state ?? {} }),
      want: { lastState: ended("a", 5).state ?? {} },
    },
    {
      name: "an instance that just ended has no last state of its own",
      instances: [exited("a", 1)],
      previous: ended("a", 1, { containerID: "containerd://a-0" }),
      want: { lastState: {} },
    },
    {
      name: "the restart count never decreases",
      instances: [container({ name: "a", restartCount: 0 })],
      previous: running("a", { restartCount: 3 }),
      want: { restartCount: 3 },
    },
  ];
  it.each(table)("a container's status: $name", ({ want, ...given }) => expect(statusOf(given)).toMatchObject(want));
});

describe("a failed start", () => {
  it("[node-agent 92] moves the previous termination to lastState", () => {
    expect(statusOf({ instances: [exited("a", 1)], reason: CRASH })).toMatchObject({
      state: { waiting: { reason: "CrashLoopBackOff", message: "back-off 10s" } },
      lastState: { terminated: { exitCode: 1 } },
      containerID: "containerd://a-0",
    });
  });

  it.each([
    { name: "of a running container", given: { instances: [container({ name: "a" })] } },
    {
      name: "of a container that is not restarted",
      given: { pod: nodePod({ containers: ["a"], restartPolicy: "Never" }), instances: [exited("a", 1)] },
    },
    {
      name: "of a pod that is being deleted",
      given: { pod: nodePod({ containers: ["a"], deletionTimestamp: ago(5) }), instances: [exited("a", 1)] },
    },
  ])("drops the error of a failed start $name", ({ given }) => {
    expect(statusOf({ ...given, reason: CRASH })).toEqual(statusOf(given));
  });
});

describe("init containers", () => {
  interface InitCase {
    readonly pod: NodePod;
    readonly instances: readonly ObservedContainer[];
    readonly previous?: readonly ContainerStatusEntry[];
    readonly reasons?: Readonly<Record<string, WaitingReason>>;
  }
  function initStatuses({ pod, instances, previous, reasons = { i: CRASH } }: InitCase): readonly ContainerStatusEntry[] {
    const known = { ...RUNTIME, pod, observed: observed({ containers: instances }), reasons };
    return containerStatuses(known, { containers: pod.spec.initContainers ?? [], previous, isInit: true });
  }

  it("[node-agent 92] an init container that exited with 0 stays completed, even if its last start failed", () => {
    const pod = nodePod({ initContainers: ["i"], containers: ["a"] });
    expect(initStatuses({ pod, instances: [exited("i", 0)] })[0]?.state?.terminated?.exitCode).toBe(0);
    expect(initStatuses({ pod, instances: [exited("i", 1)] })[0]?.state?.waiting?.reason).toBe("CrashLoopBackOff");
  });

  it("treats a plain init container, but not a sidecar, without an instance as completed if a regular container was created", () => {
    const pod = nodePod({ initContainers: ["i", sidecarSpec("s")], containers: ["a"] });
    const [plain, sidecar] = initStatuses({ pod, instances: [container({ name: "a", state: "CONTAINER_CREATED" })] });
    expect(plain?.state?.terminated).toMatchObject({ exitCode: 0, reason: "Completed" });
    expect(sidecar?.state).toEqual({ waiting: { reason: "PodInitializing" } });
  });

  it("an init container without an instance keeps its last status", () => {
    const pod = nodePod({ initContainers: ["i"], containers: ["a"] });
    const instances = [container({ name: "a" })];
    expect(initStatuses({ pod, instances, previous: [ended("i", 0)], reasons: {} })[0]).toEqual(ended("i", 0));
  });

  it("init containers are in spec order, and regular containers are sorted by name", () => {
    const pod = nodePod({ initContainers: ["z", "b"], containers: ["y", "c", "a"], ephemeralContainers: ["e2", "e1"] });
    const known = { ...RUNTIME, pod, observed: observed({ containers: [] }), reasons: {} };
    const names = (containers: NodePod["spec"]["containers"], isInit: boolean): readonly string[] =>
      containerStatuses(known, { containers, previous: undefined, isInit }).map(({ name }) => name);
    expect(names(pod.spec.initContainers ?? [], true)).toEqual(["z", "b"]);
    expect(names(pod.spec.containers, false)).toEqual(["a", "c", "y"]);
  });
});

describe("stopped for a restart", () => {
  const cut = exited("a", 0, { endedForRestart: true });
  const lastState = { terminated: { exitCode: 0, containerID: "containerd://a-0" } };

  it.each(["OnFailure", "Never"] as const)(
    "[node-agent 127] %s: a container that was stopped for a restart is Waiting, not Terminated",
    (restartPolicy) => {
      const pod = nodePod({ containers: ["a"], restartPolicy });
      expect(statusOf({ pod, instances: [cut] })).toMatchObject({ state: { waiting: { reason: "ContainerCreating" } }, lastState });
      expect(statusOf({ pod, instances: [cut], reason: CRASH })).toMatchObject({ state: { waiting: CRASH }, lastState });
    },
  );

  it("[node-agent 127] reports a container as running while it is being stopped, and continues its restart count in its successor", () => {
    const pod = nodePod({ containers: ["a"], restartPolicy: "Never" });
    expect(statusOf({ pod, instances: [container({ name: "a", endedForRestart: true })] }).state?.running).toBeDefined();
    const next = statusOf({ pod, instances: [cut, container({ name: "a", restartCount: 1 })], previous: backOff("a", 0) });
    expect(next).toMatchObject({ restartCount: 1, state: { running: {} }, lastState });
  });

  it("[node-agent 127] reports an init container that was stopped for a restart as Waiting, too", () => {
    const pod = nodePod({ initContainers: ["a"], containers: ["b"], restartPolicy: "OnFailure" });
    const known = { pod, observed: observed({ containers: [cut] }), reasons: {}, ...RUNTIME };
    const [status] = containerStatuses(known, { containers: pod.spec.initContainers ?? [], previous: undefined, isInit: true });
    expect(status).toMatchObject({ state: { waiting: { reason: "PodInitializing" } }, lastState });
  });
});

it("returns the spec's volume mounts, with recursiveReadOnly Disabled for read-only ones", () => {
  const mounts = [
    { name: "v", mountPath: "/v" },
    { name: "r", mountPath: "/r", readOnly: true },
  ];
  const pod = nodePod({ containers: [containerSpec("a", { volumeMounts: mounts })] });
  const want = [
    { name: "v", mountPath: "/v" },
    { name: "r", mountPath: "/r", readOnly: true, recursiveReadOnly: "Disabled" },
  ];
  expect(statusOf({ pod }).volumeMounts).toEqual(want);
  expect(statusOf({ pod, instances: [container({ name: "a" })] }).volumeMounts).toEqual(want);
});

it("drops entries of containers that are not in the spec", () => {
  const pod = nodePod({ containers: ["a"] });
  const known = { ...RUNTIME, pod, observed: observed({ containers: [exited("gone", 0)] }), reasons: {} };
  const statuses = containerStatuses(known, {
    containers: pod.spec.containers,
    previous: [succeeded("gone"), waiting("a"), entry("x")],
    isInit: false,
  });
  expect(statuses.map(({ name }) => name)).toEqual(["a"]);
});
