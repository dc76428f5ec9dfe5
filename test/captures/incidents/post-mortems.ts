/**
 * Ten incidents from public reports, recreated: the workloads around them, the changes before, and the cause that `explain` must print
 * within its first five lines. Each cause was written before the first run of `explain`, which found nine.
 */
import { IMAGES } from "../../containerd/images.ts";
import { server, shell, STAY } from "../../harness/node-processes/pods.ts";
import { env, namespaced, web } from "./stage.ts";
import type { Scene, Stage } from "./stage.ts";

export interface PostMortem extends Scene {
  /** Title and address of the report. */
  readonly source: readonly [title: string, url: string];
  readonly subject: `deployments/${string}`;
  readonly cause: string;
  /** The first five lines match all of them. */
  readonly says: readonly RegExp[];
}

interface Service {
  readonly replicas?: number;
  readonly spec?: object;
  readonly pod?: object;
}

function deployment(name: string, containers: readonly object[], { replicas = 1, spec = {}, pod = {} }: Service = {}): object {
  const labels = { app: name };
  const template = { metadata: { labels }, spec: { terminationGracePeriodSeconds: 1, containers, ...pod } };
  return namespaced("apps/v1", "Deployment", name, { spec: { replicas, selector: { matchLabels: labels }, template, ...spec } });
}

const RECREATE = { strategy: { type: "Recreate" } };
const sized = (cpu: string, memory: string): object => ({ resources: { requests: { cpu, memory }, limits: { cpu, memory } } });

/** Exits once after the first start, as a worker that is started before its database, and runs since. */
function worker(name = "worker"): object {
  const script = `[ -e /data/started ] || { echo > /data/started; exit 1; }; ${STAY}`;
  const main = shell("main", script, { volumeMounts: [{ name: "data", mountPath: "/data" }] });
  return deployment(name, [main], { pod: { volumes: [{ name: "data", emptyDir: {} }] } });
}

/** Workloads that stay healthy, with a release, a restart and a scale-down of their own. */
async function neighbours({ apply, complete, kubectl }: Stage): Promise<void> {
  await apply(deployment("frontend", [web()], { replicas: 2 }), worker(), deployment("reports", [web()]));
  for (const name of ["frontend", "worker", "reports"]) await complete(name);
  await kubectl("set", "image", "deployment/frontend", `main=${IMAGES.serverV2}`);
  await kubectl("scale", "deployment/reports", "--replicas=0");
  await complete("frontend");
}

async function nodeOf({ kubectl }: Stage, name: string): Promise<string> {
  return await kubectl("get", "pods", "-l", `app=${name}`, "-o", "jsonpath={.items[0].spec.nodeName}");
}

