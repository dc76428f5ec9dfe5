// The first finding of each kind of incident, from objects and messages in upstream's formats. Would catch: an effect that ranks above its
// cause.
import { describe, expect, it } from "vitest";
import { verdictText } from "../../../../cli/explain/verdict-text.ts";
import type { Placed } from "../../../support/incident.ts";
import { at, deployment, event, oldPods, pod, replicaSet, verdictOn } from "../../../support/incident.ts";

const RUNTIME =
  'rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/app:v2": failed to resolve reference "docker.io/library/app:v2": ';
const waiting = (reason: string, message?: string): object => ({ waiting: { reason, ...(message !== undefined && { message }) } });
const ended = (fields: object): object => ({ terminated: { finishedAt: at(-30), startedAt: at(-40), ...fields } });
const running = { running: { startedAt: at(-200) } };
const crash = (last: object, more: object = {}): Placed =>
  pod({
    status: { phase: "Running" },
    state: { ...waiting("CrashLoopBackOff", "back-off 40s restarting failed container=web pod=web-b-1_shop(u)") },
    web: { restartCount: 4, lastState: ended(last) },
    ...more,
  });
const unschedulable = (message: string): Placed =>
  pod({
    spec: { nodeName: undefined },
    status: {
      conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message, lastTransitionTime: at(-280) }],
      containerStatuses: [],
    },
  });
const refused = (message: string): Placed =>
  replicaSet("web-b", {
    status: {
      replicas: 0,
      conditions: [{ type: "ReplicaFailure", status: "True", reason: "FailedCreate", message, lastTransitionTime: at(-290) }],
    },
  });
const node = (status: string, reason: string): Placed => [
  "nodes",
  {
    metadata: { name: "n1", uid: "uid-n1", resourceVersion: "3" },
    spec: {},
    status: { conditions: [{ type: "Ready", status, reason, lastTransitionTime: at(-120) }] },
  },
];
const PREEMPTOR = "c9930744-f50d-4cdc-8e78-08995b7228de";
const QUOTA = 'pods "web-b-x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3';
const readinessProbe = { httpGet: { path: "/health?key=x", port: 8080 }, periodSeconds: 10, failureThreshold: 3 };

const disrupted = (reason: string): object => ({ type: "DisruptionTarget", status: "True", reason, lastTransitionTime: at(-60) });
/** A Deployment with the same selector as the examined one. */
const another = (namespace: string): Placed => {
  const [resource, fields] = deployment();
  return [resource, { ...fields, metadata: { namespace, name: "other", uid: "uid-other", resourceVersion: "5" } }];
};

