/** Maintains the Node object and its Lease (node-agent §14.1, §14.2). */
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
import { enqueuePod, type EnqueuePorts } from "../pod-workers/update-worker.ts";

type NodeIdentityPorts = EnqueuePorts & Pick<NodePorts, "cri" | "kube" | "files" | "log" | "record" | "options">;

type LeaseObject = Parameters<typeof renewedLease>[0];
type NodeObject = KubeObject & { readonly status?: NodeStatus; readonly spec?: object };

/**
 * Maximum interval between reports of an unchanged status. Source: pkg/kubelet/apis/config/v1beta1/defaults.go NodeStatusReportFrequency.
 */
const REPORT_MS = 300_000;
const RESOLV_CONF = "/etc/resolv.conf";
const LEASE_ATTEMPTS_MAX = 5;
const IMAGES_TIMEOUT_MS = 5_000;

export class NodeIdentity {
  readonly #ports: NodeIdentityPorts;
  readonly #facts: MachineFacts;
  readonly #runtimeVersion: string;
  #reporting: Promise<void> = Promise.resolve();
  #reportedMs = 0;
  #images: readonly Image[] = [];
  /** The last status that was sent. The next status is compared to it for Events. */
  #lastStatus: NodeStatus | undefined;
  #lease: LeaseObject | undefined;

  constructor(ports: NodeIdentityPorts, facts: MachineFacts, runtimeVersion: string) {
    this.#ports = ports;
    this.#facts = facts;
    this.#runtimeVersion = runtimeVersion;
  }

  /** Creates the Node, or takes over an existing one. @throws the API server's error; the next tick retries */
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
    this.#ports.log.info("registered node", { node: options.nodeName });
    // Renews the Lease early. Failures are reported by the lease loop, which started before the Node existed.
    await this.renewLease().catch(() => undefined);
    this.#ports.record({ involved: nodeReference(options.nodeName), type: "Normal", reason: "Starting", message: "Starting kubelet." });
    await this.#checkResolvConf();
    await this.#enqueueStaticPods();
  }

  /** Source: pkg/kubelet/kubelet.go syncLoop. */
  async #checkResolvConf(): Promise<void> {
    const { files, options, record } = this.#ports;
    const { resolvConf = RESOLV_CONF, clusterDomain, nodeName } = options;
    if (resolvConf === "") return;
    const message = resolvConfProblem(resolvConf, await files.readHostFile("resolv.conf"), clusterDomain);
    if (message !== undefined) record({ involved: nodeReference(nodeName), type: "Warning", reason: "CheckLimitsForResolvConf", message });
  }

  /**
   * Enqueues static pods. They may already run without mirror pods, because a mirror pod needs the Node. Source: pkg/kubelet/kubelet.go
   * fastStaticPodsRegistration.
   */
  async #enqueueStaticPods(): Promise<void> {
    const { pods } = this.#ports;
    for (const pod of pods.desired())
      if (isStaticPod(pod) && pods.mirrorOf(pod) === undefined) await enqueuePod(this.#ports, pod.metadata.uid, "node registered");
  }

  /** @throws the API server's error */
  async read(): Promise<void> {
    const node = await this.#ports.kube.get("nodes", "", this.#ports.options.nodeName);
    if (node !== undefined) this.#keep(node);
  }

  /** Sends the status if it has changed or a report is due; recreates a deleted Node. */
  async reportStatus(): Promise<void> {
    // Reports are serialized, so that an older observation never overwrites a newer one.
    const reported = this.#reporting.then(() => this.#report());
    this.#reporting = reported.catch(() => undefined);
    await reported;
  }

  async #report(): Promise<void> {
    const { kube, options, condition, clock } = this.#ports;
    if (condition.node === undefined) await this.register();
    const before = (condition.node as NodeObject | undefined)?.status; // the API server returns a Node
    const after = nodeStatus(await this.#input(before));
    for (const event of nodeEvents(options.nodeName, this.#lastStatus ?? before, after)) this.#ports.record(event);
    this.#lastStatus = after;
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

  /** Renews the last known Lease. On a conflict, reads the Lease and retries. */
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
        this.#lease = (await answer) as unknown as LeaseObject; // the API server returns a Lease
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
    // A runtime that hangs must not block the status.
    const listed = cri.listImages().then((images) => (this.#images = images));
    listed.catch(() => undefined);
    const over = new AbortController();
    await Promise.race([listed.catch(() => undefined), clock.after(IMAGES_TIMEOUT_MS, over.signal).catch(() => undefined)]);
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
