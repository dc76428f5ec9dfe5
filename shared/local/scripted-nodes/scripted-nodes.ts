/**
 * Nodes without machines: Node objects with Leases, pods that turn Running and Ready after a moment, deletions that finish.
 * A load generator and the demo's fleet; works against the in-memory and a real API server alike.
 *
 * N1 a pod's next step is chosen from what its object says, so a restart goes on where the last run stopped.
 * N2 one step per pod at a time; every write names the pod's uid, so a namesake is never touched.
 * N3 pods of other nodes are never touched; pods without a node only with `bindPods`.
 */
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import type { Pod } from "../../api/wire.ts";
import { type KubeHttp, KubeHttpError, type KubeHttpObject } from "./kube-http.ts";
import { leaseObject, nodeAddress, nodeObject, nodeStatus } from "./node-object.ts";
import { nextStep, type NextStep, runningStatus, startedStatus, stoppedStatus } from "./pod-status.ts";
import { keepWatching } from "./pod-watch.ts";

export interface ScriptedNodesOptions {
  readonly count: number;
  readonly clock: Clock;
  readonly random: Random;
  /** True only where no scheduler runs. */
  readonly bindPods: boolean;
  /** From Pending to Ready. */
  readonly readyAfterMs?: readonly [min: number, max: number];
  /** From the deletion to Succeeded, and once more until the pod is gone. */
  readonly deleteAfterMs?: readonly [min: number, max: number];
  /** Pods with such an image never become ready; empty for none. */
  readonly neverReadyImageSuffix?: string;
  readonly namePrefix?: string;
  /** Requests under way at once. */
  readonly concurrency?: number;
  /** Hears of failed steps, which are tried again. */
  readonly onError?: (error: unknown, what: string) => void;
}

const LEASE_PERIOD_MS = 10_000;
const NODE_STATUS_PERIOD_MS = 300_000;
const RETRY_MS = 1_000;
const STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json";
const MERGE_PATCH = "application/merge-patch+json";

/** Runs until the signal is aborted. @throws only if the nodes cannot be registered at all. */
export async function runScriptedNodes(client: KubeHttp, options: ScriptedNodesOptions, signal: AbortSignal): Promise<void> {
  const fleet = new Fleet(client, options, signal);
  await fleet.register();
  await Promise.all([fleet.keepNodes(), fleet.keepPods()]);
}

interface PodEntry {
  pod: Pod;
  /** The node whose load this pod is part of; from the moment a binding is sent. */
  countedOn: string;
  /** The step being taken, so that no second one starts beside it. */
  isBusy: boolean;
}

class Fleet {
  readonly #client: KubeHttp;
  readonly #options: ScriptedNodesOptions;
  readonly #signal: AbortSignal;
  readonly #nodes: readonly string[];
  readonly #indexes: ReadonlyMap<string, number>;
  readonly #load: Map<string, number>;
  readonly #pods = new Map<string, PodEntry>();
  readonly #slots: Slots;
  #addresses = 0;

  constructor(client: KubeHttp, options: ScriptedNodesOptions, signal: AbortSignal) {
    this.#client = client;
    this.#options = options;
    this.#signal = signal;
    this.#nodes = Array.from({ length: options.count }, (_, i) => `${options.namePrefix ?? "scripted"}-${i}`);
    this.#indexes = new Map(this.#nodes.map((name, i) => [name, i]));
    this.#load = new Map(this.#nodes.map((name) => [name, 0]));
    this.#slots = new Slots(options.concurrency ?? 32);
  }

