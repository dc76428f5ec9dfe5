/**
 * One node from one seed: users who create, change and delete pods and manifests, containers that exit, images that cannot be pulled, a
 * runtime and an API server that fail, and an agent that is killed, for some minutes; then a quiet phase in which everything must reach its
 * desired state and stay there. The rules of test/harness/node/rules.ts hold at every step.
 */
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { isMirrorPod, LABELS } from "../../../shared/node-agent/kubelet/types/labels.ts";
import { isTerminalPhase } from "../../../shared/node-agent/kubelet/types/pod.ts";
import type { ContainerSpec, ContainerStatusEntry, NodePod } from "../../../shared/node-agent/kubelet/types/pod.ts";
import { CriError } from "../../../shared/node-agent/ports/cri-error.ts";
import type { ContainerStatus } from "../../../shared/node-agent/ports/cri-types.ts";
import { NodeHarness } from "../../harness/node/node.ts";
import type { Call, CallFate } from "../../harness/node/life.ts";

export interface NodeRun {
  readonly virtualMinutes: number;
  readonly stats: Readonly<Record<string, number>>;
}

const SECONDS = 1_000;
const BUSY_MS = 120 * SECONDS;
/** Limit of the quiet phase: the longest wait is a back-off of 300 s, which the agent may notice half a minute late. */
const CALM_MS_MAX = 600 * SECONDS;
const KEPT_MS = 60 * SECONDS;
const PODS_MAX = 7;
const STEP_MS = 500;
const SLOW_MS_MAX = 10 * SECONDS;
const AWAY_MS_MAX = 20 * SECONDS;
/** The timeout of a call without a response. Source: shared/node-agent/cri. */
const CRI_TIMEOUT_MS = 120 * SECONDS;

const IMAGES = {
  "app:2": {},
  "slow:1": { stopAfterMs: 3 * SECONDS },
  "deaf:1": { stopAfterMs: "never" },
  "ends:1": { exitAfterMs: 6 * SECONDS },
  "fails:1": { exitAfterMs: 4 * SECONDS, exitCode: 2 },
  "init:1": { exitAfterMs: 2 * SECONDS },
  "broken:1": { startError: "exec: no such file" },
} as const;
/** Images whose containers run until they are stopped. */
const LASTING = ["app:1", "app:2", "slow:1", "deaf:1", "far:1"];

export async function simulateNode(seed: number, log?: (line: string) => void): Promise<NodeRun> {
  return await new NodeSimulation(seed, log).run();
}

class NodeSimulation {
  readonly #random: { next(): number };
  readonly #node: NodeHarness;
  readonly #mix: { readonly cri: number; readonly api: number; readonly deaths: number; readonly hangs: number; readonly others: number };
  readonly #stats: Record<string, number> = {};
  readonly #log: (line: string) => void;
  #isBusy = true;
  #runtimeAwayUntilMs = 0;
  #numbers = 0;

  constructor(seed: number, log: (line: string) => void = () => undefined) {
    this.#log = log;
    this.#random = createSeededRandom(seed * 7_919 + 17);
    const some = (share: number): number => (this.#chance(0.6) ? share * this.#random.next() : 0);
    this.#mix = { cri: some(0.1), api: some(0.15), deaths: some(0.03), hangs: some(0.01), others: some(0.1) };
    this.#node = new NodeHarness({
      seed,
      manifests: this.#chance(0.7),
      images: IMAGES,
      remoteImages: { "far:1": { pullMs: 15 * SECONDS }, "bad:1": { pullError: "manifest unknown" } },
      apiFaults: () => (this.#isBusy ? { api: this.#mix.api, watch: this.#mix.api / 4 } : { api: 0, watch: 0 }),
      log,
    });
    this.#node.fateOf = (call) => this.#fateOf(call);
  }

