/** The kinds of pods of a busy node and how each of them ends, as data for churn.ts. */
import { containerOf, isReady, podOf, server, shell, STAY } from "../../harness/node-processes/pods.ts";
import type { PodView } from "../../harness/node-processes/pods.ts";

export interface Kind {
  readonly name: string;
  spec(sources: PodSources): object | Promise<object>;
  /** The state to wait for before the pod is deleted. */
  readonly until: (pod: PodView) => boolean;
  /** Time in ms to stay in that state. */
  readonly staysMs?: number;
  /** Grace period of the deletion; default: that of the pod. */
  readonly graceSeconds?: number;
}

export interface PodSources {
  readonly hostFolder: string;
  /** Returns an image that was not pulled before, and whose pull takes this time. */
  newImage(layerMs: number): Promise<string>;
  readonly absentImage: string;
}

const running = (pod: PodView): boolean => pod.status.phase === "Running";
const succeeded = (pod: PodView): boolean => pod.status.phase === "Succeeded";
const failed = (pod: PodView): boolean => pod.status.phase === "Failed";
const waits = (pod: PodView): boolean => (pod.status.containerStatuses ?? []).some(({ state }) => state.waiting?.reason !== undefined);
const waitsFor =
  (reasons: RegExp) =>
  (pod: PodView): boolean =>
    (pod.status.containerStatuses ?? []).some(
      ({ state, lastState }) => reasons.test(state.waiting?.reason ?? "") || lastState.terminated !== undefined,
    );

const probe = { httpGet: { port: 8080 }, periodSeconds: 1 };
const scratch = { volumes: [{ name: "scratch", emptyDir: {} }] };
const atScratch = { volumeMounts: [{ name: "scratch", mountPath: "/scratch" }] };
const never = { restartPolicy: "Never" };

/** A token that is refreshed after 8 minutes: 80 % of the minimum lifetime that an API server grants. */
export const TOKEN = { serviceAccountToken: { path: "token", expirationSeconds: 600, audience: "churn" } };

function everything(hostFolder: string): object {
  const mount = (name: string, more: object = {}): object => ({ name, mountPath: `/in/${name}`, ...more });
  return {
    volumes: [
      { name: "disk", emptyDir: {} },
      { name: "memory", emptyDir: { medium: "Memory", sizeLimit: "8Mi" } },
      { name: "map", configMap: { name: "settings" } },
      { name: "secret", secret: { secretName: "secret" } },
      { name: "down", downwardAPI: { items: [{ path: "labels", fieldRef: { fieldPath: "metadata.labels" } }] } },
      { name: "all", projected: { sources: [TOKEN, { configMap: { name: "settings" } }, { secret: { name: "secret" } }] } },
      { name: "host", hostPath: { path: hostFolder, type: "Directory" } },
    ],
    containers: [
      server({
        volumeMounts: [
          ...["memory", "map", "secret", "down", "all"].map((name) => mount(name)),
          ...["disk", "host"].map((name) => mount(name, { subPath: "below/it" })),
        ],
      }),
      shell("side", "cat /in/memory/none; echo > /in/memory/file; sleep 3600", { volumeMounts: [mount("memory"), mount("disk")] }),
    ],
  };
}