describe("the first cause", () => {
  it.each<{ readonly name: string; readonly objects: readonly Placed[]; readonly kind: string; readonly words: RegExp }>([
    {
      name: "an image that does not exist",
      objects: [
        pod({
          state: {
            ...waiting("ImagePullBackOff", `Back-off pulling image "app:v2": ErrImagePull: ${RUNTIME}docker.io/library/app:v2: not found`),
          },
        }),
        event("Failed", "Error: ImagePullBackOff"),
      ],
      kind: "image not found",
      words: /image app:v2 of container web cannot be pulled: the registry does not have it/,
    },
    {
      name: "an image pull error that only the Event classifies",
      objects: [
        pod({ state: { ...waiting("ImagePullBackOff", 'Back-off pulling image "app:v2"') } }),
        event(
          "Failed",
          `Failed to pull image "app:v2": ${RUNTIME}pull access denied, repository does not exist or may require authorization`,
        ),
      ],
      kind: "image denied",
      words: /access denied, or the repository does not exist/,
    },
    {
      name: "an OOM kill",
      objects: [crash({ reason: "OOMKilled", exitCode: 137 })],
      kind: "container out of memory",
      words: /out of memory \(limit 64Mi\)/,
    },
    {
      name: "exit code 137 without the reason OOMKilled",
      objects: [crash({ reason: "Error", exitCode: 137 })],
      kind: "container signalled",
      words: /SIGKILL \(exit code 137\)/,
    },
    {
      name: "exit code 137 of a container that the kubelet no longer found",
      objects: [crash({ reason: "ContainerStatusUnknown", exitCode: 137 })],
      kind: "container lost",
      words: /lost by the kubelet/,
    },
    { name: "a segmentation fault", objects: [crash({ reason: "Error", exitCode: 139 })], kind: "container signalled", words: /SIGSEGV/ },
    { name: "an exit code", objects: [crash({ reason: "Error", exitCode: 3 })], kind: "container failed", words: /ends with exit code 3/ },
    {
      name: "a process that exits with 0",
      objects: [crash({ reason: "Completed", exitCode: 0 })],
      kind: "container completed",
      words: /exit code 0 and is restarted/,
    },
    {
      name: "a missing key of a Secret",
      objects: [pod({ state: { ...waiting("CreateContainerConfigError", "couldn't find key token in Secret shop/web-token") } })],
      kind: "key missing",
      words: /Secret web-token has no key token/,
    },
    {
      name: "a missing ConfigMap",
      objects: [pod({ state: { ...waiting("CreateContainerConfigError", 'configmap "web-conf" not found') } })],
      kind: "object missing",
      words: /ConfigMap web-conf does not exist/,
    },
    {
      name: "a command that is not in the image",
      objects: [
        crash({ reason: "StartError", exitCode: 128 }),
        event(
          "Failed",
          'Error: failed to create containerd task: failed to create shim task: OCI runtime create failed: exec: "secret": executable file not found in $PATH: unknown',
        ),
      ],
      kind: "command missing",
      words: /its command is not in the image/,
    },
    {
      name: "a failing readiness probe",
      objects: [
        pod({ container: { readinessProbe }, status: { phase: "Running" }, state: running }),
        event("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503"),
      ],
      kind: "probe status",
      words: /readiness probe of container web fails: the application answers 503/,
    },
    {
      name: "a failing startup probe",
      objects: [
        pod({
          container: { startupProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1, failureThreshold: 30 } },
          status: { phase: "Running" },
          web: { started: false },
          state: running,
        }),
        event("Unhealthy", "Startup probe failed: dial tcp 10.0.0.1:8080: connect: connection refused"),
      ],
      kind: "probe refused",
      words: /startup probe .* nothing listens on port 8080/,
    },
    {
      name: "a failing liveness probe, not the exits that it causes",
      objects: [
        crash({ reason: "Error", exitCode: 137 }),
        event("Killing", "Container web failed liveness probe, will be restarted", { type: "Normal" }),
      ],
      kind: "killed by probe",
      words: /restarts container web: its liveness probe fails/,
    },
    {
      name: "too little CPU",
      objects: [
        unschedulable(
          "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.",
        ),
      ],
      kind: "unschedulable",
      words: /none of 3 nodes takes the pod: not enough\s+cpu\s+\(3\)/,
    },
    {
      name: "the newest scheduling failure, not the first one in the condition",
      objects: [
        refused(QUOTA),
        event("FailedCreate", 'Error creating: admission webhook "policy.example.com" denied the request: no', {
          of: "web-b",
          kind: "ReplicaSet",
        }),
      ],
      kind: "webhook denied",
      words: /admission webhook policy.example.com denies new pods/,
    },
    {
      name: "an exhausted quota",
      objects: [refused(QUOTA)],
      kind: "quota exceeded",
      words: /ResourceQuota small refuses new pods: requested pods=1, used pods=3/,
    },
    {
      name: "a node that no longer reports its status, not the pods on it",
      objects: [node("Unknown", "NodeStatusUnknown"), pod({ container: { readinessProbe }, status: { phase: "Running" }, state: running })],
      kind: "node silent",
      words: /node n1 does not report/,
    },
    {
      name: "a volume whose Secret is missing",
      objects: [
        pod({ state: { ...waiting("ContainerCreating") } }),
        event("FailedMount", 'MountVolume.SetUp failed for volume "conf" : secret "web-conf" not found'),
      ],
      kind: "volume object missing",
      words: /Secret web-conf does not exist/,
    },
    {
      name: "an image pull, not the deadline that it exceeds",
      objects: [
        pod({ state: { ...waiting("ErrImagePull", `${RUNTIME}docker.io/library/app:v2: not found`) } }),
        deployment({
          status: { conditions: [{ type: "Progressing", status: "False", reason: "ProgressDeadlineExceeded", lastUpdateTime: at(-10) }] },
        }),
      ],
      kind: "image not found",
      words: /cannot be pulled/,
    },
    { name: "a pause", objects: [deployment({ spec: { paused: true } })], kind: "paused", words: /paused/ },
    {
      name: "a controller that is not running",
      objects: [deployment({ metadata: { generation: 3 } })],
      kind: "controller does not act",
      words: /has not observed the last change of deployment\/web/,
    },
    {
      name: "an init container that does not exit",
      objects: [
        pod({
          spec: { initContainers: [{ name: "wait", image: "wait:v1" }] },
          status: { initContainerStatuses: [{ name: "wait", ready: false, restartCount: 0, state: { running: { startedAt: at(-400) } } }] },
          state: { ...waiting("PodInitializing") },
        }),
      ],
      kind: "init container runs",
      words: /init container wait does not exit/,
    },
    {
      name: "a node under memory pressure",
      objects: [
        pod({
          status: {
            phase: "Failed",
            reason: "Evicted",
            message: "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ",
          },
        }),
      ],
      kind: "evicted",
      words: /the kubelet of n1 evicted pods: the node is low on memory/,
    },
    {
      name: "a node that rejects a bound pod",
      objects: [pod({ status: { phase: "Failed", reason: "OutOfcpu" } })],
      kind: "rejected by the node",
      words: /nodes refuse pods that were bound to them \(OutOfcpu/,
    },
    {
      name: "a volume that is attached to another node",
      objects: [
        pod({ state: { waiting: { reason: "ContainerCreating" } } }),
        event(
          "FailedAttachVolume",
          'Multi-Attach error for volume "pvc-1" Volume is already exclusively attached to one node and can\'t be attached to another',
        ),
      ],
      kind: "volume attached elsewhere",
      words: /volume pvc-1 is attached to another node/,
    },
    {
      name: "a preemption",
      objects: [pod({ metadata: { deletionTimestamp: at(20) }, status: { conditions: [disrupted("PreemptionByScheduler")] } })],
      kind: "preempted",
      words: /pod\/web-b-1 was preempted for another pod, which has a\s+higher priority/,
    },
    {
      name: "a preemption by an existing pod of a pod that was deleted",
      objects: [
        pod({ metadata: { uid: PREEMPTOR, ownerReferences: [] }, spec: { nodeName: undefined, priorityClassName: "high" } }, "urgent"),
        event("Preempted", `Preempted by pod ${PREEMPTOR} on node n1`, { of: "web-b-9", type: "Normal" }),
      ],
      kind: "preempted",
      words: /pod\/web-b-9 was preempted for pod\/urgent, which has a higher\s+priority\s+\(PriorityClass high\)/,
    },
    {
      name: "a preemption of several pods, one of which exists, by a pod of another namespace",
      objects: [
        pod({ metadata: { uid: PREEMPTOR, ownerReferences: [], namespace: "bank" }, spec: { nodeName: undefined } }, "urgent"),
        ...["web-b-1", "web-b-8"].map((of) => event("Preempted", `Preempted by pod ${PREEMPTOR} on node n1`, { of, type: "Normal" })),
        pod({ metadata: { deletionTimestamp: at(20) }, status: { conditions: [disrupted("PreemptionByScheduler")] } }),
      ],
      kind: "preempted",
      words: /pod\/web-b-1 and 1 more were preempted for pod\/urgent -n bank,\s+which\s+has\s+a\s+higher\s+priority/,
    },
    ...[
      { name: "the default PriorityClass", spec: {}, words: /different priorities: the default\s+PriorityClass has\s+changed/ },
      {
        name: "the PriorityClass of the template",
        spec: { template: { spec: { containers: [], priorityClassName: "high" } } },
        words: /different priorities: their\s+PriorityClass has\s+changed/,
      },
    ].map(({ name, spec, words }) => ({
      name: `a preemption between pods of one ReplicaSet after a change of ${name}`,
      objects: [
        replicaSet("web-b", { spec }),
        pod({ metadata: { uid: PREEMPTOR } }),
        event("Preempted", `Preempted by pod ${PREEMPTOR} on node n1`, { of: "web-b-9", type: "Normal" }),
      ],
      kind: "preempted",
      words,
    })),
    {
      name: "a node drain",
      objects: [pod({ metadata: { deletionTimestamp: at(20) }, status: { conditions: [disrupted("EvictionByEvictionAPI")] } })],
      kind: "drained",
      words: /evicted through the API/,
    },
    {
      name: "another Deployment with the same selector",
      objects: [pod(), another("shop")],
      kind: "overlapping selectors",
      words: /the selector of deployment\/other matches the same pods/,
    },
    {
      name: "a hash collision",
      objects: [
        deployment({ status: { collisionCount: 2 } }),
        ...(["web-a", "web-b"] as const).map((name): Placed => [
          "replicasets",
          { metadata: { namespace: "shop", name, uid: `uid-${name}`, resourceVersion: "8" } },
        ]),
      ],
      kind: "hash collision",
      words: /the name of the new ReplicaSet was taken 2 times/,
    },
    {
      name: "a finalizer",
      objects: [
        pod({
          metadata: { deletionTimestamp: at(-200), deletionGracePeriodSeconds: 30, finalizers: ["example.com/hold"] },
          status: { phase: "Succeeded" },
        }),
      ],
      kind: "held by a finalizer",
      words: /finalizer example.com\/hold/,
    },
  ])("the first cause is $name", ({ objects, kind, words }) => {
    const verdict = verdictOn(...objects);
    const [first] = verdict.findings;
    expect(first?.kind).toBe(kind);
    expect(first?.words.cause).toMatch(words);
    expect(verdict.health).toBe("stuck");
    const lines = verdictText(verdict).split("\n");
    expect(lines.slice(0, 5).join(" ").replaceAll(/\s+/g, " ")).toMatch(words);
    expect(lines.length).toBeLessThanOrEqual(26);
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
  });
});

