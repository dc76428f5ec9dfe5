/** The Node object and its lease (node-agent §14.1, §14.2). */
import type { KubeObject } from "@deltaloop/kube/objects";
import { isAlreadyExists, isConflict, isNotFound } from "@deltaloop/kube/client";
import type { Image } from "../../ports/cri-types.ts";
import { resolvConfProblem } from "../kuberuntime/dns-config.ts";
import { isStaticPod } from "../types/labels.ts";
import {
  NODE_LEASE_NAMESPACE,
  nodeBody,
  nodeEvents,
  nodeLease,
  nodeStatus,
  nodeStatusChanged,
  nodeStatusPatch,
  renewedLease,
  takenOverPatch,
} from "./node-object.ts";
import { nodeReference } from "../events/event-recorder.ts";
import type { MachineFacts, NodeStatus, NodeStatusInput } from "./node-object.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { wake } from "../pod-workers/update-worker.ts";
import type { WakePorts } from "../pod-workers/update-worker.ts";

type NodeIdentityPorts = WakePorts & Pick<NodePorts, "cri" | "kube" | "files" | "log" | "record" | "options">;

type LeaseObject = Parameters<typeof renewedLease>[0];
type NodeObject = KubeObject & { readonly status?: NodeStatus; readonly spec?: object };

/** A status without changes is sent this often. Source: pkg/kubelet/apis/config/v1beta1/defaults.go NodeStatusReportFrequency. */
const REPORT_MS = 300_000;
const RESOLV_CONF = "/etc/resolv.conf";
const LEASE_ATTEMPTS_MAX = 5;
const IMAGES_PATIENCE_MS = 5_000;

export class NodeIdentity {
  readonly #ports: NodeIdentityPorts;
  readonly #facts: MachineFacts;
  readonly #runtimeVersion: string;
  #reporting: Promise<void> = Promise.resolve();
  #reportedMs = 0;
  #images: readonly Image[] = [];
  /** What the last status said; Events tell what is new since. */
  #said: NodeStatus | undefined;
  #lease: LeaseObject | undefined;

  constructor(ports: NodeIdentityPorts, facts: MachineFacts, runtimeVersion: string) {
    this.#ports = ports;
    this.#facts = facts;
    this.#runtimeVersion = runtimeVersion;
  }