export const POST_MORTEMS: Readonly<Record<string, PostMortem>> = {
  "tags-removed": {
    source: ["Upcoming changes to the Bitnami catalog", "https://github.com/bitnami/containers/issues/83267"],
    subject: "deployments/redis",
    cause:
      "The registry no longer has the image of redis; nobody has changed the workload. A drained node moves the pod to a node without it.",
    says: [/redis/u, /registry does not have|not found/u],
    alone: true,
    async play(stage) {
      const { apply, complete, kubectl, event, seconds, afterwards } = stage;
      const image = await stage.publish("redis");
      await neighbours(stage);
      await apply(deployment("redis", [{ name: "main", image }], { spec: RECREATE }));
      await complete("redis");
      await kubectl("set", "env", "deployment/redis", "MAXMEMORY=64mb");
      await complete("redis");
      stage.refuse("redis", 404);
      await kubectl("scale", "deployment/frontend", "--replicas=3");
      await complete("frontend");
      const node = await nodeOf(stage, "redis");
      afterwards(() => kubectl("uncordon", node));
      await kubectl("drain", node, "--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s");
      await event("BackOff");
      await seconds(5);
    },
  },
  "rate-limited-sidecar": {
    source: ["Couldn't start Jenkins because of Docker rate limit", "https://github.com/kiwigrid/k8s-sidecar/issues/99"],
    subject: "deployments/jenkins",
    cause: "The registry limits the pulls of the sidecar's image.",
    says: [/k8s-sidecar/u, /limits the rate|rate limit/u],
    async play(stage) {
      const { apply, complete, kubectl, event } = stage;
      const image = await stage.publish("k8s-sidecar");
      await neighbours(stage);
      const sidecar = { name: "config-reload", image, imagePullPolicy: "Always" };
      await apply(deployment("jenkins", [web(), sidecar], { spec: RECREATE }), deployment("agent", [web()], { replicas: 2 }));
      await complete("jenkins");
      await kubectl("set", "env", "deployment/jenkins", "-c=main", "JAVA_OPTS=-Xmx64m");
      await complete("jenkins");
      stage.refuse("k8s-sidecar", 429);
      await kubectl("set", "image", "deployment/agent", `main=${IMAGES.serverV2}`);
      await kubectl("set", "image", "deployment/jenkins", `main=${IMAGES.serverV2}`);
      await complete("agent");
      await event("BackOff", 2);
    },
  },
  "quota-without-surge": {
    source: ["Kubernetes Exceeded Quota", "https://github.com/ministryofjustice/cloud-platform/issues/590"],
    subject: "deployments/allocation-manager",
    cause: "The quota of the namespace has no room for the additional pod of the rollout.",
    says: [/namespace-quota/u, /limits\.cpu/u],
    async play(stage) {
      const { apply, complete, kubectl, event } = stage;
      const hard = { "limits.cpu": "600m", "limits.memory": "192Mi" };
      await apply(namespaced("v1", "ResourceQuota", "namespace-quota", { spec: { hard } }));
      const service = (name: string, replicas: number): object => deployment(name, [web(sized("100m", "32Mi"))], { replicas });
      await apply(service("allocation-manager", 3), service("allocation-api", 2));
      await complete("allocation-manager");
      await complete("allocation-api");
      for (const name of ["allocation-manager", "allocation-api"]) {
        await kubectl("set", "image", `deployment/${name}`, `main=${IMAGES.serverV2}`);
        await complete(name);
      }
      await kubectl("scale", "deployment/allocation-api", "--replicas=3");
      await complete("allocation-api");
      await kubectl("set", "env", "deployment/allocation-manager", "RELEASE=3");
      await event("FailedCreate", 4);
    },
  },
  "default-priority": {
    source: [
      "How a Production Outage Was Caused Using Kubernetes Pod Priorities",
      "https://grafana.com/blog/2019/07/24/how-a-production-outage-was-caused-using-kubernetes-pod-priorities/",
    ],
    subject: "deployments/ingester",
    cause: "New pods have a default priority that the running ones do not have, so the scheduler preempts the running ones.",
    says: [/preempt/u, /priority/u],
    alone: true,
    async play(stage) {
      const { apply, complete, kubectl, event, seconds, afterwards } = stage;
      const ingester = web({ resources: { requests: { cpu: "600m" } } });
      await neighbours(stage);
      await apply(deployment("distributor", [web()], { replicas: 2 }), deployment("ingester", [ingester], { replicas: 3 }));
      await complete("ingester");
      await kubectl("set", "image", "deployment/distributor", `main=${IMAGES.serverV2}`);
      await complete("distributor");
      const priority = (name: string, more: object): object => namespaced("scheduling.k8s.io/v1", "PriorityClass", name, more);
      await apply(priority("ingesters-high", { value: 1_000 }), priority("all-medium", { value: 100, globalDefault: true }));
      afterwards(() => kubectl("delete", "priorityclass", "ingesters-high", "all-medium"));
      await kubectl("rollout", "restart", "deployment/distributor");
      await complete("distributor");
      await apply(deployment("customer-ingester", [ingester], { replicas: 4 }));
      await event("Preempted", 3);
      await complete("customer-ingester");
      await seconds(5);
    },
  },
  "dns-memory": {
    source: [
      "Total DNS outage in Kubernetes cluster",
      "https://kubernetes-on-aws.readthedocs.io/en/latest/postmortems/jan-2019-dns-outage.html",
    ],
    subject: "deployments/coredns",
    cause: "All pods of coredns are killed at their memory limit, again after each restart.",
    says: [/out of memory|OOM/u, /24Mi/u],
    async play(stage) {
      const { apply, complete, kubectl, event, seconds } = stage;
      const volumeMounts = [{ name: "data", mountPath: "/data" }];
      const volumes = [{ name: "data", emptyDir: {} }];
      const first = (load: string, again: string): string => `if [ -e /data/load ]; then ${again}; else echo > /data/load; ${load}; fi`;
      await neighbours(stage);
      const resources = { limits: { memory: "24Mi" } };
      const full = "exec /bin/busybox tail /dev/zero";
      const dns = shell("main", `${first("sleep 25", "sleep 2")}; ${full}`, { resources, volumeMounts });
      const monitoring = shell("main", `${first("sleep 28", "sleep 1")}; exit 1`, { volumeMounts });
      await apply(
        deployment("coredns", [dns], { replicas: 2, pod: { volumes } }),
        deployment("aggregation", [web()], { replicas: 2 }),
        deployment("monitoring", [monitoring], { pod: { volumes } }),
      );
      for (const name of ["coredns", "aggregation", "monitoring"]) await complete(name);
      await kubectl("set", "env", "deployment/aggregation", "TIMEOUT=1s");
      await complete("aggregation");
      await kubectl("scale", "deployment/aggregation", "--replicas=4");
      await event("BackOff", 5);
      await seconds(3);
    },
  },
  "policy-webhook": {
    source: ["How a simple admission webhook lead to a cluster outage", "https://blog.jetstack.io/blog/gke-webhook-outage/"],
    subject: "deployments/opa",
    cause: "The validating webhook of opa cannot be called, so no pod is created, not even those of opa.",
    says: [/validating-webhook\.openpolicyagent\.org/u, /cannot be called|fail/u],
    async play(stage) {
      const { apply, complete, kubectl, event, namespace, afterwards } = stage;
      await neighbours(stage);
      await apply(
        namespaced("v1", "Service", "opa", { spec: { selector: { app: "opa" }, ports: [{ port: 443, targetPort: 8080 }] } }),
        deployment("opa", [web()]),
        deployment("orders", [web()], { replicas: 3 }),
      );
      await complete("opa");
      await complete("orders");
      await kubectl("set", "image", "deployment/opa", `main=${IMAGES.serverV2}`);
      await complete("opa");
      const webhook = {
        name: "validating-webhook.openpolicyagent.org",
        clientConfig: { service: { name: "opa", namespace } },
        rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE", "UPDATE"], resources: ["pods"] }],
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
        sideEffects: "None",
        admissionReviewVersions: ["v1"],
        timeoutSeconds: 1,
      };
      await apply(
        namespaced("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "opa-validating", { webhooks: [webhook] }),
      );
      afterwards(() => kubectl("delete", "validatingwebhookconfiguration", "opa-validating"));
      await kubectl("delete", "pods", "-l", "app in (opa,orders)", "--wait=false");
      await event("FailedCreate", 8);
    },
  },
  "liveness-on-database": {
    source: [
      "Prevent mass livenessProbe failures from taking down all pods in a Deployment",
      "https://github.com/kubernetes/kubernetes/issues/66230",
    ],
    subject: "deployments/api",
    cause: "The liveness probe of api asks the database; while the database migrates, the kubelet restarts all pods of api.",
    says: [/liveness probe/u],
    async play(stage) {
      const { apply, complete, kubectl, event, seconds } = stage;
      const port = 18_432;
      const database = server({
        env: [{ name: "PORT", value: String(port) }],
        readinessProbe: { tcpSocket: { port, host: "127.0.0.1" }, periodSeconds: 1 },
      });
      const pod = { hostNetwork: true };
      const livenessProbe = { tcpSocket: { port, host: "127.0.0.1" }, periodSeconds: 2, failureThreshold: 2 };
      await neighbours(stage);
      await apply(deployment("database", [database], { spec: RECREATE, pod }));
      await complete("database");
      await apply(deployment("api", [web({ livenessProbe })], { replicas: 3 }));
      await complete("api");
      await kubectl("set", "image", "deployment/api", `main=${IMAGES.serverV2}`);
      await complete("api");
      const initContainers = [shell("migrate", "sleep 300")];
      await apply(deployment("database", [database], { spec: RECREATE, pod: { ...pod, initContainers } }));
      await event("Killing", 8);
      await seconds(3);
    },
  },
  "secret-without-key": {
    source: ["[Bug] Storage secret is missing ACCESS_KEY upon upgrade", "https://github.com/cryostatio/cryostat-operator/issues/1191"],
    subject: "deployments/cryostat-storage",
    cause: "The Secret of the earlier version has no key ACCESS_KEY, which the new version needs.",
    says: [/ACCESS_KEY/u, /cryostat-sample-storage/u],
    async play(stage) {
      const { apply, complete, kubectl, contains, seconds } = stage;
      const key = (name: string): object => ({ name, valueFrom: { secretKeyRef: { name: "cryostat-sample-storage", key: name } } });
      const release = (version: string, ...keys: readonly string[]): readonly object[] => [
        deployment("cryostat", [web(env(version)), shell("proxy", STAY)]),
        deployment("cryostat-reports", [web(env(version))], { replicas: 2 }),
        deployment("cryostat-storage", [web({ env: keys.map(key) })], { spec: RECREATE }),
      ];
      await neighbours(stage);
      await apply(namespaced("v1", "Secret", "cryostat-sample-storage", { stringData: { SECRET_KEY: "SECRET-value" } }));
      await apply(...release("4.0.2", "SECRET_KEY"));
      await complete("cryostat");
      await complete("cryostat-storage");
      await apply(...release("4.0.3", "SECRET_KEY"));
      await complete("cryostat");
      await kubectl("scale", "deployment/cryostat-reports", "--replicas=1");
      await apply(...release("4.1.0", "SECRET_KEY", "ACCESS_KEY"));
      await contains("CreateContainerConfigError");
      await complete("cryostat");
      await seconds(5);
    },
  },
  "apply-over-autoscaler": {
    source: [
      "Kubectl apply on Deployment - replicas overriding Horizontal Pod Autoscaler",
      "https://github.com/kubernetes/kubernetes/issues/66385",
    ],
    subject: "deployments/shop",
    cause: "Each kubectl apply sets replicas to 1, and the HorizontalPodAutoscaler sets it to 5 again.",
    says: [/two writers/u, /kubectl/u, /autoscaler|kube-controller-manager/iu, /replicas/u],
    async play(stage) {
      const { apply, complete, contains, seconds } = stage;
      const release = async (value: string): Promise<void> => {
        await apply(deployment("shop", [web(env(value))], { replicas: 1 }));
        await complete("shop");
      };
      await neighbours(stage);
      await release("1");
      const scaleTargetRef = { apiVersion: "apps/v1", kind: "Deployment", name: "shop" };
      const metrics = [{ type: "Resource", resource: { name: "cpu", target: { type: "Utilization", averageUtilization: 80 } } }];
      const spec = { scaleTargetRef, minReplicas: 5, maxReplicas: 8, metrics };
      await apply(namespaced("autoscaling/v2", "HorizontalPodAutoscaler", "shop", { spec }));
      for (const value of ["2", "3", "4"]) {
        await contains('"availableReplicas":5');
        await release(value);
      }
      await contains('"availableReplicas":5');
      await seconds(3);
    },
  },
  "config-map-pruned": {
    source: ["configmap not found error on deployments after editing configmap", "https://github.com/fluxcd/flux2/issues/3378"],
    subject: "deployments/podinfo",
    cause: "The ConfigMap of the old revision was pruned during the rollout, so a replaced pod of that revision cannot start.",
    says: [/ConfigMap app-config-7k2d does not exist|app-config-7k2d.*not found/u],
    async play(stage) {
      const { apply, complete, kubectl, contains, seconds } = stage;
      const config = (name: string): object => namespaced("v1", "ConfigMap", name, { data: { LEVEL: "info" } });
      const release = (name: string, initContainers: readonly object[] = []): object =>
        deployment("podinfo", [web({ envFrom: [{ configMapRef: { name } }] })], { replicas: 3, pod: { initContainers } });
      await neighbours(stage);
      await apply(config("app-config-4h9t"), release("app-config-4h9t"));
      await complete("podinfo");
      await apply(config("app-config-7k2d"), release("app-config-7k2d"));
      await kubectl("delete", "configmap", "app-config-4h9t");
      await complete("podinfo");
      const ofOld = '{.items[?(@.spec.containers[0].envFrom[0].configMapRef.name=="app-config-7k2d")].metadata.name}';
      const [old = ""] = (await kubectl("get", "pods", "-l", "app=podinfo", "-o", `jsonpath=${ofOld}`)).split(" ");
      await apply(config("app-config-9m5c"), release("app-config-9m5c", [shell("migrate", "sleep 300")]));
      await kubectl("delete", "configmap", "app-config-7k2d");
      await seconds(5);
      await kubectl("delete", "pod", old, "--wait=false");
      await contains("CreateContainerConfigError");
      await seconds(8);
    },
  },
};
