/**
 * Takes the pods of a fleet from step to step.
 *
 * SN1 a pod's next step is derived from its object, so a restart continues where the last run stopped.
 * SN2 one step per pod at a time; every write has the pod's uid, so a new pod of the same name is never changed.
 * SN3 pods of other nodes are never changed; pods without a node only with `bindPods`.
 */
import type { Pod } from "@deltaloop/kube/objects";
import { ListWatch } from "@deltaloop/kube/list-watch";
import type { Listener, Listing } from "@deltaloop/kube/list-watch";
import { isConflict, isInvalid, isNotFound } from "@deltaloop/kube/client";
import type { Fleet } from "./fleet.ts";
import { nodeAddress } from "./node-object.ts";
import { nextStep, runningStatus, startedStatus, stoppedStatus } from "./pod-status.ts";
import type { NextStep } from "./pod-status.ts";

const RETRY_MS = 1_000;

/** Runs until the fleet ends. */
export async function keepPods(fleet: Fleet): Promise<void> {
  const { kube, options, signal } = fleet;
  const { bindPods, clock, random } = options;
  const selected = bindPods ? {} : { fieldSelector: "spec.nodeName!=" };
  await new ListWatch({ kube, resource: "pods", ...selected, clock, random }, new Pods(fleet)).run(signal);
}

interface PodEntry {
  pod: Pod;
  /** The node on which this pod counts as load, from the moment a binding is sent. */
  countedOn: string;
  /** A step is in progress; no second one may start. */
  isBusy: boolean;
}

class Pods implements Listener {
  readonly #fleet: Fleet;
  readonly #load: Map<string, number>;
  /** The pods by uid. */
  readonly #pods = new Map<string, PodEntry>();
  #addresses = 0;

  constructor(fleet: Fleet) {
    this.#fleet = fleet;
    this.#load = new Map(fleet.names.map((name) => [name, 0]));
  }

  list(): Listing {
    const listed = new Map<string | undefined, Pod>();
    const keep = (object: unknown): void => void listed.set(asPod(object).metadata?.uid, asPod(object));
    return {
      page: (items) => items.forEach(keep),
      change: (type, object) => (type === "D" ? void listed.delete(asPod(object).metadata?.uid) : keep(object)),
      listed: () => {
        for (const [uid, { pod }] of this.#pods) if (!listed.has(uid)) this.#forget(pod);
        for (const pod of listed.values()) this.#observe(pod);
      },
    };
  }

  change(type: "A" | "M" | "D", object: unknown): void {
    if (type === "D") this.#forget(asPod(object));
    else this.#observe(asPod(object));
  }

  #observe(pod: Pod): void {
    const uid = pod.metadata?.uid ?? "";
    const node = pod.spec?.nodeName ?? "";
    if (node !== "" && !this.#load.has(node)) return;
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

  /** The empty name stands for no node and has no load. */
  #count(entry: PodEntry, node: string): void {
    if (entry.countedOn === node) return;
    for (const [name, change] of [[entry.countedOn, -1] as const, [node, 1] as const])
      if (name !== "") this.#load.set(name, (this.#load.get(name) ?? 0) + change);
    entry.countedOn = node;
  }

  #advance(uid: string): void {
    const entry = this.#pods.get(uid);
    if (entry === undefined || entry.isBusy || this.#fleet.signal.aborted) return;
    const step = this.#nextStep(entry.pod);
    if (step === "wait") return;
    entry.isBusy = true;
    const { resourceVersion } = entry.pod.metadata ?? {};
    void this.#take(entry, step).then((outcome) => {
      entry.isBusy = false;
      // If this step's event has already arrived, or the step failed, continue at once.
      if (outcome === "again" || entry.pod.metadata?.resourceVersion !== resourceVersion) this.#advance(uid);
    });
  }

  #nextStep(pod: Pod): NextStep {
    const { bindPods, staysUnready } = this.#fleet.options;
    const step = nextStep(pod, { bindPods, isOurs: (node) => this.#load.has(node) });
    return step === "ready" && staysUnready?.(pod) === true ? "wait" : step;
  }

  async #take(entry: PodEntry, step: Exclude<NextStep, "wait">): Promise<"done" | "again"> {
    const { inTurn, options, wait } = this.#fleet;
    try {
      const [min, max] = this.#delayOf(step);
      if (max > 0 && !(await wait(min + options.random.next() * (max - min)))) return "done";
      // The pod was deleted or removed meanwhile: the step is obsolete.
      if (this.#pods.get(entry.pod.metadata?.uid ?? "") !== entry) return "done";
      if (this.#nextStep(entry.pod) !== step) return "again";
      await inTurn(() => this.#write(entry, step));
      return "done";
    } catch (error) {
      // The pod was deleted or changed: its events determine the next step.
      if (isNotFound(error) || isConflict(error) || isInvalid(error)) return "done";
      return (await wait(RETRY_MS)) ? "again" : "done";
    }
  }

  #delayOf(step: NextStep): readonly [number, number] {
    const { readyAfterMs = [200, 900], deleteAfterMs = [150, 600] } = this.#fleet.options;
    if (step === "ready") return readyAfterMs;
    return step === "stop" || step === "finish" ? deleteAfterMs : [0, 0];
  }

  async #write(entry: PodEntry, step: Exclude<NextStep, "wait">): Promise<void> {
    const { kube, now } = this.#fleet;
    const { pod } = entry;
    const { namespace = "", name = "", uid = "" } = pod.metadata ?? {};
    const target = { resource: "pods", namespace, name } as const;
    const patchStatus = (status: object): Promise<unknown> =>
      kube.patch({
        ...target,
        subresource: "status",
        type: "application/strategic-merge-patch+json",
        body: { metadata: { uid }, status },
      });
    switch (step) {
      case "bind": {
        const node = { apiVersion: "v1", kind: "Node", name: this.#leastLoaded() };
        this.#count(entry, node.name);
        const body = { apiVersion: "v1", kind: "Binding", metadata: { name, namespace, uid }, target: node };
        await kube.create({ resource: "pods", namespace, of: { name, subresource: "binding" }, body });
        return;
      }
      case "start":
        await patchStatus(startedStatus(pod, nodeAddress(this.#fleet.names.indexOf(pod.spec?.nodeName ?? "")), now()));
        return;
      case "ready":
        await patchStatus(runningStatus(pod, this.#nextAddress(), now()));
        return;
      case "stop":
        await patchStatus(stoppedStatus(pod, now()));
        return;
      case "finish":
        await kube.delete({ ...target, preconditions: { uid }, gracePeriodSeconds: 0 });
        return;
    }
  }

  #leastLoaded(): string {
    let best = "";
    for (const [node, load] of this.#load) if (best === "" || load < (this.#load.get(best) ?? 0)) best = node;
    return best;
  }

  #nextAddress(): string {
    this.#addresses += 1;
    const n = this.#addresses;
    return `10.${64 + ((n >> 16) & 0x3f)}.${(n >> 8) & 0xff}.${n & 0xff}`;
  }
}

function asPod(object: unknown): Pod {
  return object as Pod; // the object is from the server; all fields read are optional
}