describe("no cause", () => {
  it.each<{ readonly name: string; readonly objects: readonly Placed[] }>([
    { name: "for a pod that starts", objects: [pod({ state: { ...waiting("ContainerCreating") } })] },
    {
      name: "for a probe within its threshold",
      objects: [
        pod({ container: { readinessProbe }, status: { phase: "Running" }, state: { running: { startedAt: at(-20) } } }),
        event("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503"),
      ].map(([resource, fields]): Placed =>
        resource === "pods"
          ? [
              resource,
              {
                ...fields,
                status: { ...(fields["status"] as object), conditions: [{ type: "Ready", status: "False", lastTransitionTime: at(-20) }] },
              },
            ]
          : [resource, fields],
      ),
    },
    { name: "for a pod of the old revision", objects: [crashOf("web-a-1"), pod({ state: { ...waiting("ContainerCreating") } })] },
    {
      name: "for a pod that is deleted within its grace period",
      objects: [pod({ metadata: { deletionTimestamp: at(20), deletionGracePeriodSeconds: 30 } })],
    },
    {
      name: "for a restart after which the container keeps running",
      objects: [
        pod({
          status: { phase: "Running" },
          state: running,
          web: { ready: true, restartCount: 1, lastState: ended({ reason: "Error", exitCode: 1 }) },
        }),
      ],
    },
    {
      name: "for an init container that runs as long as others did",
      objects: [
        pod({
          spec: { initContainers: [{ name: "wait", image: "wait:v1" }] },
          status: { initContainerStatuses: [{ name: "wait", ready: false, restartCount: 0, state: { running: { startedAt: at(-100) } } }] },
          state: { ...waiting("PodInitializing") },
        }),
      ],
    },
    { name: "for a Deployment with the same selector in another namespace", objects: [pod(), another("else")] },
    {
      name: "while the autoscaler adds a node",
      objects: [
        unschedulable("0/3 nodes are available: 3 Insufficient cpu."),
        event("TriggeredScaleUp", "pod triggered scale-up: [{g 1->2 (max: 5)}]", { type: "Normal" }),
      ],
    },
  ])("reports no cause $name", ({ objects }) => {
    const { findings, health } = verdictOn(...objects);
    expect(findings.filter(({ level }) => level === "cause")).toEqual([]);
    expect(health).toBe("progressing");
  });
});

