/** Would catch: the log of the wrong container instance, and a missing reason if there is no log. */
import { describe, expect, it } from "vitest";

import { podLogTarget } from "../../../../shared/node-agent/kubelet/logs/pod-log-target.ts";
import type { ContainerStatusEntry } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { containerNamed, parseNodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";

type State = NonNullable<ContainerStatusEntry["state"]>;

const NOW: ContainerStatusEntry = { name: "c", image: "app", imageID: "", ready: false, restartCount: 1, containerID: "containerd://now" };
const running: State = { running: {} };
const ended = (containerID: string): State => ({ terminated: { exitCode: 1, containerID } });
const waiting = (reason: string): State => ({ waiting: { reason } });
const text = (words: string): object => ({ kind: "refused", text: words });
const instance = (id: string): object => ({ kind: "container", containerId: `containerd://${id}`, id });

describe("the instance of a log request", () => {
  const cases: readonly {
    readonly name: string;
    readonly state?: State;
    readonly lastState?: State;
    readonly previous?: true;
    readonly want: object;
  }[] = [
    { name: "the running one", state: running, lastState: ended("containerd://before"), want: instance("now") },
    { name: "the terminated one", state: ended("containerd://now"), lastState: ended("containerd://before"), want: instance("now") },
    {
      name: "the previous one when the next did not start",
      state: ended(""),
      lastState: ended("containerd://before"),
      want: instance("before"),
    },
    { name: "no instance when neither has an id", state: ended(""), want: text(`container "c" in pod "p" is terminated`) },
    {
      name: "the previous one while the next waits",
      state: waiting("CrashLoopBackOff"),
      lastState: ended("containerd://before"),
      want: instance("before"),
    },
    {
      name: "no instance when the previous one has no id",
      state: waiting("CrashLoopBackOff"),
      lastState: ended(""),
      want: text(`container "c" in pod "p" is terminated`),
    },
    {
      name: "the previous one with previous=true",
      state: running,
      lastState: ended("containerd://before"),
      previous: true,
      want: instance("before"),
    },
    {
      name: "no instance with previous=true when there was no previous one",
      state: running,
      previous: true,
      want: text(`previous terminated container "c" in pod "p" not found`),
    },
    {
      name: "no instance with previous=true if only the latest one has terminated",
      state: ended("containerd://now"),
      previous: true,
      want: text(`previous terminated container "c" in pod "p" not found`),
    },
    {
      name: "no instance with previous=true when the previous one has no id",
      state: running,
      lastState: ended(""),
      previous: true,
      want: text(`previous terminated container "c" in pod "p" not found`),
    },
    {
      name: "no instance while the container is created",
      state: waiting("ContainerCreating"),
      want: text(`container "c" in pod "p" is waiting to start: ContainerCreating`),
    },
    {
      name: "no instance while its image cannot be pulled",
      state: waiting("ErrImagePull"),
      want: text(`container "c" in pod "p" is waiting to start: image can't be pulled`),
    },
    {
      name: "no instance during the image back-off",
      state: waiting("ImagePullBackOff"),
      want: text(`container "c" in pod "p" is waiting to start: trying and failing to pull image`),
    },
    {
      name: "no instance in an unknown waiting state",
      state: {},
      want: text(`container "c" in pod "p" is waiting to start - no logs yet`),
    },
    { name: "no instance if the status has no state", want: text(`container "c" in pod "p" is waiting to start - no logs yet`) },
  ];
  it.each(cases)("selects $name [node-agent 103]", ({ state, lastState, previous = false, want }) => {
    const entry = { ...NOW, ...(state && { state }), ...(lastState && { lastState }) };
    expect(podLogTarget("p", { containerStatuses: [entry] }, "c", previous)).toEqual(want);
  });

  it("a log request finds init and ephemeral containers, and rejects a container without a status", () => {
    const entry = { ...NOW, state: running };
    expect(podLogTarget("p", { initContainerStatuses: [entry] }, "c", false)).toEqual(instance("now"));
    expect(podLogTarget("p", { ephemeralContainerStatuses: [entry] }, "c", false)).toEqual(instance("now"));
    expect(podLogTarget("p", { containerStatuses: [{ ...entry, name: "d" }] }, "c", false)).toEqual(
      text(`container "c" in pod "p" is not available`),
    );
    expect(podLogTarget("p", {}, "c", false)).toEqual(text(`container "c" in pod "p" is not available`));
  });
});

describe("containerNamed", () => {
  const pod = parseNodePod({
    metadata: { name: "p", namespace: "default", uid: "u" },
    spec: { containers: [{ name: "main" }], initContainers: [{ name: "init" }], ephemeralContainers: [{ name: "debug" }] },
  });
  it.each(["main", "init", "debug"])("finds any container in the pod's spec: %s", (name) =>
    expect(containerNamed(pod, name)?.name).toBe(name),
  );
  it("returns undefined for a name that is not in the spec", () => expect(containerNamed(pod, "none")).toBeUndefined());
});
