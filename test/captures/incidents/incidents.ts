/** Incidents, each in its own namespace: the user's requests, and the finding that `explain` must report first. */
import { IMAGES } from "../../containerd/images.ts";
import { server, shell, STAY } from "../../harness/node-processes/pods.ts";
import { containers, env, namespaced, overQuota, PATCH, pulled, rollout, web, workload } from "./stage.ts";
import type { Scene } from "./stage.ts";

const fromSecret = { env: [{ name: "TOKEN", valueFrom: { secretKeyRef: { name: "app", key: "token" } } }] };

export const INCIDENTS: Readonly<Record<string, Scene>> = {
  "image-not-found": pulled("image not found", ({ image }) => image("missing")),
  "image-denied": pulled("image denied", ({ image }) => image("denied")),
  "image-rate-limited": pulled("image rate limited", ({ image }) => image("limited")),
  "image-unreachable": pulled("image unreachable", () => "127.0.0.1:1/app:1"),
  "pod-security": {
    finding: "pod security",
    async play({ kubectl, apply, event, namespace }) {
      await kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted");
      await apply(workload());
      await event("FailedCreate", 3);
    },
  },
  "webhook-down": {
    finding: "webhook failed",
    async play({ apply, event, namespace }) {
      const clientConfig = { service: { name: "gone", namespace } };
      const rules = [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods"] }];
      const namespaceSelector = { matchLabels: { "kubernetes.io/metadata.name": namespace } };
      const webhook = {
        name: "pods.example.com",
        clientConfig,
        rules,
        namespaceSelector,
        sideEffects: "None",
        admissionReviewVersions: ["v1"],
      };
      await apply(namespaced("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", namespace, { webhooks: [webhook] }));
      await apply(workload());
      await event("FailedCreate", 3);
    },
  },
  "admission-policy": {
    finding: "policy denied",
    async play({ apply, event, seconds, namespace }) {
      const resourceRules = [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods"] }];
      const spec = {
        matchConstraints: { resourceRules },
        validations: [{ expression: "has(object.metadata.labels.team)", message: "SECRET-team" }],
      };
      const matchResources = { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } } };
      const group = "admissionregistration.k8s.io/v1";
      await apply(namespaced(group, "ValidatingAdmissionPolicy", "team-label", { spec }));
      const binding = { policyName: "team-label", validationActions: ["Deny"], matchResources };
      await apply(namespaced(group, "ValidatingAdmissionPolicyBinding", "team-label", { spec: binding }));
      await seconds(3);
      await apply(workload());
      await event("FailedCreate", 3);
    },
  },
  "crash-loop": rollout("container failed", containers(shell("main", "echo SECRET-output; sleep 1; exit 3")), ({ event }) =>
    event("BackOff", 2),
  ),
  "process-ends": rollout("container completed", containers(shell("main", "sleep 1")), ({ event }) => event("BackOff", 2)),
  "out-of-memory": rollout(
    "container out of memory",
    containers(shell("main", "sleep 1; exec /bin/busybox tail /dev/zero", { resources: { limits: { memory: "24Mi" } } })),
    ({ event }) => event("BackOff", 2),
  ),
  "command-missing": rollout("command missing", containers(server({ command: ["/absent"] })), ({ event }) => event("BackOff", 1)),
  "secret-missing": rollout("object missing", containers(web(fromSecret)), ({ contains, seconds }) =>
    contains("CreateContainerConfigError").then(() => seconds(3)),
  ),
  "secret-key-missing": {
    finding: "key missing",
    async play({ apply, contains, seconds }) {
      await apply(namespaced("v1", "Secret", "app", { stringData: { other: "SECRET-value" } }));
      await apply(workload(containers(web(fromSecret))));
      await contains("CreateContainerConfigError");
      await seconds(3);
    },
  },
  "config-map-missing": rollout(
    "volume object missing",
    { pod: { containers: [web()], volumes: [{ name: "config", configMap: { name: "absent" } }] } },
    ({ event }) => event("FailedMount", 3),
  ),
  "runs-as-root": rollout(
    "runs as root",
    { pod: { containers: [web()], securityContext: { runAsNonRoot: true } } },
    ({ contains, seconds }) => contains("CreateContainerConfigError").then(() => seconds(3)),
  ),
  "post-start-hook": rollout(
    "post-start hook failed",
    containers(shell("main", STAY, { lifecycle: { postStart: { exec: { command: ["sh", "-c", "echo SECRET-hook; exit 1"] } } } })),
    ({ event }) => event("FailedPostStartHook", 2),
  ),
  readiness: rollout(
    "probe failed",
    containers(web({ readinessProbe: { httpGet: { path: "/SECRET", port: 9 }, periodSeconds: 1 } })),
    ({ seconds }) => seconds(25),
  ),
  liveness: rollout(
    "killed by probe",
    containers(web({ livenessProbe: { tcpSocket: { port: 9 }, periodSeconds: 1, failureThreshold: 2 } })),
    ({ event }) => event("Killing", 2),
  ),
  "startup-probe": rollout(
    "killed by probe",
    containers(web({ startupProbe: { tcpSocket: { port: 9 }, periodSeconds: 2, failureThreshold: 4 } })),
    ({ event }) => event("Killing", 2),
  ),
  "init-container": rollout("init container runs", { pod: { initContainers: [shell("wait", STAY)], containers: [web()] } }, ({ seconds }) =>
    seconds(320),
  ),
  "init-crash": rollout("container failed", { pod: { initContainers: [shell("migrate", "exit 4")], containers: [web()] } }, ({ event }) =>
    event("BackOff", 2),
  ),
  "too-large": rollout("unschedulable", containers(web({ resources: { requests: { cpu: "900" } } })), ({ event }) =>
    event("FailedScheduling"),
  ),
  "no-such-node": rollout("unschedulable", { pod: { containers: [web()], nodeSelector: { disk: "ssd" } } }, ({ event }) =>
    event("FailedScheduling"),
  ),
  "claim-missing": rollout(
    "unschedulable",
    { pod: { containers: [web()], volumes: [{ name: "data", persistentVolumeClaim: { claimName: "absent" } }] } },
    ({ event }) => event("FailedScheduling"),
  ),
  quota: overQuota(({ kubectl }) => kubectl("scale", "deployment/web", "--replicas=4")),
  "surge-over-quota": overQuota(({ kubectl }) => kubectl("set", "image", "deployment/web", `main=${IMAGES.serverV2}`)),
  deadline: rollout(
    "probe failed",
    { spec: { progressDeadlineSeconds: 10 }, ...containers(web({ readinessProbe: { tcpSocket: { port: 9 }, periodSeconds: 1 } })) },
    ({ contains, seconds }) => contains("ProgressDeadlineExceeded").then(() => seconds(2)),
  ),
  paused: {
    finding: "paused",
    async play({ apply, complete, kubectl, seconds }) {
      await apply(workload());
      await complete();
      await kubectl("rollout", "pause", "deployment/web");
      await kubectl("set", "image", "deployment/web", `main=${IMAGES.serverV2}`);
      await seconds(4);
    },
  },
  "min-ready": rollout("waits for minReadySeconds", { spec: { minReadySeconds: 500 }, ...containers(web(env("2"))) }, ({ seconds }) =>
    seconds(8),
  ),
  finalizer: {
    finding: "held by a finalizer",
    async play({ apply, complete, kubectl, seconds }) {
      await apply(workload({ spec: { strategy: { type: "Recreate" } } }));
      await complete();
      const [first = ""] = (await kubectl("get", "pods", "-o", "name")).split("\n");
      await kubectl("patch", first, "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/held"]}}');
      await kubectl("set", "image", "deployment/web", `main=${IMAGES.serverV2}`);
      await seconds(40);
    },
  },
  "pre-stop": {
    wait: "ended",
    async play({ apply, complete, kubectl, seconds }) {
      const slow = shell("main", STAY, { lifecycle: { preStop: { exec: { command: ["sleep", "500"] } } } });
      await apply(workload({ spec: { strategy: { type: "Recreate" } }, pod: { containers: [slow], terminationGracePeriodSeconds: 600 } }));
      await complete();
      await kubectl("set", "image", "deployment/web", `main=${IMAGES.serverV1}`);
      await seconds(15);
    },
  },
  "two-writers": {
    finding: "two writers of replicas",
    async play({ apply, complete, kubectl, seconds }) {
      await apply(workload());
      await complete();
      for (let round = 0; round < 3; round++) {
        await kubectl("scale", "deployment/web", "--replicas=3");
        await seconds(2);
        await kubectl(...PATCH, '{"spec":{"replicas":2}}', "--field-manager=autoscaler");
        await seconds(2);
      }
    },
  },
  overlap: {
    finding: "overlapping selectors",
    subject: "replicasets/web",
    async play({ apply, contains, seconds }) {
      await apply(workload({ kind: "ReplicaSet" }));
      await contains('"readyReplicas":2');
      await apply(workload({ kind: "ReplicaSet", name: "other", replicas: 1 }));
      await seconds(4);
    },
  },
  gated: rollout("scheduling gated", { pod: { containers: [web()], schedulingGates: [{ name: "example.com/gate" }] } }, ({ seconds }) =>
    seconds(3),
  ),
  tainted: {
    finding: "unschedulable",
    alone: true,
    async play({ apply, kubectl, event, afterwards }) {
      await kubectl("taint", "nodes", "--all", "team=SECRET:NoSchedule");
      afterwards(() => kubectl("taint", "nodes", "--all", "team-"));
      await apply(workload());
      await event("FailedScheduling");
    },
  },
  "disk-eviction": {
    finding: "evicted",
    async play({ apply, complete, contains, seconds }) {
      const filling = shell("main", `sleep 3; /bin/busybox dd if=/dev/zero of=/data/file bs=1M count=20; ${STAY}`, {
        volumeMounts: [{ name: "data", mountPath: "/data" }],
      });
      await apply(workload({ replicas: 1 }));
      await complete();
      await apply(workload({ replicas: 1, pod: { containers: [filling], volumes: [{ name: "data", emptyDir: { sizeLimit: "4Mi" } }] } }));
      await contains('"reason":"Evicted"');
      await seconds(2);
    },
  },
  preemption: {
    finding: "preempted",
    alone: true,
    async play({ apply, complete, event, seconds }) {
      const priority = (name: string, value: number): object => namespaced("scheduling.k8s.io/v1", "PriorityClass", name, { value });
      await apply(priority("low", 1), priority("high", 1_000));
      const large = (cpu: string): object => web({ resources: { requests: { cpu } } });
      await apply(workload({ replicas: 2, pod: { containers: [large("1100m")], priorityClassName: "low" } }));
      await complete();
      await apply(namespaced("v1", "Pod", "urgent", { spec: { containers: [large("1100m")], priorityClassName: "high" } }));
      await event("Preempted");
      await seconds(3);
    },
  },
  "node-lost": {
    finding: "node silent",
    alone: true,
    async play({ apply, complete, hold, event, seconds }) {
      await apply(workload({ replicas: 4 }));
      await complete();
      await hold("node-b");
      await event("NodeNotReady");
      await seconds(3);
    },
  },
  "controllers-stopped": {
    finding: "controller does not act",
    alone: true,
    async play({ apply, complete, hold, kubectl, seconds }) {
      await apply(workload());
      await complete();
      await hold("controllers");
      await kubectl("scale", "deployment/web", "--replicas=3");
      await seconds(36);
    },
  },
};
