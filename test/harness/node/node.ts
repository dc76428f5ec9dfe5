/**
 * A node on memory adapters: the agent as `deltaloop node` wires it, on an API server, a runtime and a disk that
 * outlive it, under a virtual clock. Checks the rules of rules.ts after each step of the runtime and of the clock; a
 * violation throws in `until` and `advance`.
 */
import { createNodeAgent, startCondition } from "../../../cli/node/node-agent.ts";
import type { NodeAgent } from "../../../cli/node/node-agent.ts";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import type { VirtualClock } from "../../../shared/base/memory/clock.ts";
import type { ImageScript, RemoteImage } from "../../../shared/node-agent/memory/cri/cri-script.ts";
import { createMemoryCgroups } from "../../../shared/node-agent/memory/cgroups.ts";
import type { MemoryCgroups } from "../../../shared/node-agent/memory/cgroups.ts";
import { createMemoryCri } from "../../../shared/node-agent/memory/cri/cri.ts";
import type { MemoryCri } from "../../../shared/node-agent/memory/cri/cri.ts";
import { createMemoryNodeStore } from "../../../shared/node-agent/memory/node-store.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { isMirrorPod, LABELS } from "../../../shared/node-agent/kubelet/types/labels.ts";
import { DEFAULT_EVICTION } from "../../../shared/node-agent/kubelet/types/eviction-thresholds.ts";
import type { EvictionPolicy } from "../../../shared/node-agent/kubelet/types/eviction-thresholds.ts";
import { DEFAULT_IMAGE_PULLS } from "../../../shared/node-agent/kubelet/images/pull-policy.ts";
import type { ImagePullPolicy } from "../../../shared/node-agent/kubelet/types/node-options.ts";
import type { MachineFacts } from "../../../shared/node-agent/kubelet/node/node-object.ts";
import type { NodeOptions } from "../../../shared/node-agent/kubelet/types/node-options.ts";
import { PodManager } from "../../../shared/node-agent/kubelet/pod/pod-manager.ts";
import type { NodePod, PodSpec } from "../../../shared/node-agent/kubelet/types/pod.ts";
import { createApiServer } from "../../../shared/api-server/api-server.ts";
import type { ApiServer } from "../../../shared/api-server/api-server.ts";
import { manifestPod } from "../../../shared/node-agent/sources/manifest.ts";
import type { Container, ContainerStatus } from "../../../shared/node-agent/ports/cri-types.ts";
import type { Cri } from "../../../shared/node-agent/ports/cri.ts";
import type { Log } from "../../../shared/base/log.ts";
import type { Logind } from "../../../shared/node-agent/ports/logind.ts";
import type { MachineUsage } from "../../../shared/node-agent/ports/machine.ts";
import type { Metrics } from "../../../shared/base/metrics/metrics.ts";
import type { NodeCredentials } from "../../../shared/node-agent/ports/node-credentials.ts";
import type { NodeStore } from "../../../shared/node-agent/ports/node-store.ts";
import type { Prober } from "../../../shared/node-agent/ports/prober.ts";
import { createSimulatedKube } from "../../simulation/kube.ts";
import { createMemoryNodeFiles } from "./files.ts";
import type { MemoryNodeFiles } from "./files.ts";
import { Life } from "./life.ts";
import type { Call, CallFate } from "./life.ts";
import { isChange, Phases, wrongInRuntime, wrongToSend } from "./rules.ts";

export interface NodeHarnessOptions {
  readonly seed?: number;
  /** Images on the machine from the start; `app` runs until it is stopped. */
  readonly images?: Readonly<Record<string, ImageScript>>;
  readonly remoteImages?: Readonly<Record<string, RemoteImage>>;
  /** Enables the manifest source, even while it is empty. Default: the API server is the only source. */
  readonly manifests?: boolean;
  /** Share of calls to the API server that fail. */
  readonly apiFaults?: () => { readonly api: number; readonly watch: number };
  readonly prober?: Partial<Prober>;
  readonly log?: (line: string) => void;
  readonly metrics?: Metrics;
  readonly eviction?: EvictionPolicy;
  readonly credentials?: NodeCredentials;
  readonly logind?: Logind;
  /** Other options of the node. */
  readonly nodeOptions?: Partial<NodeOptions>;
  readonly imagePulls?: ImagePullPolicy;
}

