// Would catch: a container whose end is never noticed, a spurious event (each costs a sync), and a change that is lost because the status
// could not be read.
import { describe, expect, it } from "vitest";
import { LABELS } from "../../../../shared/node-agent/kubelet/types/labels.ts";
import { relist, withUnread } from "../../../../shared/node-agent/kubelet/pleg/relist.ts";
import type { RelistEntry, RelistRecord } from "../../../../shared/node-agent/kubelet/node-ports/relist-record.ts";
import type { Container, ContainerState, PodSandbox } from "../../../../shared/node-agent/ports/cri-types.ts";

const rest = { createdAtMs: 1, annotations: {} };

function container(id: string, state: ContainerState, uid = "pod"): Container {
  const metadata = { name: "c", attempt: 0 };
  return { ...rest, id, state, metadata, podSandboxId: "s", image: "i", imageRef: "i", labels: { [LABELS.podUid]: uid } };
}

function sandbox(id: string, state: PodSandbox["state"], uid = "pod"): PodSandbox {
  return { ...rest, id, state, metadata: { name: "p", namespace: "n", uid, attempt: 0 }, labels: {} };
}

const record = (states: Readonly<Record<string, RelistEntry["state"]>>): RelistRecord => ({
  states: Object.fromEntries(Object.entries(states).map(([id, state]) => [id, { uid: "pod", state }])),
});

function events(before: RelistRecord | undefined, ...now: readonly (Container | PodSandbox)[]): readonly string[] {
  const containers = now.filter((item): item is Container => "podSandboxId" in item);
  const sandboxes = now.filter((item): item is PodSandbox => !("podSandboxId" in item));
  return relist(before, sandboxes, containers).events.map(({ type, id }) => `${type.replace("Container", "")} ${id}`);
}

describe("relist", () => {
  const RUNNING = "CONTAINER_RUNNING";
  const EXITED = "CONTAINER_EXITED";
  it.each([
    { name: "a new running container", before: undefined, now: [container("c", RUNNING)], want: ["Started c"] },
    { name: "a new container that has already exited", before: undefined, now: [container("c", EXITED)], want: ["Died c"] },
    { name: "a new created container", before: undefined, now: [container("c", "CONTAINER_CREATED")], want: [] },
    { name: "an unchanged container", before: record({ c: "running" }), now: [container("c", RUNNING)], want: [] },
    { name: "a container created, then started", before: record({ c: "created" }), now: [container("c", RUNNING)], want: ["Started c"] },
    {
      name: "[node-agent 87] a container running, then exited",
      before: record({ c: "running" }),
      now: [container("c", EXITED)],
      want: ["Died c"],
    },
    { name: "[node-agent 87] a container exited, then removed", before: record({ c: "exited" }), now: [], want: ["Removed c"] },
    { name: "[node-agent 87] a container running, then removed", before: record({ c: "running" }), now: [], want: ["Died c", "Removed c"] },
    { name: "a container created, then removed", before: record({ c: "created" }), now: [], want: ["Died c", "Removed c"] },
    { name: "a container unknown, then removed", before: record({ c: "unknown" }), now: [], want: ["Died c", "Removed c"] },
    { name: "a container running, then unknown", before: record({ c: "running" }), now: [container("c", "CONTAINER_UNKNOWN")], want: [] },
    { name: "a container unknown, then running", before: record({ c: "unknown" }), now: [container("c", RUNNING)], want: ["Started c"] },
    { name: "a new sandbox", before: undefined, now: [sandbox("s", "SANDBOX_READY")], want: ["Started s"] },
    { name: "a sandbox that died", before: record({ s: "running" }), now: [sandbox("s", "SANDBOX_NOTREADY")], want: ["Died s"] },
    { name: "a dead sandbox that was removed", before: record({ s: "exited" }), now: [], want: ["Removed s"] },
    {
      name: "a restart while another container runs",
      before: record({ s: "running", a: "running", b: "running" }),
      now: [sandbox("s", "SANDBOX_READY"), container("a", EXITED), container("a2", RUNNING), container("b", RUNNING)],
      want: ["Died a", "Started a2"],
    },
  ] as const)("relist: $name", ({ before, now, want }) => {
    expect(events(before, ...now)).toEqual(want);
  });

  it("returns the pod of each event, even if nothing of the pod is left", () => {
    const before = relist(
      undefined,
      [sandbox("s1", "SANDBOX_READY", "one")],
      [container("c1", RUNNING, "one"), container("c2", RUNNING, "two")],
    );
    expect(relist(before.record, [], [container("c2", EXITED, "two")]).events).toEqual([
      { uid: "one", type: "ContainerDied", id: "s1" },
      { uid: "one", type: "ContainerRemoved", id: "s1" },
      { uid: "one", type: "ContainerDied", id: "c1" },
      { uid: "one", type: "ContainerRemoved", id: "c1" },
      { uid: "two", type: "ContainerDied", id: "c2" },
    ]);
  });

  it("emits no event for an unknown state, but records it", () => {
    const { events, record: after } = relist(record({ c: "running" }), [], [container("c", "CONTAINER_UNKNOWN")]);
    expect([events, after.states["c"]?.state]).toEqual([[], "unknown"]);
  });

  it("ignores objects without a pod's UID", () => {
    expect(relist(undefined, [], [{ ...container("c", RUNNING), labels: {} }])).toEqual({
      record: { states: {} },
      events: [],
    });
  });

  it("[node-agent 87] repeats in the next relist only the events of pods whose inspection failed", () => {
    const before = relist(undefined, [], [container("a", RUNNING, "one"), container("b", RUNNING, "two")]).record;
    const now = [container("a", EXITED, "one"), container("a2", RUNNING, "one"), container("b", EXITED, "two")];
    const first = relist(before, [], now);
    expect(first.events.map(({ id }) => id)).toEqual(["a", "b", "a2"]);
    const second = relist(withUnread(before, first.record, ["one"]), [], now);
    expect(second.events).toEqual([
      { uid: "one", type: "ContainerDied", id: "a" },
      { uid: "one", type: "ContainerStarted", id: "a2" },
    ]);
    expect(relist(withUnread(undefined, first.record, ["one"]), [], now).events.map(({ id }) => id)).toEqual(["a", "a2"]);
    expect(relist(withUnread(before, first.record, []), [], now).events).toEqual([]);
  });

  it("[node-agent 87] reports a removed container again if the inspection of its pod failed", () => {
    const before = relist(undefined, [], [container("a", RUNNING)]).record;
    const first = relist(before, [], []);
    expect(relist(withUnread(before, first.record, ["pod"]), [], []).events).toEqual(first.events);
    expect(first.events.map(({ type }) => type)).toEqual(["ContainerDied", "ContainerRemoved"]);
  });
});
