// When a verdict suggests `kubectl rollout undo`. Would catch: an undo to a revision that fails in the same way.
import { describe, expect, it } from "vitest";
import type { Fields, Placed } from "../../../support/incident.ts";
import { at, backOff, deployment, oldPods, pod, replicaSet, textOf, waiting, withoutPrevious } from "../../../support/incident.ts";

it("suggests no rollback without an earlier revision", () => {
  const text = textOf(withoutPrevious("replicasets"), backOff());
  expect(text).toContain("kubectl -n shop set image deployment/web web=IMAGE");
  expect(text).not.toContain("rollout undo");
});

it("suggests to undo a rollout only for changes that only the new pods have", () => {
  expect(textOf(backOff())).toContain("rollout undo");
  const away = { type: "Ready", status: "Unknown", reason: "NodeStatusUnknown", lastTransitionTime: at(-120) };
  const silent: Placed = [
    "nodes",
    { metadata: { name: "n1", uid: "uid-n1", resourceVersion: "3" }, spec: {}, status: { conditions: [away] } },
  ];
  const text = textOf(pod(), silent);
  expect(text).toContain("node n1 does not report");
  expect(text).not.toContain("rollout undo");
});

const two = (web: object, more: object = {}): Fields => ({
  template: {
    spec: {
      containers: [
        { name: "web", ...web },
        { name: "log", image: "log:v1", imagePullPolicy: "Always" },
      ],
      ...more,
    },
  },
});
const withToken = two({ env: [{ name: "TOKEN", valueFrom: {} }] });
const failingLog = { name: "log", ready: false, restartCount: 3 };
const podOf = (log: object): Placed =>
  pod({
    spec: {
      containers: [
        { name: "web", image: "app:v2" },
        { name: "log", image: "log:v1" },
      ],
    },
    status: {
      containerStatuses: [
        { name: "web", ready: true, restartCount: 0, state: {} },
        { ...failingLog, ...log },
      ],
    },
  });
const noImage = podOf({ state: waiting("ImagePullBackOff") });
const exits = podOf({
  state: waiting("CrashLoopBackOff"),
  lastState: { terminated: { reason: "Error", exitCode: 1, finishedAt: at(-30) } },
});
const noSecret = pod({ state: waiting("CreateContainerConfigError", 'secret "web-token" not found') });
const noNode = pod({ status: { conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable" }] } });

it.each<{ readonly name: string; readonly failing: Placed; readonly before: object; readonly now: object; readonly helps: boolean }>([
  { name: "an image that both revisions have", failing: noImage, before: { image: "app:v1" }, now: { image: "app:v2" }, helps: false },
  {
    name: "an exit after a change of another container",
    failing: exits,
    before: { image: "app:v1" },
    now: { image: "app:v2" },
    helps: false,
  },
  { name: "a Secret that both revisions need", failing: noSecret, before: { image: "app:v1" }, now: { image: "app:v2" }, helps: false },
  { name: "a new reference to a Secret", failing: noSecret, before: {}, now: { env: [{ name: "TOKEN", valueFrom: {} }] }, helps: true },
  {
    name: "no node for the additional pod of a rolling update",
    failing: noNode,
    before: { image: "a:1" },
    now: { image: "a:2" },
    helps: true,
  },
  { name: "no node after a change of requests", failing: noNode, before: {}, now: { resources: { requests: { cpu: "9" } } }, helps: true },
])("$name: suggests an undo only if the previous revision differs in what fails", ({ failing, before, now, helps }) => {
  const text = textOf(replicaSet("web-a", { spec: two(before) }), replicaSet("web-b", { spec: two(now) }), failing);
  expect(text.includes("rollout undo")).toBe(helps);
});

it("suggests an undo for an exit after a change of the pod's volumes", () => {
  const volumes = [{ name: "data", emptyDir: {} }];
  const text = textOf(replicaSet("web-a", { spec: two({}) }), replicaSet("web-b", { spec: two({}, { volumes }) }), exits);
  expect(text).toContain("rollout undo");
});

describe("strategy Recreate", () => {
  const noOldPods = oldPods.map(([resource, { metadata }]): Placed => [
    resource,
    { metadata: { ...(metadata as object), ownerReferences: [] } },
  ]);
  const recreated = (seconds: number, type = "Recreate"): readonly Placed[] => [
    deployment({
      spec: { strategy: { type }, ...withToken },
      status: { conditions: [{ type: "Available", status: "False", lastTransitionTime: at(seconds) }] },
    }),
    replicaSet("web-b", { spec: withToken }),
    noSecret,
    ...noOldPods,
  ];

  it("suggests to undo the rollout of a revision without available pods if the previous one was available", () => {
    const text = textOf(...recreated(-302));
    expect(text).toContain("kubectl -n shop rollout undo deployment/web");
    expect(text).toContain("Effect 0 of 3 pods available, 1 updated, 1 in total; strategy Recreate deleted the old pods first");
  });

  it.each([
    { name: "became unavailable after the rollout", objects: recreated(-200) },
    { name: "was unavailable before the previous revision", objects: recreated(-3_100) },
  ])("suggests no rollback and does not print the strategy for a Deployment that $name", ({ objects }) => {
    const text = textOf(...objects);
    expect(text).not.toContain("rollout undo");
    expect(text).not.toContain("Recreate");
  });

  it("is not printed for a rolling update", () => {
    expect(textOf(...recreated(-302, "RollingUpdate"))).not.toContain("Recreate");
  });
});