  async run(): Promise<NodeRun> {
    const node = this.#node;
    const startMs = node.clock.now();
    node.start();
    while (node.clock.now() - startMs < BUSY_MS) {
      await node.advance(STEP_MS);
      if (!node.isAlive && this.#chance(0.05)) this.#restart();
      if (this.#chance(0.12)) await this.#user();
      if (this.#chance(this.#mix.others / 4)) await this.#stranger();
    }
    this.#isBusy = false;
    node.cri.setNetworkReady(true);
    if (!node.isAlive) this.#restart();
    await this.#settle();
    return { virtualMinutes: (node.clock.now() - startMs) / 60_000, stats: this.#stats };
  }

  async #settle(): Promise<void> {
    const node = this.#node;
    const endMs = node.clock.now() + CALM_MS_MAX;
    for (let wrong = await this.#unlikeWanted(); wrong !== undefined; wrong = await this.#unlikeWanted()) {
      if (node.clock.now() >= endMs) throw new Error(`after ${CALM_MS_MAX / SECONDS} s without faults: ${wrong}\n${await node.describe()}`);
      await node.advance(2 * SECONDS);
      // A kill that was drawn before the quiet phase may take effect in it.
      if (!node.isAlive) this.#restart();
    }
    const lasting = (await node.containers()).filter(({ state }) => state === "CONTAINER_RUNNING").map(({ id }) => id);
    await node.advance(KEPT_MS);
    const wrong = await this.#unlikeWanted();
    if (wrong !== undefined && !wrong.startsWith("loops"))
      throw new Error(`reached the desired state and then left it: ${wrong}\n${await node.describe()}`);
    for (const { id, state, image } of await node.containers())
      if (lasting.includes(id) && LASTING.includes(image) && state !== "CONTAINER_RUNNING")
        throw new Error(`${id} was stopped unnecessarily\n${await node.describe()}`);
  }

  /** @returns the difference from the desired state */
  async #unlikeWanted(): Promise<string | undefined> {
    const node = this.#node;
    const [pods, mirrors] = [node.pods().filter((pod) => !isMirrorPod(pod)), node.pods().filter(isMirrorPod)];
    const wanted = new Set([...pods, ...node.manifests()].map(({ metadata }) => metadata.uid));
    const containers = Map.groupBy(await node.containers(), ({ labels }) => labels[LABELS.podUid] ?? "");
    for (const [uid, ofPod] of containers)
      if (!wanted.has(uid) && ofPod.some(({ state }) => state === "CONTAINER_RUNNING")) return `${uid} is nobody's, and runs`;
    const ready = new Set((await node.cri.listPodSandbox({ state: "SANDBOX_READY" })).map(({ metadata }) => metadata.uid));
    for (const uid of ready) if (!wanted.has(uid)) return `a sandbox of ${uid}, which is nobody's`;
    for (const uid of await node.files.podsWithDirectories()) if (!wanted.has(uid)) return `a directory of ${uid}, which is nobody's`;
    for (const pod of pods) {
      if (pod.metadata.deletionTimestamp !== undefined) return `${pod.metadata.name} is not gone`;
      const ofPod = containers.get(pod.metadata.uid) ?? [];
      // Without its sandbox, a pod that never restarts stays as it is, as with upstream (node-agent 12, 28).
      if (pod.spec.restartPolicy === "Never" && ofPod.length > 0 && !ready.has(pod.metadata.uid)) continue;
      const wrong = unlikeReality(pod, pod.status, ofPod);
      if (wrong !== undefined) return wrong;
      // Includes all pods with a deadline that has not expired yet.
      if (pod.spec.activeDeadlineSeconds !== undefined && !isTerminalPhase(pod.status?.phase))
        return `${pod.metadata.name} has a deadline, and runs`;
    }
    for (const pod of node.manifests()) {
      const mirror = mirrors.find(({ metadata }) => metadata.name === pod.metadata.name);
      if (mirror === undefined) return `no mirror of ${pod.metadata.name}`;
      const wrong = unlikeReality(pod, mirror.status, containers.get(pod.metadata.uid) ?? []);
      if (wrong !== undefined) return wrong;
    }
    return mirrors.length === node.manifests().length ? node.phaseLeft() : "a mirror too many";
  }

  async #user(): Promise<void> {
    const node = this.#node;
    const pods = node.pods().filter((pod) => !isMirrorPod(pod));
    const pod = pods[Math.floor(this.#random.next() * pods.length)];
    switch (this.#pick(["create", "create", "create", "delete", "delete", "change", "deadline", "manifest"] as const)) {
      case "create":
        if (pods.length >= PODS_MAX) return;
        this.#did("created");
        await node.create(`p${++this.#numbers}`, this.#spec());
        return;
      case "delete":
        if (pod === undefined) return;
        this.#did("deleted");
        await node.delete(pod.metadata.name, this.#pick([undefined, undefined, 0, 1, 4, 60]));
        return;
      case "change": {
        const container = pod?.spec.containers[0];
        if (pod === undefined || container === undefined) return;
        this.#did("changed");
        await node.patch(pod.metadata.name, {
          metadata: { labels: { n: String(this.#numbers) } },
          spec: { containers: [{ name: container.name, image: this.#pick(["app:1", "app:2", "slow:1"]) }] },
        });
        return;
      }
      case "deadline":
        if (pod === undefined || pod.spec.activeDeadlineSeconds !== undefined) return;
        this.#did("given a deadline");
        await node.patch(pod.metadata.name, { spec: { activeDeadlineSeconds: Math.ceil(this.#random.next() * 60) } });
        return;
      case "manifest": {
        const file = this.#pick(["a.yaml", "b.yaml"]);
        if (!node.hasManifests) return;
        this.#did("manifests changed");
        node.setManifest(
          file,
          this.#chance(0.25) ? undefined : { name: file.slice(0, 1), spec: { ...this.#spec(), restartPolicy: "Always" } },
        );
        return;
      }
    }
  }

  /** Changes the node from outside the agent. */
  async #stranger(): Promise<void> {
    const { cri, clock } = this.#node;
    const kind = this.#pick(["container", "sandbox", "network", "runtime", "orphan"] as const);
    this.#did(`${kind} hit`);
    switch (kind) {
      case "container": {
        const running = await cri.listContainers({ state: "CONTAINER_RUNNING" });
        if (running.length > 0) await cri.stopContainer(this.#pick(running).id, 0);
        return;
      }
      case "sandbox": {
        const ready = await cri.listPodSandbox({ state: "SANDBOX_READY" });
        if (ready.length > 0) await cri.stopPodSandbox(this.#pick(ready).id);
        return;
      }
      case "network":
        cri.setNetworkReady(false);
        void clock.after(this.#random.next() * AWAY_MS_MAX).then(() => cri.setNetworkReady(true));
        return;
      case "runtime":
        this.#runtimeAwayUntilMs = clock.now() + this.#random.next() * AWAY_MS_MAX;
        return;
      case "orphan": {
        const uid = `orphan-${++this.#numbers}`;
        await cri.runPodSandbox({ metadata: { name: uid, namespace: "default", uid, attempt: 0 }, labels: { [LABELS.podUid]: uid } });
        return;
      }
    }
  }

  #fateOf({ port, verb }: Call): CallFate {
    if (!this.#isBusy) return "live";
    if (this.#chance(this.#mix.deaths / 20)) {
      this.#did("deaths");
      this.#log(`died in ${verb}`);
      return this.#chance(0.5) ? "dieBefore" : "dieAfter";
    }
    if (port !== "cri") return "live";
    const { clock } = this.#node;
    if (clock.now() < this.#runtimeAwayUntilMs) return { fail: new CriError("Unavailable", "no response") };
    if (this.#chance(this.#mix.cri)) {
      this.#did("runtime faults");
      const fault = this.#pick(["unavailable", "lost", "slow"] as const);
      if (fault === "slow") return { after: clock.after(this.#random.next() * SLOW_MS_MAX) };
      const error = new CriError("Unavailable", "the connection broke");
      return fault === "lost" ? { lose: error } : { fail: error };
    }
    if (!this.#chance(this.#mix.hangs)) return "live";
    this.#did("hangs");
    return {
      after: clock.after(CRI_TIMEOUT_MS).then(() => {
        throw new CriError("DeadlineExceeded", "context deadline exceeded");
      }),
    };
  }

  #spec(): { readonly containers: ContainerSpec[]; readonly [field: string]: unknown } {
    const image = (): string => this.#pick([...LASTING, ...LASTING, "ends:1", "fails:1", "bad:1", "broken:1"]);
    const containers = (this.#chance(0.4) ? ["a", "b"] : ["a"]).map((name): ContainerSpec => ({
      name,
      image: image(),
      ...(this.#chance(0.3) && { readinessProbe: { exec: { command: ["x"] }, periodSeconds: 2 } }),
      ...(this.#chance(0.2) && { lifecycle: { preStop: { exec: { command: ["x"] } } } }),
    }));
    const init: readonly ContainerSpec[] = [
      ...(this.#chance(0.25) ? [{ name: "i", image: "init:1" }] : []),
      ...(this.#chance(0.2) ? [{ name: "s", image: "app:1", restartPolicy: "Always" }] : []),
    ];
    return {
      restartPolicy: this.#pick(["Always", "Always", "OnFailure", "Never"]),
      terminationGracePeriodSeconds: this.#pick([30, 5, 1]),
      ...(this.#chance(0.1) && { hostNetwork: true }),
      ...(init.length > 0 && { initContainers: [...init] }),
      containers,
    };
  }

  #restart(): void {
    this.#did("restarts");
    this.#node.start();
  }

  #did(what: string): void {
    this.#stats[what] = (this.#stats[what] ?? 0) + 1;
  }

  #chance(share: number): boolean {
    return share > 0 && this.#random.next() < share;
  }

  #pick<T>(values: readonly T[]): T {
    const value = values[Math.floor(this.#random.next() * values.length)];
    // An empty list would be a bug of the caller.
    return value as T;
  }
}

/** @returns how `status` differs from the containers, or which container of the pod does not run although it should */
function unlikeReality(
  { metadata: { name: pod }, spec }: NodePod,
  status: NodePod["status"],
  containers: readonly ContainerStatus[],
): string | undefined {
  if (isTerminalPhase(status?.phase)) {
    const running = containers.find(({ state }) => state === "CONTAINER_RUNNING");
    return running && `${pod} is ${status.phase}, and ${running.metadata.name} runs`;
  }
  const wouldEnd = spec.restartPolicy !== "Always" && spec.containers.every(({ image }) => !LASTING.includes(image ?? ""));
  const isHeld = spec.containers.some(({ image }) => image === "bad:1" || image === "broken:1");
  const loops = spec.containers.some(({ image }) => image === "fails:1" || image === "ends:1");
  if (wouldEnd && !isHeld && spec.restartPolicy === "Never") return `${pod} should have ended`;
  for (const { name, image = "" } of spec.containers) {
    const entry = status?.containerStatuses?.find((one) => one.name === name);
    const newest = newestOf(containers, name);
    // The image may have been changed after the container had ended.
    const hasEnded =
      newest?.state === "CONTAINER_EXITED" &&
      (spec.restartPolicy === "Never" || (spec.restartPolicy === "OnFailure" && newest.exitCode === 0));
    if (LASTING.includes(image) && !hasEnded) {
      if (newest?.state !== "CONTAINER_RUNNING") return `${pod} ${name} does not run`;
      if (entry?.state?.running === undefined) return `${pod} ${name} runs, and its status says ${JSON.stringify(entry?.state)}`;
      if (entry.ready !== true) return `${pod} ${name} is not ready`;
    }
    const told = difference(entry, newest);
    if (told !== undefined) return `${loops ? "loops: " : ""}${pod} ${name}: ${told}`;
  }
  const expected = spec.containers.every(({ image }) => image === "bad:1") ? "Pending" : undefined;
  return expected === undefined || status?.phase === expected ? undefined : `${pod} is ${status?.phase}`;
}

function difference(entry: ContainerStatusEntry | undefined, newest: ContainerStatus | undefined): string | undefined {
  if (newest === undefined) return entry?.containerID ? `its status names ${entry.containerID}, which is gone` : undefined;
  if (newest.state === "CONTAINER_CREATED") return undefined;
  const terminated = entry?.state?.terminated ?? entry?.lastState?.terminated;
  const id = newest.state === "CONTAINER_RUNNING" ? entry?.containerID : terminated?.containerID;
  if (id !== `memory://${newest.id}`) return `its status names ${id}, its newest is ${newest.id}`;
  if (newest.state === "CONTAINER_EXITED" && terminated?.exitCode !== newest.exitCode)
    return `exit code ${terminated?.exitCode}, not ${newest.exitCode}`;
  return entry?.restartCount === newest.metadata.attempt
    ? undefined
    : `restart count ${entry?.restartCount}, not ${newest.metadata.attempt}`;
}

function newestOf(containers: readonly ContainerStatus[], name: string): ContainerStatus | undefined {
  return containers.filter(({ metadata }) => metadata.name === name).toSorted((a, b) => b.metadata.attempt - a.metadata.attempt)[0];
}
