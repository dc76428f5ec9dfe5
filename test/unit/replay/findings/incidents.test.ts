// The first finding of each kind of incident, from objects and messages of upstream's formats. Would catch an effect that ranks above its cause.
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
const QUOTA = 'pods "web-b-x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3';
const readinessProbe = { httpGet: { path: "/health?key=x", port: 8080 }, periodSeconds: 10, failureThreshold: 3 };

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
      name: "an image whose class only the Event tells",
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
      name: "out of memory",
      objects: [crash({ reason: "OOMKilled", exitCode: 137 })],
      kind: "container out of memory",
      words: /out of memory \(limit 64Mi\)/,
    },
    {
      name: "137 without that reason",
      objects: [crash({ reason: "Error", exitCode: 137 })],
      kind: "container signalled",
      words: /SIGKILL \(exit code 137\)/,
    },
    {
      name: "137 of a container that the kubelet lost",
      objects: [crash({ reason: "ContainerStatusUnknown", exitCode: 137 })],
      kind: "container lost",
      words: /lost by the kubelet/,
    },
    { name: "a segmentation fault", objects: [crash({ reason: "Error", exitCode: 139 })], kind: "container signalled", words: /SIGSEGV/ },
    { name: "an exit code", objects: [crash({ reason: "Error", exitCode: 3 })], kind: "container failed", words: /ends with exit code 3/ },
    {
      name: "a process that ends",
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
      name: "a readiness probe",
      objects: [
        pod({ container: { readinessProbe }, status: { phase: "Running" }, state: running }),
        event("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503"),
      ],
      kind: "probe status",
      words: /readiness probe of container web fails: the application answers 503/,
    },
    {
      name: "a startup probe",
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
      name: "a liveness probe, before the exits that it causes",
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
      words: /no node takes the pod \(0 of 3\): 3 not enough cpu/,
    },
    {
      name: "the newest refusal, not the condition's first",
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
      name: "a quota",
      objects: [refused(QUOTA)],
      kind: "quota exceeded",
      words: /ResourceQuota small refuses new pods: requested pods=1, used pods=3/,
    },
    {
      name: "a node that does not report, before the pods on it",
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
      name: "an image, before the deadline that it exceeds",
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
      name: "a controller that does not act",
      objects: [deployment({ metadata: { generation: 3 } })],
      kind: "controller does not act",
      words: /has not observed the last change of deployment\/web/,
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
  ])("$name", ({ objects, kind, words }) => {
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
    { name: "of a pod that starts", objects: [pod({ state: { ...waiting("ContainerCreating") } })] },
    {
      name: "of a probe within its threshold",
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
    { name: "of a pod of the old revision", objects: [crashOf("web-a-1"), pod({ state: { ...waiting("ContainerCreating") } })] },
    {
      name: "of a pod that is deleted within its grace period",
      objects: [pod({ metadata: { deletionTimestamp: at(20), deletionGracePeriodSeconds: 30 } })],
    },
    {
      name: "of a restart that the container survived",
      objects: [
        pod({
          status: { phase: "Running" },
          state: running,
          web: { ready: true, restartCount: 1, lastState: ended({ reason: "Error", exitCode: 1 }) },
        }),
      ],
    },
    {
      name: "while the autoscaler adds a node",
      objects: [
        unschedulable("0/3 nodes are available: 3 Insufficient cpu."),
        event("TriggeredScaleUp", "pod triggered scale-up: [{g 1->2 (max: 5)}]", { type: "Normal" }),
      ],
    },
  ])("$name", ({ objects }) => {
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

it("tells what was changed before, by which field manager, and until when the controller waits", () => {
  const text = verdictText(
    verdictOn(pod({ state: { ...waiting("ErrImageNeverPull", 'Container image "app:v2" is not present with pull policy of Never') } })),
  );
  expect(text).toContain("Changed   web.image app:v1 → app:v2 at 10:05:00Z (field manager kubectl-set)");
  expect(text).toContain("Effect    3 of 3 pods available, 1 updated, 4 in total");
  expect(text).toContain("by 10:15:10Z");
  expect(text).toContain("kubectl -n shop rollout undo deployment/web");
});

it("a complete rollout is complete", () => {
  const complete = deployment({ status: { replicas: 3, updatedReplicas: 3 } });
  expect(verdictOn(complete, ...oldPods).health).toBe("complete");
});

describe("a deletion", () => {
  it.each<{ readonly name: string; readonly finalizer: string; readonly help: RegExp }>([
    { name: "held by a finalizer", finalizer: "example.com/hold", help: /controller that owns the finalizer/ },
    { name: "in the foreground", finalizer: "foregroundDeletion", help: /dependents that are not deleted/ },
  ])("$name is its own state, although the rollout is complete", ({ finalizer, help }) => {
    const metadata = { deletionTimestamp: at(-60), finalizers: [finalizer] };
    const verdict = verdictOn(deployment({ metadata, status: { replicas: 3, updatedReplicas: 3 } }), ...oldPods);
    expect(verdict.health).toBe("deleting");
    const text = verdictText(verdict).replaceAll(/\s+/g, " ");
    expect(text).toContain(`: DELETING`);
    expect(text).toContain(`deleted at 2026-03-01T10:09:00Z; held by finalizer ${finalizer}`);
    expect(text).toMatch(help);
  });
});

const changesOf = (...objects: readonly Placed[]): string =>
  /Changed(?<changed>.*)Effect/s.exec(verdictText(verdictOn(...objects)))?.groups?.["changed"]?.replaceAll(/\s+/g, " ") ?? "";
const managerOf = (manager: string, seconds: number, spec: object): object => ({
  ...{ manager, operation: "Update", time: at(seconds), fieldsV1: { "f:spec": spec } },
});
const imageField = { "f:template": { "f:spec": { "f:containers": { 'k:{"name":"web"}': { "f:image": {} } } } } };

it("takes the time of a rollback from the field manager, not from the old ReplicaSet", () => {
  const managedFields = [managerOf("kubectl-rollout", -20, imageField)];
  expect(changesOf(deployment({ metadata: { managedFields } }), pod())).toContain("at 10:09:40Z (field manager kubectl-rollout)");
});

it("prints no time and no writer of a change that no field manager owns", () => {
  expect(changesOf(deployment({ metadata: { managedFields: [] } }), pod())).toContain("at an unknown time (not recorded who)");
});

it("lists the change that matches the cause first, also of a pause that was not recorded", () => {
  const managedFields = [managerOf("kubectl-rollout", -200, { "f:paused": {} }), managerOf("kubectl-set", -100, imageField)];
  expect(changesOf(deployment({ spec: { paused: true }, metadata: { managedFields } }), pod())).toMatch(
    /^ paused true at 10:06:40Z \(field manager kubectl-rollout\) web.image/,
  );
});

const textOf = (...objects: readonly Placed[]): string => verdictText(verdictOn(...objects)).replaceAll(/\s+/g, " ");
const first = (resource: Placed[0]): Placed => [resource, { metadata: { name: "web-a", uid: "uid-other", resourceVersion: "1" } }];
const backOff = (message?: string): Placed => pod({ state: waiting("ImagePullBackOff", message) });

it("offers no rollback without an earlier revision", () => {
  const text = textOf(first("replicasets"), backOff());
  expect(text).toContain("kubectl -n shop set image deployment/web web=IMAGE");
  expect(text).not.toContain("rollout undo");
});

it.each([
  { message: undefined, words: "cannot be pulled: reason ImagePullBackOff (certain)" },
  { message: 'Back-off pulling image "app:v2"', words: "cannot be pulled: reason ImagePullBackOff (certain)" },
  { message: "a text of another kubelet", words: "the message is of no known format, reason ImagePullBackOff (certain)" },
])("of an image pull with the message $message it says what is known", ({ message, words }) => {
  expect(textOf(backOff(message))).toContain(words);
});

it("offers maxSurge 0 against a quota only while old pods can go", () => {
  expect(textOf(refused(QUOTA))).toContain("or set maxSurge 0");
  const noOldPods = oldPods.map(([resource, { metadata }]): Placed => [resource, { metadata: { ...(metadata as object), ownerReferences: [] } }]);
  expect(textOf(refused(QUOTA), ...noOldPods)).not.toContain("set maxSurge");
});

it("counts pods from the objects while the status is of an earlier generation", () => {
  const stale = { metadata: { generation: 3 }, status: { replicas: 3, updatedReplicas: 3 } };
  expect(textOf(deployment(stale), backOff())).toContain("Effect 3 of 3 pods available, 1 updated, 4 in total");
  const others = oldPods.map(([resource, { metadata }]): Placed => [resource, { metadata: { ...(metadata as object), ownerReferences: [] } }]);
  expect(textOf(deployment(stale), ...others)).toContain("3 updated, by the status of the previous generation");
});

it("a pause that holds back nothing is no cause, and one of a changed template without pods is", () => {
  const none = { replicas: 0, updatedReplicas: 0, readyReplicas: 0, availableReplicas: 0 };
  const paused = deployment({ spec: { paused: true, replicas: 0 }, status: none });
  expect(verdictOn(paused).health).toBe("complete");
  expect(textOf(paused)).not.toContain("Cause");
  expect(textOf(paused)).toContain("Also the Deployment is paused");
  const changed = { containers: [{ name: "web", image: "app:v3" }] };
  const spec = { paused: true, replicas: 0, template: { spec: changed } };
  expect(verdictOn(deployment({ spec, status: none })).health).toBe("stuck");
});

it("names what a rolling update waits for, until when, and no rules", () => {
  const text = textOf(pod({ state: waiting("ContainerCreating") }));
  expect(text).toMatch(/Cause the rolling update waits .* lets no old one go; waiting for: pod\/web-b-1 /);
  expect(text).toContain("progress by 10:15:10Z; then it reports ProgressDeadlineExceeded");
  expect(text).not.toMatch(/§|none:/);
});

it("tells a capture from a cluster in what is unknown", () => {
  const verdict = verdictOn(pod({ state: waiting("ContainerCreating") }));
  expect(verdictText(verdict)).toContain("Unknown   not read: events");
  expect(verdictText(verdict, { recorded: true })).toContain("Unknown   not recorded: events");
});