function crashOf(name: string): Placed {
  return pod(
    {
      status: { phase: "Running" },
      state: { ...waiting("CrashLoopBackOff") },
      web: { restartCount: 9, lastState: ended({ reason: "Error", exitCode: 1 }) },
    },
    name,
  );
}

it("reports that a rollout waits for minReadySeconds", () => {
  const { findings, health } = verdictOn(
    deployment({ spec: { minReadySeconds: 120 } }),
    pod({
      status: { phase: "Running", conditions: [{ type: "Ready", status: "True", lastTransitionTime: at(-60) }] },
      state: running,
      web: { ready: true },
    }),
  );
  expect(health).toBe("progressing");
  expect(findings[0]).toMatchObject({ kind: "waits for minReadySeconds", level: "wait", evidence: ["ready for 60 of 120 s"] });
});

it.each([
  { leftSeconds: 121, near: [] },
  { leftSeconds: 120, near: ["Progressing True, 120 of 600 s left"] },
  { leftSeconds: -5, near: ["Progressing True, 0 of 600 s left"] },
])("reports $near as an effect $leftSeconds s before the progress deadline", ({ leftSeconds, near }) => {
  const progressing = { type: "Progressing", status: "True", reason: "ReplicaSetUpdated", lastUpdateTime: at(leftSeconds - 600) };
  const { findings, health } = verdictOn(
    deployment({ status: { conditions: [progressing] } }),
    pod({ state: { ...waiting("ErrImageNeverPull", 'Container image "app:v2" is not present with pull policy of Never') } }),
  );
  expect(findings.filter(({ kind }) => kind === "deadline near").flatMap(({ evidence }) => evidence)).toEqual(near);
  expect(findings[0]).toMatchObject({ kind: "image never pulled", level: "cause" });
  expect(health).toBe("stuck");
});