  async register(): Promise<void> {
    await Promise.all(this.#nodes.map((name, index) => this.#slots.run(() => this.#registerNode(name, index))));
  }

  async #registerNode(name: string, index: number): Promise<void> {
    const path = `/api/v1/nodes/${name}`;
    const created = await this.#client
      .request("POST", "/api/v1/nodes", nodeObject(name, index, this.#now()))
      .catch(async (error: unknown) => {
        if (!isCode(error, 409)) throw error;
        await this.#client.request("PATCH", `${path}/status`, { status: nodeStatus(name, index, this.#now()) }, STRATEGIC_MERGE_PATCH);
        return this.#client.request("GET", path);
      });
    // A real API server taints new nodes until the node controller sees them ready; there may be no node controller.
    const { taints }: { taints?: unknown } = objectAt(created, "spec");
    if (taints !== undefined) await this.#client.request("PATCH", path, { spec: { taints: null } }, MERGE_PATCH);
    const { uid }: { uid?: unknown } = objectAt(created, "metadata");
    await this.#renewLease(name, String(uid));
  }

  async #renewLease(name: string, uid: string): Promise<void> {
    const base = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    const renewTime = new Date(this.#options.clock.now()).toISOString().replace("Z", "000Z");
    try {
      await this.#client.request("PATCH", `${base}/${name}`, { spec: { renewTime } }, MERGE_PATCH);
    } catch (error) {
      if (!isCode(error, 404) || uid === "") throw error;
      await this.#client.request("POST", base, leaseObject(name, uid, renewTime));
    }
  }

  /** Leases every 10 s, statuses every 5 minutes, as a kubelet. */
  async keepNodes(): Promise<void> {
    let statusAt = this.#options.clock.now() + NODE_STATUS_PERIOD_MS;
    while (await this.#wait(LEASE_PERIOD_MS)) {
      const isStatusDue = this.#options.clock.now() >= statusAt;
      if (isStatusDue) statusAt += NODE_STATUS_PERIOD_MS;
      await Promise.all(
        this.#nodes.map((name, index) =>
          this.#slots.run(async () => {
            try {
              await this.#renewLease(name, "");
              if (isStatusDue)
                await this.#client.request(
                  "PATCH",
                  `/api/v1/nodes/${name}/status`,
                  { status: nodeStatus(name, index, this.#now()) },
                  STRATEGIC_MERGE_PATCH,
                );
            } catch (error) {
              // Somebody has deleted the node or its lease: put them back.
              if (isCode(error, 404))
                await this.#registerNode(name, index).catch((again: unknown) => this.#report(again, `register ${name}`));
              else this.#report(error, `lease of ${name}`);
            }
          }),
        ),
      );
    }
  }

  async keepPods(): Promise<void> {
    const { bindPods, clock, random } = this.#options;
    const query = bindPods ? {} : { fieldSelector: "spec.nodeName!=" };
    const handler = {
      replace: (objects: readonly KubeHttpObject[]) => {
        const listed = objects.map(asPod);
        const uids = new Set(listed.map((pod) => pod.metadata?.uid));
        for (const [uid, { pod }] of this.#pods) if (!uids.has(uid)) this.#forget(pod);
        for (const pod of listed) this.#observe(pod);
      },
      event: ({ type, object }: { readonly type: string; readonly object: KubeHttpObject }) => {
        if (type === "DELETED") this.#forget(asPod(object));
        else this.#observe(asPod(object));
      },
    };
    await keepWatching(this.#client, "/api/v1/pods", query, handler, { clock, random, signal: this.#signal });
  }

  #observe(pod: Pod): void {
    const uid = pod.metadata?.uid ?? "";
    const node = pod.spec?.nodeName ?? "";
    if (node !== "" && !this.#indexes.has(node)) return;
    const entry = this.#pods.get(uid) ?? { pod, countedOn: "", isBusy: false };
    entry.pod = pod;
    this.#pods.set(uid, entry);
    if (node !== "") this.#count(entry, node);
    this.#advance(uid);
  }

  #forget(pod: Pod): void {
    const uid = pod.metadata?.uid ?? "";
    const known = this.#pods.get(uid);
    if (known === undefined) return;
    this.#pods.delete(uid);
    this.#count(known, "");
  }

  #count(entry: PodEntry, node: string): void {
    if (entry.countedOn === node) return;
    this.#load.set(entry.countedOn, (this.#load.get(entry.countedOn) ?? 0) - 1);
    this.#load.set(node, (this.#load.get(node) ?? 0) + 1);
    entry.countedOn = node;
  }