  /** Makes the Node, or takes over the one of that name. @throws what the API server answers; the next tick tries again */
  async register(): Promise<void> {
    const { kube, options } = this.#ports;
    const body = nodeBody(await this.#input(undefined));
    try {
      this.#keep(await kube.create({ resource: "nodes", namespace: "", body }));
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      const patch = takenOverPatch({ options, facts: this.#facts });
      const type = "application/merge-patch+json";
      this.#keep(await kube.patch({ resource: "nodes", namespace: "", name: options.nodeName, type, body: patch }));
    }
    this.#ports.log.info("registered", { node: options.nodeName });
    // At once: the lease's own rounds began before there was a Node, and tell what is wrong with it if this fails.
    await this.renewLease().catch(() => undefined);
    this.#ports.record({ involved: nodeReference(options.nodeName), type: "Normal", reason: "Starting", message: "Starting kubelet." });
    await this.#tellOfResolvConf();
    await this.#tellOfStaticPods();
  }

  /** Source: pkg/kubelet/kubelet.go syncLoop. */
  async #tellOfResolvConf(): Promise<void> {
    const { files, options, record } = this.#ports;
    const { resolvConf = RESOLV_CONF, clusterDomain, nodeName } = options;
    if (resolvConf === "") return;
    const message = resolvConfProblem(resolvConf, await files.readHostFile("resolv.conf"), clusterDomain);
    if (message !== undefined) record({ involved: nodeReference(nodeName), type: "Warning", reason: "CheckLimitsForResolvConf", message });
  }

  /** They may run already; their mirrors could not be made without the Node. Source: pkg/kubelet/kubelet.go fastStaticPodsRegistration. */
  async #tellOfStaticPods(): Promise<void> {
    const { pods } = this.#ports;
    for (const pod of pods.desired())
      if (isStaticPod(pod) && pods.mirrorOf(pod) === undefined) await wake(this.#ports, pod.metadata.uid, "the node is registered");
  }

  /** @throws what the API server answers */
  async read(): Promise<void> {
    const node = await this.#ports.kube.get("nodes", "", this.#ports.options.nodeName);
    if (node !== undefined) this.#keep(node);
  }

  /** Status, if anything but the time changed or it is due; a Node that was deleted is made again. */
  async reportStatus(): Promise<void> {
    // One after the other: who asks in between must not be overtaken by what was seen before.
    const reported = this.#reporting.then(() => this.#report());
    this.#reporting = reported.catch(() => undefined);
    await reported;
  }

  async #report(): Promise<void> {
    const { kube, options, condition, clock } = this.#ports;
    if (condition.node === undefined) await this.register();
    const before = (condition.node as NodeObject | undefined)?.status; // a Node, as the API server sent it
    const after = nodeStatus(await this.#input(before));
    for (const event of nodeEvents(options.nodeName, this.#said ?? before, after)) this.#ports.record(event);
    this.#said = after;
    if (!nodeStatusChanged(before, after) && clock.now() - this.#reportedMs < REPORT_MS) return;
    try {
      const type = "application/strategic-merge-patch+json";
      const body = nodeStatusPatch(after);
      this.#keep(await kube.patch({ resource: "nodes", namespace: "", name: options.nodeName, subresource: "status", type, body }));
      this.#reportedMs = clock.now();
    } catch (error) {
      if (!isNotFound(error)) throw error;
      delete condition.node;
      await this.register();
    }
  }

  /** With the last known object; a conflict is read and tried again. */
  async renewLease(): Promise<void> {
    const { kube, options, condition, clock } = this.#ports;
    const { nodeName: name } = options;
    const target = { resource: "leases", namespace: NODE_LEASE_NAMESPACE } as const;
    for (let attempt = 1; ; attempt++) {
      try {
        if (condition.nodeUid === undefined) return;
        const body =
          this.#lease === undefined ? nodeLease({ name, uid: condition.nodeUid }, clock.now()) : renewedLease(this.#lease, clock.now());
        const answer = this.#lease === undefined ? kube.create({ ...target, body }) : kube.replace({ ...target, name, body });
        this.#lease = (await answer) as unknown as LeaseObject; // the answer to a Lease is a Lease
        return;
      } catch (error) {
        const isStale = isConflict(error) || isAlreadyExists(error) || isNotFound(error);
        if (!isStale || attempt === LEASE_ATTEMPTS_MAX) throw error;
        const live = await kube.get("leases", NODE_LEASE_NAMESPACE, name);
        this.#lease = live as unknown as LeaseObject | undefined; // as above
      }
    }
  }

  async #input(previous: NodeStatus | undefined): Promise<NodeStatusInput> {
    const { cri, options, condition, clock } = this.#ports;
    // A runtime that hangs must not keep the node from saying so.
    const listed = cri.listImages().then((images) => (this.#images = images));
    listed.catch(() => undefined);
    const over = new AbortController();
    await Promise.race([listed.catch(() => undefined), clock.after(IMAGES_PATIENCE_MS, over.signal).catch(() => undefined)]);
    over.abort("over");
    const { runtimeError, networkError, shuttingDown, pressure } = condition;
    return {
      options,
      facts: this.#facts,
      runtimeVersion: this.#runtimeVersion,
      ...(runtimeError !== undefined && { runtimeError }),
      ...(networkError !== undefined && { networkError }),
      ...(shuttingDown && { shuttingDown }),
      ...(pressure !== undefined && { pressure }),
      images: this.#images,
      ...(previous !== undefined && { previous }),
      nowMs: clock.now(),
    };
  }

  #keep(node: KubeObject): void {
    this.#ports.condition.node = node;
    this.#ports.condition.nodeUid = node.metadata.uid;
  }
}
