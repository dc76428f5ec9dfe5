// Would catch: a missed or spurious change, a wrong order of changes, and local annotations that are compared or lost.
import { describe, expect, it } from "vitest";
import type { NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { classify, UNSEEN_SOURCE } from "../../../../shared/node-agent/kubelet/config/pod-config.ts";
import type { SourceMessage, SourceState } from "../../../../shared/node-agent/kubelet/config/pod-config.ts";
import { ago, containerSpec, nodePod, NOW_MS } from "../fixtures.ts";
import type { PodOptions } from "../fixtures.ts";

const LATER_MS = NOW_MS + 60_000;
const SEEN = { "kubernetes.io/config.seen": "2026-03-01T10:00:00.000Z", "kubernetes.io/config.source": "api" };

function pod(name: string, options: PodOptions = {}): NodePod {
  return nodePod({ name, uid: `uid-${name}`, containers: ["main"], ...options });
}

/** Returns the state of a source after a SET with these pods. */
function knowing(...pods: readonly NodePod[]): SourceState {
  return classify(UNSEEN_SOURCE, "api", { op: "SET", pods }, NOW_MS).state;
}

/** Returns `UPDATE a` for each change that the message causes. */
function changes(state: SourceState, op: SourceMessage["op"], ...pods: readonly NodePod[]): readonly string[] {
  return classify(state, "api", { op, pods }, LATER_MS).changes.map((change) => `${change.op} ${change.pod.metadata.name}`);
}

const other = { containers: [containerSpec("main", { image: "registry.test/foo:v2" })] };
const running = { status: { phase: "Running" } };
const dying = { deletionTimestamp: ago(0), deletionGracePeriodSeconds: 30 };

describe("classify", () => {
  const table: {
    name: string;
    known: readonly NodePod[];
    op: SourceMessage["op"];
    sent: readonly NodePod[];
    want: readonly string[];
  }[] = [
    { name: "[node-agent 57] adds a new pod", known: [], op: "ADD", sent: [pod("a")], want: ["ADD a"] },
    { name: "[node-agent 57] ignores an unchanged pod", known: [pod("a")], op: "ADD", sent: [pod("a")], want: [] },
    {
      name: "[node-agent 57] deletes a pod with a deletionTimestamp",
      known: [pod("a")],
      op: "ADD",
      sent: [pod("a", dying)],
      want: ["DELETE a"],
    },
    {
      name: "deletes again with a shorter grace period",
      known: [pod("a", dying)],
      op: "SET",
      sent: [pod("a", { ...dying, deletionGracePeriodSeconds: 5 })],
      want: ["DELETE a"],
    },
    { name: "[node-agent 58] updates a pod with another image", known: [pod("a")], op: "ADD", sent: [pod("a", other)], want: ["UPDATE a"] },
    { name: "[node-agent 58] removes a pod", known: [pod("a")], op: "REMOVE", sent: [pod("a")], want: ["REMOVE a"] },
    { name: "ignores the removal of an unknown pod", known: [pod("a")], op: "REMOVE", sent: [pod("b")], want: [] },
    {
      name: "updates a pod with other labels",
      known: [pod("a")],
      op: "UPDATE",
      sent: [pod("a", { labels: { app: "web" } })],
      want: ["UPDATE a"],
    },
    {
      name: "[node-agent 59] emits removed pods of a complete list first, then new and changed ones",
      known: [pod("1"), pod("2"), pod("3")],
      op: "SET",
      sent: [pod("2", other), pod("3"), pod("4")],
      want: ["REMOVE 1", "ADD 4", "UPDATE 2"],
    },
    {
      name: "emits every kind of change of one list in a fixed order",
      known: [pod("1"), pod("2"), pod("3"), pod("4")],
      op: "SET",
      sent: [pod("2", running), pod("3", dying), pod("4", other), pod("5")],
      want: ["REMOVE 1", "ADD 5", "UPDATE 4", "DELETE 3", "RECONCILE 2"],
    },
    {
      name: "[node-agent 60] reconciles one pod whose status alone changed",
      known: [pod("a")],
      op: "ADD",
      sent: [pod("a", running)],
      want: ["RECONCILE a"],
    },
    {
      name: "[node-agent 60] reconciles a pod in a list whose status alone changed",
      known: [pod("a")],
      op: "SET",
      sent: [pod("a", running)],
      want: ["RECONCILE a"],
    },
    {
      name: "[node-agent 60] updates a pod whose status and spec changed",
      known: [pod("a")],
      op: "SET",
      sent: [pod("a", { ...other, ...running })],
      want: ["UPDATE a"],
    },
    {
      name: "[node-agent 62] updates a pod whose annotation from the source changed",
      known: [pod("a", { annotations: { note: "1" } })],
      op: "SET",
      sent: [pod("a", { annotations: { note: "2" } })],
      want: ["UPDATE a"],
    },
    {
      name: "[node-agent 62] updates a pod whose annotation was removed by the source",
      known: [pod("a", { annotations: { note: "1" } })],
      op: "SET",
      sent: [pod("a")],
      want: ["UPDATE a"],
    },
    {
      name: "[node-agent 62] ignores differences in only the kubelet's local annotations",
      known: [pod("a")],
      op: "SET",
      sent: [
        pod("a", {
          annotations: { "kubernetes.io/config.seen": "x", "kubernetes.io/config.source": "y", "kubernetes.io/config.mirror": "z" },
        }),
      ],
      want: [],
    },
    {
      name: "updates a pod with a changed config.hash",
      known: [pod("a", { annotations: { "kubernetes.io/config.hash": "1" } })],
      op: "SET",
      sent: [pod("a", { annotations: { "kubernetes.io/config.hash": "2" } })],
      want: ["UPDATE a"],
    },
    {
      name: "replaces a pod of the same name with another UID",
      known: [pod("a")],
      op: "SET",
      sent: [pod("a", { uid: "x" })],
      want: ["REMOVE a", "ADD a"],
    },
    {
      name: "keeps the other pods after a message about one pod",
      known: [pod("a"), pod("b")],
      op: "DELETE",
      sent: [pod("b", dying)],
      want: ["DELETE b"],
    },
  ];
  it.each(table)("classify: $name", ({ known, op, sent, want }) => {
    expect(changes(knowing(...known), op, ...sent)).toEqual(want);
  });

  it("[node-agent 61] emits an empty ADD for the first empty list, and none for later ones", () => {
    const first = classify(UNSEEN_SOURCE, "file", { op: "SET", pods: [] }, NOW_MS);
    expect(first).toEqual({ state: { pods: new Map(), seen: true }, changes: [], emptyAdd: true, duplicates: [] });
    expect(classify(first.state, "file", { op: "SET", pods: [] }, NOW_MS).emptyAdd).toBe(false);
  });

  it("emits no empty ADD if the first list has a pod, and updates of individual pods mark no source as ready", () => {
    expect(classify(UNSEEN_SOURCE, "api", { op: "SET", pods: [pod("a")] }, NOW_MS).emptyAdd).toBe(false);
    const added = classify(UNSEEN_SOURCE, "api", { op: "ADD", pods: [pod("a")] }, NOW_MS);
    expect([added.emptyAdd, added.state.seen]).toEqual([false, false]);
    // The list that completes the source changes nothing or only removes pods, but the sync loop must still receive it.
    expect(classify(added.state, "api", { op: "SET", pods: [pod("a")] }, NOW_MS).emptyAdd).toBe(true);
    const emptied = classify(added.state, "api", { op: "SET", pods: [] }, NOW_MS);
    expect([emptied.changes.length, emptied.emptyAdd]).toEqual([1, true]);
  });

  it("[node-agent 63] drops and reports the second of two pods with the same full name in a message", () => {
    const [first, second, elsewhere] = [pod("a"), pod("a", { uid: "2" }), pod("a", { uid: "3", namespace: "elsewhere" })];
    const { changes: made, duplicates, state } = classify(UNSEEN_SOURCE, "file", { op: "SET", pods: [first, second, elsewhere] }, NOW_MS);
    expect(made.map((change) => change.pod.metadata.uid)).toEqual(["uid-a", "3"]);
    expect(duplicates).toEqual([second]);
    expect([...state.pods.keys()]).toEqual(["uid-a", "3"]);
  });

  it("records the source and the first-seen time of a new pod", () => {
    const { changes: made, state } = classify(
      UNSEEN_SOURCE,
      "api",
      { op: "SET", pods: [pod("a", { annotations: { note: "1" } })] },
      NOW_MS,
    );
    expect(made[0]?.pod.metadata.annotations).toEqual({ note: "1", ...SEEN });
    expect(state.pods.get("uid-a")).toBe(made[0]?.pod);
  });

  it("[node-agent 62] an update keeps the local annotations and replaces everything else", () => {
    const known = knowing(pod("a", { annotations: { note: "1", "kubernetes.io/config.mirror": "m" } }));
    const sent = pod("a", {
      ...other,
      ...running,
      labels: { app: "web" },
      annotations: { note: "2" },
      metadata: { resourceVersion: "9", generation: 2 },
    });
    const { changes: made, state } = classify(known, "api", { op: "SET", pods: [sent] }, LATER_MS);
    const want = { ...sent.metadata, annotations: { note: "2", "kubernetes.io/config.mirror": "m", ...SEEN } };
    expect(made).toEqual([{ op: "UPDATE", pod: { ...sent, metadata: want } }]);
    expect(state.pods.get("uid-a")).toEqual(made[0]?.pod);
  });

  it("an update never changes the pod's identity", () => {
    const { changes: made } = classify(knowing(pod("a")), "file", { op: "SET", pods: [pod("b", { ...other, uid: "uid-a" })] }, LATER_MS);
    expect(made.map((change) => [change.op, change.pod.metadata.name])).toEqual([["UPDATE", "a"]]);
  });

  it("[node-agent 60] a reconcile replaces only the stored status", () => {
    const known = knowing(pod("a"));
    const { state } = classify(known, "api", { op: "SET", pods: [pod("a", running)] }, LATER_MS);
    expect(state.pods.get("uid-a")).toEqual({ ...known.pods.get("uid-a"), ...running });
    expect(changes(state, "SET", pod("a", running))).toEqual([]);
    expect(changes(state, "SET", pod("a"))).toEqual(["RECONCILE a"]);
  });

  // Otherwise each event of one pod would cost a deep comparison of all specs.
  it("recognizes an object that the source sends again after a status update by reference", () => {
    const sent = pod("a", running);
    const { state } = classify(knowing(pod("a")), "api", { op: "SET", pods: [sent] }, LATER_MS);
    expect(state.pods.get("uid-a")?.spec).toBe(sent.spec);
    expect(state.pods.get("uid-a")?.status).toBe(sent.status);
  });

  it("emits a change again if the new state was not recorded, even for the same object", () => {
    const known = knowing(pod("a"));
    const [sent, fresh] = [pod("a", other), pod("b")];
    for (let time = 0; time < 2; time++) expect(changes(known, "SET", sent, fresh)).toEqual(["ADD b", "UPDATE a"]);
    const { state } = classify(known, "api", { op: "SET", pods: [sent, fresh] }, LATER_MS);
    expect(changes(state, "SET", sent, fresh)).toEqual([]);
    expect(changes(state, "SET", sent)).toEqual(["REMOVE b"]);
  });

  it("does not modify the previous state", () => {
    const known = knowing(pod("a"), pod("b"));
    const before = structuredClone([...known.pods]);
    classify(known, "api", { op: "SET", pods: [pod("a", dying)] }, LATER_MS);
    classify(known, "api", { op: "REMOVE", pods: [pod("a")] }, LATER_MS);
    expect([...known.pods]).toEqual(before);
  });
});
