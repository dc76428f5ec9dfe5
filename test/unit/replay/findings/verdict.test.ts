// The parts of a verdict other than the cause. Would catch: a remedy that does not apply, and a cause, effect and change that contradict
// each other.
import { describe, expect, it } from "vitest";
import { verdictText } from "../../../../cli/explain/verdict-text.ts";
import type { Placed } from "../../../support/incident.ts";
import { at, backOff, deployment, event, oldPods, pod, replicaSet, textOf, verdictOn, waiting } from "../../../support/incident.ts";

const refused = (message: string): Placed =>
  replicaSet("web-b", {
    status: {
      replicas: 0,
      conditions: [{ type: "ReplicaFailure", status: "True", reason: "FailedCreate", message, lastTransitionTime: at(-290) }],
    },
  });
const QUOTA = 'pods "web-b-x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3';

describe("a deletion", () => {
  it.each<{ readonly name: string; readonly finalizer: string; readonly help: RegExp }>([
    { name: "blocked by a finalizer", finalizer: "example.com/hold", help: /controller that owns the finalizer/ },
    { name: "in the foreground", finalizer: "foregroundDeletion", help: /dependents that are not deleted/ },
  ])("reports a Deployment whose deletion is $name as DELETING, even if the rollout is complete", ({ finalizer, help }) => {
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
  expect(changesOf(deployment({ metadata: { managedFields: [] } }), pod())).toContain("at an unknown time (client not recorded)");
});

it("lists the change that explains the cause first, even for a pause whose change was not recorded", () => {
  const managedFields = [managerOf("kubectl-rollout", -200, { "f:paused": {} }), managerOf("kubectl-set", -100, imageField)];
  expect(changesOf(deployment({ spec: { paused: true }, metadata: { managedFields } }), pod())).toMatch(
    /^ paused false → true at 10:06:40Z \(field manager kubectl-rollout\) web.image/,
  );
});

it("prints an added init container as such, with its field manager", () => {
  const migrate = { name: "migrate", image: "migrate:v1" };
  const fields = {
    "f:template": { "f:spec": { "f:initContainers": { 'k:{"name":"migrate"}': { ".": {}, "f:name": {}, "f:image": {} } } } },
  };
  const managedFields = [managerOf("kubectl-client-side-apply", -300, fields)];
  const spec = { template: { spec: { containers: [{ name: "web", image: "app:v1" }], initContainers: [migrate] } } };
  expect(changesOf(deployment({ metadata: { managedFields } }), replicaSet("web-b", { spec }), pod())).toContain(
    "init container migrate added at 10:05:00Z (field manager kubectl-client-side-apply)",
  );
});

it("takes the writer of a removed container from the manager that wrote since the earlier recording", () => {
  const containers = [{ name: "web", image: "app:v2", resources: { requests: { cpu: "100m" }, limits: { memory: "64Mi" } } }];
  const versionOf = (generation: number, seconds: number, more: object): Placed =>
    deployment({
      metadata: { generation, resourceVersion: String(generation), managedFields: [managerOf("helm", seconds, imageField)] },
      spec: { template: { spec: { containers, ...more } } },
    });
  const versions = [versionOf(2, -300, { initContainers: [{ name: "migrate", image: "migrate:v1" }] }), versionOf(3, -10, {})];
  expect(changesOf(...versions, pod())).toMatch(/init container migrate removed at [\d:]+Z \(field manager helm\)/);
});

it.each([
  { message: undefined, words: "cannot be pulled: reason ImagePullBackOff (certain)" },
  { message: 'Back-off pulling image "app:v2"', words: "cannot be pulled: reason ImagePullBackOff (certain)" },
  { message: "a text of another kubelet", words: "the message is of no known format, reason ImagePullBackOff (certain)" },
])("reports an image pull error with the message $message", ({ message, words }) => {
  expect(textOf(backOff(message))).toContain(words);
});

it("suggests maxSurge 0 for an exceeded quota only while old pods can be removed", () => {
  expect(textOf(refused(QUOTA))).toContain("or set maxSurge 0");
  const noOldPods = oldPods.map(([resource, { metadata }]): Placed => [
    resource,
    { metadata: { ...(metadata as object), ownerReferences: [] } },
  ]);
  expect(textOf(refused(QUOTA), ...noOldPods)).not.toContain("set maxSurge");
});

it("counts the pod objects while the status is of an earlier generation", () => {
  const stale = { metadata: { generation: 3 }, status: { replicas: 3, updatedReplicas: 3 } };
  expect(textOf(deployment(stale), backOff())).toContain("Effect 3 of 3 pods available, 1 updated, 4 in total");
  const others = oldPods.map(([resource, { metadata }]): Placed => [
    resource,
    { metadata: { ...(metadata as object), ownerReferences: [] } },
  ]);
  expect(textOf(deployment(stale), ...others)).toContain("3 updated, by the status of the previous generation");
});

it("reports a pause as the cause only if it delays a changed template", () => {
  const none = { replicas: 0, updatedReplicas: 0, readyReplicas: 0, availableReplicas: 0 };
  const paused = deployment({ spec: { paused: true, replicas: 0 }, status: none });
  expect(verdictOn(paused).health).toBe("complete");
  expect(textOf(paused)).not.toContain("Cause");
  expect(textOf(paused)).toContain("Also the Deployment is paused");
  const changed = { containers: [{ name: "web", image: "app:v3" }] };
  const spec = { paused: true, replicas: 0, template: { spec: changed } };
  expect(verdictOn(deployment({ spec, status: none })).health).toBe("stuck");
});

it("reports which pods a rolling update waits for and until when, without rule numbers", () => {
  const text = textOf(pod({ state: { ...waiting("ContainerCreating") } }));
  expect(text).toMatch(/Cause the rolling update waits .* allows no deletion of an old one; waiting for: pod\/web-b-1 /);
  expect(text).toContain("progress by 10:15:10Z; then it reports ProgressDeadlineExceeded");
  expect(text).not.toMatch(/§|none:/);
});

it("a verdict has at most 25 lines of 80 columns, whatever the length of names and the number of changes and findings", () => {
  const image = `registry.example/${"path/".repeat(40)}app:v2`;
  const labels = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`example.com/${"l".repeat(50)}-${i}`, "x".repeat(60)]));
  const changed = { containers: [{ name: "web", image, env: Object.keys(labels).map((name) => ({ name, value: "1" })) }] };
  const taken = Array.from({ length: 30 }, (_, i) =>
    pod({ state: { ...waiting("ImagePullBackOff", `message ${i}`) }, container: { image } }, `web-b-${"n".repeat(200)}${i}`),
  );
  const exceeded = { type: "Progressing", status: "False", reason: "ProgressDeadlineExceeded", lastUpdateTime: at(-10) };
  const spec = { paused: true, minReadySeconds: 30, template: { metadata: { labels }, spec: changed } };
  const verdict = verdictOn(deployment({ spec, status: { conditions: [exceeded] } }), refused(QUOTA), ...taken);
  const lines = verdictText(verdict).trimEnd().split("\n");
  expect(verdict.findings.length).toBeGreaterThan(3);
  expect(lines.length).toBeGreaterThan(15);
  expect(lines.length).toBeLessThanOrEqual(25);
  expect(lines.filter(({ length }) => length > 80)).toEqual([]);
});