  #advance(uid: string): void {
    const entry = this.#pods.get(uid);
    if (entry === undefined || entry.isBusy || this.#signal.aborted) return;
    const step = this.#nextStep(entry.pod);
    if (step === "wait") return;
    entry.isBusy = true;
    const { resourceVersion } = entry.pod.metadata ?? {};
    void this.#take(entry, step).then((outcome) => {
      entry.isBusy = false;
      // A step taken comes back as an event; if that is here already, or the step failed, look again.
      if (outcome === "again" || entry.pod.metadata?.resourceVersion !== resourceVersion) this.#advance(uid);
    });
  }

  #nextStep(pod: Pod): NextStep {
    const { bindPods, neverReadyImageSuffix = ":bad" } = this.#options;
    return nextStep(pod, { bindPods, neverReadyImageSuffix, isOurs: (node) => this.#indexes.has(node) });
  }

  async #take(entry: PodEntry, step: Exclude<NextStep, "wait">): Promise<"done" | "again"> {
    try {
      const [min, max] = this.#delayOf(step);
      if (max > 0 && !(await this.#wait(min + this.#options.random.next() * (max - min)))) return "done";
      // The pod may have gone meanwhile, or a deletion may have come; then this step is no longer the next one.
      if (this.#pods.get(entry.pod.metadata?.uid ?? "") !== entry) return "done";
      if (this.#nextStep(entry.pod) !== step) return "again";
      await this.#slots.run(() => this.#write(entry, step));
      return "done";
    } catch (error) {
      // Gone, or no longer the pod it was: its events say what is next.
      if (isCode(error, 404) || isCode(error, 409) || isCode(error, 422)) return "done";
      this.#report(error, `${step} ${entry.pod.metadata?.namespace}/${entry.pod.metadata?.name}`);
      return (await this.#wait(RETRY_MS)) ? "again" : "done";
    }
  }

  #delayOf(step: NextStep): readonly [number, number] {
    if (step === "ready") return this.#options.readyAfterMs ?? [200, 900];
    return step === "stop" || step === "finish" ? (this.#options.deleteAfterMs ?? [150, 600]) : [0, 0];
  }

  async #write(entry: PodEntry, step: Exclude<NextStep, "wait">): Promise<void> {
    const { pod } = entry;
    const { namespace = "", name = "", uid = "" } = pod.metadata ?? {};
    const path = `/api/v1/namespaces/${namespace}/pods/${name}`;
    const now = this.#now();
    const patchStatus = (status: object): Promise<unknown> =>
      this.#client.request("PATCH", `${path}/status`, { metadata: { uid }, status }, STRATEGIC_MERGE_PATCH);
    switch (step) {
      case "bind": {
        const target = { apiVersion: "v1", kind: "Node", name: this.#leastLoaded() };
        this.#count(entry, target.name);
        await this.#client.request("POST", `${path}/binding`, {
          apiVersion: "v1",
          kind: "Binding",
          metadata: { name, namespace, uid },
          target,
        });
        return;
      }
      case "start":
        await patchStatus(startedStatus(pod, this.#hostOf(pod), now, this.#options.neverReadyImageSuffix ?? ":bad"));
        return;
      case "ready":
        await patchStatus(runningStatus(pod, this.#nextAddress(), now));
        return;
      case "stop":
        await patchStatus(stoppedStatus(pod, now));
        return;
      case "finish":
        await this.#client.request("DELETE", path, {
          apiVersion: "v1",
          kind: "DeleteOptions",
          gracePeriodSeconds: 0,
          preconditions: { uid },
        });
        return;
    }
  }

  #leastLoaded(): string {
    let best = this.#nodes[0] ?? "";
    for (const node of this.#nodes) if ((this.#load.get(node) ?? 0) < (this.#load.get(best) ?? 0)) best = node;
    return best;
  }

  #hostOf(pod: Pod): string {
    return nodeAddress(this.#indexes.get(pod.spec?.nodeName ?? "") ?? 0);
  }

  #nextAddress(): string {
    this.#addresses += 1;
    const n = this.#addresses;
    return `10.${64 + ((n >> 16) & 0x3f)}.${(n >> 8) & 0xff}.${n & 0xff}`;
  }

  #now(): string {
    return new Date(this.#options.clock.now()).toISOString().replace(/\.\d{3}Z$/u, "Z");
  }

  /** False if the wait was ended by the signal. */
  async #wait(ms: number): Promise<boolean> {
    try {
      await this.#options.clock.after(ms, this.#signal);
      return true;
    } catch (error) {
      if (!this.#signal.aborted) throw error;
      return false;
    }
  }

  #report(error: unknown, what: string): void {
    if (!this.#signal.aborted) this.#options.onError?.(error, what);
  }
}

/** At most n tasks at once, the others in line. */
class Slots {
  #free: number;
  readonly #line: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#line.push(resolve));
    try {
      return await task();
    } finally {
      const next = this.#line.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}

function isCode(error: unknown, code: number): boolean {
  return error instanceof KubeHttpError && error.code === code;
}

function asPod(object: KubeHttpObject): Pod {
  // The server's own pod; every field read of it is optional.
  return object as unknown as Pod;
}

function objectAt(object: KubeHttpObject, key: string): object {
  const value = object[key];
  return typeof value === "object" && value !== null ? value : {};
}