/** A request of the agent that the API server executes. */
export interface SentRequest {
  readonly atMs: number;
  readonly method: string;
  readonly path: string;
  readonly body: object | undefined;
}

/** A call of the agent that changes the runtime. */
export interface SentCall {
  readonly atMs: number;
  readonly verb: string;
  readonly args: readonly unknown[];
}

export const NODE = "n1";
const START_MS = Date.UTC(2026, 2, 1, 10);
const STEP_MS = 250;
/** Duration of each runtime operation; it also determines the order of creation. */
const CRI_MS = 3;
const MANIFESTS_MS = 20_000;
/** The time during which the API server may still execute an abandoned request, and the agent corrects the effect. */
const LATE_MS = 40_000;

const FACTS: MachineFacts = {
  hostname: NODE,
  os: "linux",
  architecture: "amd64",
  kernelVersion: "6.1.0",
  osImage: "Debian GNU/Linux 12 (bookworm)",
  machineId: "m",
  systemUuid: "s",
  bootId: "b",
  runningInUserNamespace: false,
  resources: { cpuMilli: 64_000, memoryBytes: 64 * 2 ** 30, ephemeralStorageBytes: 2 ** 40, pods: 110 },
};

const OPTIONS: NodeOptions = {
  nodeName: NODE,
  hostIps: ["10.0.0.1"],
  rootDir: "/root",
  podLogsDir: "/logs",
  containerLogsDir: "/links",
  cgroupRoot: "/",
  cgroupDriver: "cgroupfs",
  port: 10_250,
  maxPods: 110,
  clusterDns: ["10.96.0.10"],
  clusterDomain: "cluster.local",
  imageGc: { highThresholdPercent: 85, lowThresholdPercent: 80, minAgeMs: 120_000 },
  cgroups: { perQos: true, enforce: ["pods"], kubeReserved: { resources: {} }, systemReserved: { resources: {} }, podMaxPids: -1 },
  imagePulls: DEFAULT_IMAGE_PULLS,
  eviction: DEFAULT_EVICTION,
};

/** A node whose agent has run for two seconds. */
export async function startedNode(options: NodeHarnessOptions = {}): Promise<NodeHarness> {
  const node = new NodeHarness(options);
  node.start();
  await node.advance(2_000);
  return node;
}

export class NodeHarness {
  readonly clock: VirtualClock = createVirtualClock(START_MS);
  readonly server: ApiServer;
  /** The runtime itself: calls to it are not calls of the agent. */
  readonly cri: MemoryCri;
  readonly files: MemoryNodeFiles = createMemoryNodeFiles();
  readonly cgroups: MemoryCgroups = createMemoryCgroups({ roots: ["/kubepods"] });
  readonly requests: SentRequest[] = [];
  readonly calls: SentCall[] = [];
  /** Called before each call to the runtime is executed. */
  onCall: ((call: SentCall) => void) | undefined;
  readonly random: { next(): number };
  /** Decides the outcome of each external call of the agent. */
  fateOf: (call: Call) => CallFate = () => "live";

  /** The machine's statistics; a change takes effect at the next poll. */
  usage: MachineUsage = { memoryBytes: 64 * 2 ** 30, workingSetBytes: 2 ** 30, processes: { count: 100, max: 4_000_000 } };

  readonly #options: NodeHarnessOptions;
  readonly #manifests = new Map<string, NodePod>();
  readonly #owners = new Map<string, string>();
  readonly #phases = new Phases();
  readonly #seen = new Map<string, NodePod>();
  #changes = 0;
  #lives = 0;
  #lateUntilMs = 0;
  #wrong: string | undefined;
  #life: Life | undefined;
  #agent: NodeAgent | undefined;
  #deletedBefore: ReadonlySet<string> = new Set();