it("lists different unknown facts for a capture and for a cluster", () => {
  const verdict = verdictOn(pod({ state: { ...waiting("ContainerCreating") } }));
  expect(verdictText(verdict)).toContain("Unknown   not read: events");
  expect(verdictText(verdict, { recorded: true })).toContain("Unknown   not recorded: events");
});

it("counts no pod as updated until the rollout of a changed template has begun", () => {
  const spec = { paused: true, template: { spec: { containers: [{ name: "web", image: "app:v3" }] } } };
  expect(textOf(deployment({ spec }), backOff())).toContain("3 of 3 pods available, 0 updated");
});

describe("user requests that replace no pod", () => {
  const complete = deployment({ status: { replicas: 3, updatedReplicas: 3 } });
  const rolledBack = (reason: string, seconds: number): Placed => event(reason, "", { of: "web", kind: "Deployment", seconds, count: 1 });

  it.each([
    { reason: "DeploymentRollbackRevisionNotFound", seconds: -60, kinds: ["rollback target gone"] },
    { reason: "DeploymentRollbackTemplateUnchanged", seconds: -60, kinds: ["rollback without effect"] },
    { reason: "DeploymentRollbackRevisionNotFound", seconds: -400, kinds: [] },
  ])("prints $reason $seconds s ago, with a rollout that started 300 s ago", ({ reason, seconds, kinds }) => {
    const { health, findings } = verdictOn(complete, rolledBack(reason, seconds));
    const found = findings.map(({ kind }) => kind).filter((kind) => kind !== "no room");
    expect({ health, found }).toEqual({ health: "complete", found: kinds });
  });

  it("prints a rollback without a target for a complete rollout, with the Event", () => {
    expect(textOf(complete, rolledBack("DeploymentRollbackRevisionNotFound", -60))).toContain(
      "Also a rollback was requested to a revision whose ReplicaSet no longer exists on deployment/web",
    );
  });

  it.each<{ readonly spec: object; readonly fields: string | undefined }>([
    { spec: { minReadySeconds: 5 }, fields: "minReadySeconds" },
    { spec: { minReadySeconds: 5, progressDeadlineSeconds: 60 }, fields: "minReadySeconds, progressDeadlineSeconds" },
    { spec: { minReadySeconds: 5, replicas: 4 }, fields: undefined },
  ])("prints the finding about $fields for a recorded change of $spec", ({ spec, fields }) => {
    const status = { observedGeneration: 3, replicas: 3, updatedReplicas: 3 };
    const changed = deployment({ spec: { ...spec }, status, metadata: { generation: 3, resourceVersion: "8" } });
    const { findings } = verdictOn(complete, changed);
    expect(findings.find(({ kind }) => kind === "change without effect")?.facts["fields"]).toBe(fields);
  });
});