export const KINDS: readonly Kind[] = [
  { name: "server", spec: () => ({ containers: [server({ readinessProbe: probe, livenessProbe: probe })] }), until: isReady },
  {
    name: "crashes",
    spec: () => ({ containers: [shell("main", "exit 1")] }),
    until: (pod) => waits(pod) && containerOf(pod).restartCount > 0,
    staysMs: 3_000,
  },
  { name: "completes", spec: () => ({ ...never, containers: [shell("main", "echo done")] }), until: succeeded },
  { name: "fails", spec: () => ({ ...never, containers: [shell("main", "exit 3"), shell("side", STAY)] }), until: running, staysMs: 3_000 },
  {
    name: "stubborn",
    spec: () => ({ terminationGracePeriodSeconds: 3, containers: [shell("main", "trap '' TERM; while :; do sleep 1; done")] }),
    until: running,
  },
  { name: "forced", spec: () => ({ containers: [shell("main", "sleep 3600")] }), until: running, graceSeconds: 0 },
  { name: "everything", spec: ({ hostFolder }) => everything(hostFolder), until: isReady, staysMs: 2_000 },
  {
    name: "initialised",
    spec: () => ({
      ...scratch,
      initContainers: [shell("first", "echo 1 > /scratch/1", atScratch), { ...shell("sidecar", STAY, atScratch), restartPolicy: "Always" }],
      containers: [shell("main", STAY, atScratch)],
    }),
    until: isReady,
  },
  {
    // Logs more than the 10 MiB at which a log is rotated, so that the container writes during the rotation.
    name: "talks",
    spec: () => ({
      terminationGracePeriodSeconds: 1,
      containers: [
        shell(
          "main",
          "for i in 1 2 3 4; do /bin/busybox yes 'as much as ever one could say of anything' | /bin/busybox head -c 5000000; sleep 4; done; sleep 3600",
        ),
      ],
    }),
    until: running,
    staysMs: 24_000,
  },
  { name: "pulled", spec: async (sources) => ({ containers: [{ name: "main", image: await sources.newImage(300) }] }), until: isReady },
  {
    name: "pulling",
    spec: async (sources) => ({ containers: [{ name: "main", image: await sources.newImage(20_000) }] }),
    until: ({ status }) => status.podIP !== undefined,
    staysMs: 1_500,
  },
  {
    name: "imageless",
    spec: ({ absentImage }) => ({ containers: [{ name: "main", image: absentImage }] }),
    until: waitsFor(/ErrImagePull|ImagePullBackOff/u),
  },
  {
    name: "hooked",
    spec: () => ({
      containers: [
        server({
          image: "localhost/busybox:1",
          command: ["sh", "-c", STAY],
          lifecycle: { postStart: { exec: { command: ["true"] } }, preStop: { exec: { command: ["sleep", "1"] } } },
        }),
      ],
      terminationGracePeriodSeconds: 5,
    }),
    until: running,
  },
  {
    name: "unstartable",
    spec: () => ({ containers: [{ ...shell("main", ""), command: ["/no/such/program"] }] }),
    until: waitsFor(/RunContainerError|CrashLoopBackOff|CreateContainerError/u),
  },
  {
    name: "unmountable",
    spec: () => ({ volumes: [{ name: "map", configMap: { name: "none" } }], containers: [shell("main", STAY)] }),
    until: waits,
    staysMs: 3_000,
  },
  {
    name: "greedy",
    spec: () => ({
      volumes: [{ name: "scratch", emptyDir: { sizeLimit: "1Mi" } }],
      containers: [shell("main", `/bin/busybox head -c 3000000 /dev/zero > /scratch/file; ${STAY}`, atScratch)],
    }),
    until: ({ status }) => status.reason === "Evicted",
  },
  { name: "rejected", spec: () => ({ nodeSelector: { disk: "none" }, containers: [server()] }), until: failed },
  { name: "late", spec: () => ({ activeDeadlineSeconds: 3, containers: [shell("main", "sleep 3600")] }), until: failed },
  { name: "at-home", spec: () => ({ hostNetwork: true, containers: [shell("main", STAY)] }), until: running },
];

/** Namespaced objects that pods of some kinds read. */
export const OBJECTS: readonly object[] = [
  { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data: { a: "1", b: "2" } },
  { apiVersion: "v1", kind: "Secret", metadata: { name: "secret" }, stringData: { c: "3" } },
];

export async function podOfKind(kind: Kind, name: string, nodeName: string, sources: PodSources): Promise<object> {
  return podOf(name, { nodeName, ...(await kind.spec(sources)) }, { labels: { kind: kind.name } });
}