it("reports no approaching deadline for a paused or complete rollout", () => {
  const near = { type: "Progressing", status: "True", reason: "ReplicaSetUpdated", lastUpdateTime: at(-599) };
  const paused = deployment({ spec: { paused: true }, status: { conditions: [near] } });
  const complete = deployment({
    status: { replicas: 3, updatedReplicas: 3, conditions: [{ ...near, reason: "NewReplicaSetAvailable" }] },
  });
  for (const each of [paused, complete]) expect(verdictOn(each).findings.map(({ kind }) => kind)).not.toContain("deadline near");
});

it("lists earlier changes, their field manager, and until when the controller waits", () => {
  const text = verdictText(
    verdictOn(pod({ state: { ...waiting("ErrImageNeverPull", 'Container image "app:v2" is not present with pull policy of Never') } })),
  );
  expect(text).toContain("Changed   web.image app:v1 → app:v2 at 10:05:00Z (field manager kubectl-set)");
  expect(text).toContain("Effect    3 of 3 pods available, 1 updated, 4 in total");
  expect(text).toContain("by 10:15:10Z");
  expect(text).toContain("kubectl -n shop rollout undo deployment/web");
});

it("reports a complete rollout as complete", () => {
  const complete = deployment({ status: { replicas: 3, updatedReplicas: 3 } });
  expect(verdictOn(complete, ...oldPods).health).toBe("complete");
});