describe("two writers of replicas", () => {
  const writerOf = (manager: string, operation: string, generation: number): object => ({
    ...{ manager, operation, time: at(generation - 100), fieldsV1: { "f:spec": { "f:replicas": {} } } },
    ...(manager === "kube-controller-manager" && { subresource: "scale" }),
  });
  const versionsBy = (manager: string, operation: string): readonly Placed[] =>
    [3, 5, 3, 5, 3].map((replicas, index) => {
      const writer = index % 2 === 0 ? writerOf("kube-controller-manager", "Update", index) : writerOf(manager, operation, index);
      return deployment({
        spec: { replicas },
        metadata: { generation: index + 2, resourceVersion: String(index + 8), managedFields: [writer] },
      });
    });

  it("suggests to remove replicas from the last applied configuration first, because the next apply would set 1", () => {
    const text = textOf(...versionsBy("kubectl-client-side-apply", "Update"));
    expect(text).toContain("Try kubectl -n shop apply edit-last-applied deployment/web");
    expect(text).toContain("there remove spec.replicas; then leave it out of the manifest (without the first step, apply sets it to 1)");
  });

  it("suggests only to leave replicas out of the manifest for a server-side apply", () => {
    const text = textOf(...versionsBy("kustomize-controller", "Apply"));
    expect(text).toContain("Try leave replicas out of the manifest that is applied");
    expect(text).not.toContain("edit-last-applied");
  });
});