  constructor(options: NodeHarnessOptions = {}) {
    this.#options = options;
    const { clock } = this;
    this.random = createSeededRandom(options.seed ?? 1);
    this.server = createApiServer({ clock, random: this.#fork() });
    this.cri = createMemoryCri({
      clock,
      random: this.#fork(),
      images: { "app:1": {}, ...options.images },
      ...(options.remoteImages && { remoteImages: options.remoteImages }),
      writeLog: (path, line) => this.files.append(path, line),
    });
    void this.#followPods();
  }

  /** The agent of the current process. */
  get agent(): NodeAgent {
    if (this.#agent === undefined) throw new Error("no agent is running");
    return this.#agent;
  }

  get isAlive(): boolean {
    return this.#life?.isOver === false;
  }

  get hasManifests(): boolean {
    return this.#options.manifests === true;
  }

  /** The number of agents so far. */
  get lives(): number {
    return this.#lives;
  }

  /** The number of changes of a pod in the API server. */
  changes(): number {
    return this.#changes;
  }

  /** Starts a new process with empty memory. `store` may be the store of an earlier process, if it is persistent. */
  start(store: NodeStore = createMemoryNodeStore()): void {
    this.kill();
    const life: Life = new Life((call): CallFate => this.#sent(call, life));
    const { clock } = this;
    const ownClock = life.clock(clock);
    const random = this.#fork();
    this.#life = life;
    this.#lives++;
    this.#deletedBefore = new Set(
      [...this.#seen].filter(([, { metadata }]) => metadata.deletionTimestamp !== undefined).map(([uid]) => uid),
    );
    const kube = createSimulatedKube({
      server: this.server,
      clock: ownClock,
      random: this.#fork(),
      component: "deltaloop-node",
      faults: this.#options.apiFaults ?? (() => ({ api: 0, watch: 0 })),
      observer: {
        late: () => void (this.#lateUntilMs = clock.now() + LATE_MS),
        executing: (_component, { method, path }, body) => {
          if (method !== "GET") this.requests.push({ atMs: clock.now(), method, path, body });
        },
      },
    });
    const agent = createNodeAgent({
      cri: life.over("cri", this.#runtime()),
      kube: life.over("kube", kube),
      store,
      files: life.over("files", this.files),
      cgroups: life.over("cgroups", this.cgroups),
      machine: { usage: async () => this.usage },
      prober: life.over("prober", this.#prober()),
      ...(this.#options.logind && { logind: life.over("logind", this.#options.logind) }),
      ...(this.#options.credentials && { credentials: this.#options.credentials }),
      clock: ownClock,
      random,
      log: this.#log(),
      ...(this.#options.metrics && { metrics: this.#options.metrics }),
      options: {
        ...OPTIONS,
        ...(this.#options.eviction && { eviction: this.#options.eviction }),
        ...this.#options.nodeOptions,
        ...(this.#options.imagePulls && { imagePulls: this.#options.imagePulls }),
      },
      pods: new PodManager(),
      condition: startCondition(clock.now()),
      facts: FACTS,
      runtime: { runtimeName: "memory", runtimeVersion: "1" },
      sources: this.#options.manifests ? ["file", "api"] : ["api"],
    });
    this.#agent = agent;
    void agent.run(new AbortController().signal);
    if (this.#options.manifests) void this.#readManifests(life, agent);
  }

  /** Simulates SIGKILL. */
  kill(): void {
    this.#life?.die();
  }

  /** Advances the clock. @throws the rule that was violated */
  async advance(ms: number): Promise<void> {
    await this.clock.advance(ms);
    if (this.#wrong !== undefined) throw new Error(this.#wrong);
  }

  async until(what: string, isSo: () => boolean | Promise<boolean>, msMax = 120_000): Promise<void> {
    const endMs = this.clock.now() + msMax;
    while (!(await isSo())) {
      if (this.clock.now() >= endMs) throw new Error(`timed out after ${msMax} ms: ${what}\n${await this.describe()}`);
      await this.advance(STEP_MS);
    }
  }

  /** @returns its UID */
  async create(name: string, spec: Partial<PodSpec> & Pick<PodSpec, "containers">, metadata: object = {}): Promise<string> {
    // This API server does not issue tokens.
    const own = { nodeName: NODE, automountServiceAccountToken: false, ...spec };
    const body = { apiVersion: "v1", kind: "Pod", metadata: { name, ...metadata }, spec: own };
    const response = await this.server.request({ method: "POST", path: "/api/v1/namespaces/default/pods", body });
    if (response.kind !== "object" || response.status !== 201) throw new Error(`the pod was not created: ${JSON.stringify(response)}`);
    return (response.body as unknown as NodePod).metadata.uid; // a request for a pod returns a pod
  }

  async delete(name: string, gracePeriodSeconds?: number): Promise<void> {
    const path = `/api/v1/namespaces/default/pods/${name}`;
    await this.server.request({ method: "DELETE", path, body: gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds } });
  }

  async patch(name: string, body: object, subresource = ""): Promise<void> {
    const path = `/api/v1/namespaces/default/pods/${name}${subresource}`;
    const headers = { "content-type": "application/strategic-merge-patch+json" };
    const response = await this.server.request({ method: "PATCH", path, body, headers });
    if (response.status !== 200) throw new Error(`the pod was not patched: ${JSON.stringify(response)}`);
  }

  /** The current object in the API server. */
  pod(name: string): NodePod | undefined {
    return this.server.peek("pods", "default", name) as NodePod | undefined; // stored by create, above, or as a mirror pod
  }

  pods(): readonly NodePod[] {
    return [...this.#seen.values()];
  }

  phase(name: string): string | undefined {
    return this.pod(name)?.status?.phase;
  }

  /** A terminal phase that became non-terminal (NR4). A mirror pod is recreated with its static pod's state. */
  phaseLeft(): string | undefined {
    const own = this.pods().filter((pod) => !isMirrorPod(pod));
    return this.#phases.wrong(own.map(({ metadata, status }) => ({ uid: metadata.uid, phase: status?.phase })));
  }

  isReady(name: string): boolean {
    return this.pod(name)?.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") === true;
  }

  /** Writes files of the manifest directory, undefined deletes one; the agent reads them at once. */
  setManifest(file: string, pod: { readonly name: string; readonly spec: object } | undefined): void {
    if (pod === undefined) this.#manifests.delete(file);
    else {
      const { name, spec } = pod;
      this.#manifests.set(
        file,
        manifestPod(JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata: { name }, spec }), `/manifests/${file}`, NODE),
      );
    }
    if (this.isAlive) this.agent.emit("file")([...this.#manifests.values()]);
  }

  /** UID of the pod in `file`. */
  manifestUid(file: string): string {
    return this.#manifests.get(file)?.metadata.uid ?? "";
  }

  manifests(): readonly NodePod[] {
    return [...this.#manifests.values()];
  }

  /** Containers of a pod, or of all pods; newest last. */
  async containers(uid?: string): Promise<readonly ContainerStatus[]> {
    const list = await this.cri.listContainers(uid === undefined ? {} : { labelSelector: { [LABELS.podUid]: uid } });
    return await Promise.all(list.map(({ id }) => this.cri.containerStatus(id)));
  }

  async running(uid: string): Promise<readonly string[]> {
    const list = await this.containers(uid);
    return list.filter(({ state }) => state === "CONTAINER_RUNNING").map(({ metadata }) => metadata.name);
  }

  /** A description of the state, for the messages of failing tests. */
  async describe(): Promise<string> {
    const pods = this.pods().map(
      ({ metadata, status }) =>
        `${metadata.name} ${metadata.uid} ${status?.phase} ${status?.reason ?? ""} ${metadata.deletionTimestamp ?? ""} ${JSON.stringify(status?.containerStatuses?.map(({ name, state }) => [name, state]))}`,
    );
    const containers = (await this.cri.listContainers()).map(
      ({ labels, metadata, state }: Container) => `${labels[LABELS.podUid]} ${metadata.name} ${metadata.attempt} ${state}`,
    );
    const sandboxes = (await this.cri.listPodSandbox()).map(
      ({ metadata, state }) => `${metadata.uid} sandbox ${metadata.attempt} ${state}`,
    );
    const workers =
      this.#agent === undefined
        ? []
        : [...(await this.#agent.ports.store.rows("workers"))].map(([uid, record]) => `${uid} ${JSON.stringify(record)}`);
    return [new Date(this.clock.now()).toISOString(), ...pods, ...containers, ...sandboxes, ...workers].join("\n");
  }

  #sent(call: Call, life: Life): CallFate {
    if (call.port === "cri" && isChange(call.verb)) {
      const sent = { atMs: this.clock.now(), verb: call.verb, args: call.args };
      this.calls.push(sent);
      this.onCall?.(sent);
      if (this.#life === life) this.#judge(call);
    }
    return this.fateOf(call);
  }

  #judge({ verb, args: [first] }: Call): void {
    const isSandbox = verb === "runPodSandbox";
    const id = isSandbox ? "" : String(first);
    const uid = isSandbox ? (first as Parameters<Cri["runPodSandbox"]>[0]).metadata.uid : this.#owners.get(id); // the parameter of the call
    if (uid === undefined) return;
    const { cri } = this;
    const input = { cri, uid, id, verb, ports: this.agent.ports, deletedBefore: this.#deletedBefore };
    void wrongToSend(input).then((wrong) => this.#breach(wrong));
  }

  #breach(wrong: string | undefined): void {
    if (wrong !== undefined) this.#wrong ??= `${new Date(this.clock.now()).toISOString()}: ${wrong}`;
  }

  /** The runtime as the agent sees it: calls take time, and the rules are checked after each change. */
  #runtime(): Cri {
    const { cri, clock, files } = this;
    const settled = async <T>(answer: Promise<T>): Promise<T> => {
      try {
        return await answer;
      } finally {
        this.#breach(await wrongInRuntime(cri));
      }
    };
    const owned = (id: string, uid: string): string => {
      this.#owners.set(id, uid);
      return id;
    };
    return {
      ...cri,
      runPodSandbox: async (config, runtimeHandler) => {
        await clock.after(CRI_MS);
        return owned(await settled(cri.runPodSandbox(config, runtimeHandler)), config.metadata.uid);
      },
      createContainer: async (sandboxId, config, sandboxConfig) => {
        await clock.after(CRI_MS);
        return owned(await settled(cri.createContainer(sandboxId, config, sandboxConfig)), sandboxConfig.metadata.uid);
      },
      startContainer: async (id) => {
        await clock.after(CRI_MS);
        await settled(cri.startContainer(id));
        const { logPath } = await cri.containerStatus(id);
        files.append(logPath, "");
      },
      stopPodSandbox: async (id) => {
        await clock.after(CRI_MS);
        await settled(cri.stopPodSandbox(id));
      },
    };
  }

  #prober(): Prober {
    const answer = (host: string) => ({ result: this.cri.answers(host) ? ("Success" as const) : ("Failure" as const), output: "" });
    return {
      httpGet: async ({ host }) => answer(host),
      tcpSocket: async ({ host }) => answer(host),
      grpcHealth: async ({ host }) => answer(host),
      ...this.#options.prober,
    };
  }

  async #readManifests(life: Life, agent: NodeAgent): Promise<void> {
    while (!life.isOver) {
      agent.emit("file")([...this.#manifests.values()]);
      await this.clock.after(MANIFESTS_MS);
    }
  }

  /** The API server's pods, event by event. */
  async #followPods(): Promise<void> {
    const response = await this.server.request({ method: "GET", path: "/api/v1/pods", query: { watch: "true" } });
    if (response.kind !== "watch") throw new Error("the watch of pods was rejected");
    for await (const { type, object } of response.stream) {
      const pod = object as unknown as NodePod; // a watch of pods
      const { uid } = pod.metadata;
      this.#changes++;
      if (type === "DELETED") this.#seen.delete(uid);
      else this.#seen.set(uid, pod);
      if (this.clock.now() >= this.#lateUntilMs) this.#breach(this.phaseLeft());
    }
  }

  #fork(): { next(): number } {
    return createSeededRandom(Math.floor(this.random.next() * 2 ** 32));
  }

  #log(): Log {
    const { log } = this.#options;
    const at = (level: string) => (message: string, fields?: object) =>
      log?.(`${new Date(this.clock.now()).toISOString()} ${level} ${message} ${JSON.stringify(fields ?? {})}`);
    return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  }
}