describe("another workload that becomes unavailable", () => {
  const other = (seconds: number, { status = "False", namespace = "shop", created = -3_000 } = {}): Placed => {
    const condition = { type: "Available", status, reason: "MinimumReplicasUnavailable", lastTransitionTime: at(seconds) };
    const metadata = { namespace, name: "database", uid: "uid-database", creationTimestamp: at(created) };
    return deployment({ metadata, spec: { selector: { matchLabels: { app: "database" } } }, status: { conditions: [condition] } });
  };
  const killed = [
    pod({ status: { phase: "Running" }, state: { running: { startedAt: at(-20) } }, web: { ready: true, restartCount: 1 } }),
    event("Killing", "Container web failed liveness probe, will be restarted", { seconds: -27, count: 1 }),
  ];
  const unready = [
    pod({
      container: { readinessProbe: { tcpSocket: { port: 80 }, periodSeconds: 1 } },
      status: { phase: "Running", conditions: [{ type: "Ready", status: "False", lastTransitionTime: at(-87) }] },
      state: { running: { startedAt: at(-200) } },
    }),
  ];

  it.each([
    { name: "liveness", objects: killed },
    { name: "readiness", objects: unready },
  ])("is printed beside a failing $name probe that began later", ({ objects }) => {
    const text = textOf(...objects, other(-90));
    expect(text).toContain("Also deployment/database became unavailable at 10:08:30Z, 3 s before; check whether the probe needs it");
    expect(verdictOn(...objects, other(-90)).findings[0]?.kind).toMatch(/probe/);
  });

  it.each([
    { name: "after the probe failed", objects: [...killed, other(-80)] },
    { name: "long before", objects: [...killed, other(-300)] },
    { name: "in another namespace", objects: [...killed, other(-90, { namespace: "else" })] },
    { name: "since its creation", objects: [...killed, other(-90, { created: -91 })] },
    { name: "no longer", objects: [...killed, other(-90, { status: "True" })] },
    { name: "while no probe fails", objects: [other(-90)] },
  ])("is not printed if it is unavailable $name", ({ objects }) => {
    expect(textOf(...objects)).not.toContain("became unavailable");
  });
});

describe("pods that are all updated and available before the status says so", () => {
  const readyPod = (n: number, seconds = -2): Placed =>
    pod(
      {
        status: { phase: "Running", conditions: [{ type: "Ready", status: "True", lastTransitionTime: at(seconds) }] },
        web: { ready: true, started: true },
        state: { running: { startedAt: at(-5) } },
      },
      `web-b-${n}`,
    );
  const noOldPods = oldPods.map(([resource, { metadata }]): Placed => [
    resource,
    { metadata: { ...(metadata as object), ownerReferences: [] } },
  ]);
  const done = (spec: object = {}, replicas = 3): readonly Placed[] => [
    deployment({ spec: { ...spec } }),
    replicaSet("web-a", { spec: { replicas: 0 } }),
    replicaSet("web-b", { spec: { replicas } }),
    ...[1, 2, 3].map((n) => readyPod(n)),
    ...noOldPods,
  ];

  it("is complete, with the counts of the pods and without a deadline", () => {
    const exceeded = { type: "Progressing", status: "False", reason: "ProgressDeadlineExceeded", lastUpdateTime: at(-10) };
    for (const objects of [done(), [...done(), deployment({ status: { conditions: [exceeded] } })]]) {
      const verdict = verdictOn(...objects);
      expect(verdict.health).toBe("complete");
      expect(textOf(...objects)).toContain("Effect 3 of 3 pods available, 3 updated");
      expect([verdict.findings, verdict.waits]).toEqual([[], []]);
    }
  });

  it.each([
    { name: "a pod is ready for less than minReadySeconds", objects: done({ minReadySeconds: 30 }) },
    { name: "the template has changed", objects: done({ template: { spec: { containers: [{ name: "web", image: "app:v3" }] } } }) },
    { name: "the ReplicaSet is not scaled yet", objects: done({}, 2) },
    { name: "a pod is missing", objects: done({ replicas: 4 }, 4) },
    { name: "an old pod exists", objects: [...done(), ...oldPods.slice(0, 1)] },
  ])("is not complete while $name", ({ objects }) => {
    expect(verdictOn(...objects).health).toBe("progressing");
  });
});

describe("the lowest availability since the cause began", () => {
  const killed = pod({ status: { phase: "Running" }, state: { running: { startedAt: at(-20) } }, web: { ready: true, restartCount: 1 } });
  const falling = (...counts: readonly number[]): readonly Placed[] =>
    counts.map((availableReplicas, index) =>
      deployment({ status: { replicas: 3, updatedReplicas: 3, availableReplicas }, metadata: { resourceVersion: String(index + 8) } }),
    );
  const since = (seconds: number): Placed =>
    event("Killing", "Container web failed liveness probe, will be restarted", { seconds, count: 1 });

  it.each([
    {
      counts: [1, 3, 2, 1, 2, 3, 1, 3, 2, 3],
      seconds: 60,
      text: "4 in total; fell to 1 of 3 (2 times, last 10:10:00Z)",
    },
    { counts: [3, 0, 3], seconds: 60, text: "4 in total; fell to 0 of 3 at 10:10:00Z" },
  ])("is printed for the numbers $counts", ({ counts, seconds, text }) => {
    expect(textOf(killed, since(seconds), ...falling(...counts))).toContain(text);
  });

  it.each([
    { name: "the present number is the lowest", objects: [killed, since(60), ...falling(3, 3)] },
    { name: "the number only rose", objects: [killed, since(60), ...falling(1, 2, 3)] },
    { name: "the number fell before the cause", objects: [killed, since(61), ...falling(3, 1, 3)] },
    { name: "there is no cause", objects: falling(3, 1, 3) },
  ])("is not printed if $name", ({ objects }) => {
    expect(textOf(...objects)).not.toContain("fell to");
  });
});

it("prints in how many pods containers were restarted", () => {
  const crashing = (name: string): Placed =>
    pod(
      { state: waiting("CrashLoopBackOff"), web: { restartCount: 2, lastState: { terminated: { reason: "Error", exitCode: 1 } } } },
      name,
    );
  expect(textOf(crashing("web-b-1"), crashing("web-b-2"))).toContain("4 restarts in 2 pods");
  expect(textOf(crashing("web-b-1"))).toMatch(/2 restarts on/);
});

it("omits what happens after a wait before it omits help", () => {
  const verdict = verdictOn(refused(QUOTA));
  const changes = Array.from({ length: 5 }, (_, atMs) => ({ field: "web.image", from: "long".repeat(16), to: "long".repeat(16), atMs }));
  const [short, long] = [verdictText(verdict), verdictText({ ...verdict, changes })];
  for (const each of [short, long]) expect(each).toContain("rollout undo deployment/web");
  expect(short).toContain("then it reports ProgressDeadlineExceeded");
  expect(long).not.toContain("then it reports");
});

it.each<{ readonly name: string; readonly parts: Parameters<typeof pod>[0]; readonly words: string }>([
  { name: "is created", parts: { state: waiting("ContainerCreating") }, words: "container web waits (ContainerCreating)" },
  { name: "is not ready", parts: { state: { running: { startedAt: at(-200) } } }, words: "container web runs since 10:06:40Z, not ready" },
  {
    name: "runs an init container",
    parts: {
      spec: { initContainers: [{ name: "migrate", image: "migrate:v1" }] },
      status: { initContainerStatuses: [{ name: "migrate", ready: false, restartCount: 0, state: { running: { startedAt: at(-100) } } }] },
    },
    words: "init container migrate runs since 10:08:20Z",
  },
])("names the pod that a rolling update waits for, which $name", ({ parts, words }) => {
  expect(textOf(pod(parts))).toContain(`(maxUnavailable 0, maxSurge 1); pod/web-b-1: ${words} progress`);
});

it("does not repeat the pod of the cause as the one that a rolling update waits for", () => {
  expect(textOf(backOff())).toContain("(maxUnavailable 0, maxSurge 1) progress");
});
