/**
 * The cgroups of this node's pods and their limits (node-agent §7.6.1).
 *
 *     <cgroup root>/kubepods                    all pods: capacity minus reservations
 *                     ├─ pod<uid>               a Guaranteed pod
 *                     ├─ burstable/pod<uid>     weighted by the requests of its pods
 *                     └─ besteffort/pod<uid>    minimum weight
 *
 * CM1 a pod's cgroup exists, with its limits, before anything of the pod is created.
 * CM2 updates of QoS cgroups are serialized, so that the newest value wins.
 *
 * Source: pkg/kubelet/cm/container_manager_linux.go setupNode, qos_container_manager_linux.go, pod_container_manager_linux.go.
 */
import { kubepodsCgroup, podCgroup, podUidOf, qosCgroup, reservedCgroup, type CgroupPath } from "./cgroup-name.ts";
import { cgroupFiles } from "./cgroup-files.ts";
import { kubepodsConfig, LEAST, qosConfigs, reservedConfig, resourceConfigForPod, type ResourceConfig } from "./resource-config.ts";
import { activePodsOf } from "../allocation/admission-input.ts";
import type { PodManager } from "../pod/pod-manager.ts";
import type { QosClass } from "../types/pod-requests.ts";
import type { Observation } from "../types/eviction-thresholds.ts";
import { jsonEqual } from "../types/json-equal.ts";
import { QUOTA_PERIOD } from "./cpu-limits.ts";
import { nodeReference, type NodeEvent } from "../events/event-recorder.ts";
import type { NodeOptions, NodeResources } from "../types/node-options.ts";
import type { NodePod } from "../types/pod.ts";
import { messageOf } from "@deltaloop/kube/objects";
import type { Cgroups } from "../../ports/cgroups.ts";
import type { Log } from "@deltaloop/base";
import type { NodeStore } from "../../ports/node-store.ts";
import type { PodCgroups } from "../node-ports/node-ports.ts";

const NO_LIMIT = -1;
const CLASSES: readonly QosClass[] = ["Guaranteed", "Burstable", "BestEffort"];

export interface ContainerManagerPorts {
  readonly cgroups: Cgroups;
  readonly store: Pick<NodeStore, "rows">;
  readonly pods: Pick<PodManager, "desired">;
  readonly condition: { readonly sourcesReady: boolean; readonly relisted?: object };
  readonly record: (event: NodeEvent) => void;
  readonly log: Log;
  readonly options: NodeOptions;
  readonly resources: NodeResources;
}

/** A cgroup whose limits are enforced, with the messages of its Events. */
interface Enforced {
  readonly path: CgroupPath;
  readonly name: string;
  readonly config: ResourceConfig;
  readonly done: string;
  readonly failed: string;
}

export class ContainerManager implements PodCgroups {
  readonly #ports: ContainerManagerPorts;
  #isSetUp = false;
  /** Whether pods ran before this agent started. If so, the CPU weights of the QoS cgroups are kept until all sources are ready. */
  #keepShares = false;
  /** Cgroups whose limits have been set. */
  readonly #enforced = new Set<CgroupPath>();
  /** The limits set last, by QoS class. */
  readonly #qosLimits = new Map<QosClass, ResourceConfig>();
  /** Limits that this agent has written, by pod UID. */
  readonly #podLimits = new Map<string, ResourceConfig>();
  #last: Promise<unknown> = Promise.resolve();

  constructor(ports: ContainerManagerPorts) {
    this.#ports = ports;
  }

  /** Runs at start and every minute. @throws when the parent cgroups cannot be created */
  async maintain(): Promise<void> {
    if (!this.#isEnabled) return;
    await this.#setUp();
    await this.#enforce();
    this.#qosLimits.clear(); // rewrites the limits, because another process may have changed them
    await this.updateQos();
  }

  /** Whether the cgroup exists, and whether this agent has set its limits. Both are true if cgroups are disabled. */
  async stateOf(pod: NodePod): Promise<{ readonly exists: boolean; readonly isBounded: boolean }> {
    if (!this.#isEnabled) return { exists: true, isBounded: true };
    const exists = (await this.#groupOf(pod)) !== undefined;
    return { exists, isBounded: exists && this.#podLimits.has(pod.metadata.uid) };
  }

  /** Creates the pod's cgroup (CM1). As in upstream, only logs limits that the kernel rejects. @throws if the cgroup cannot be created */
  async create(pod: NodePod): Promise<void> {
    const { cgroups, options, log } = this.#ports;
    await this.#setUp();
    const path = podCgroup(options, pod);
    await cgroups.create(path);
    try {
      const config = resourceConfigForPod(pod, options.cgroups);
      await this.#write(path, config);
      this.#podLimits.set(pod.metadata.uid, config);
    } catch (error) {
      log.error("failed to set the pod's cgroup limits", { cgroup: path, error: messageOf(error) });
    }
  }

  /**
   * Before a resize, sets each limit of the cgroup to the larger of the old and the new value; call `settle` afterwards. Source:
   * kuberuntime_manager.go doPodResizeAction.
   */
  async widen(pod: NodePod): Promise<void> {
    const path = await this.#groupOf(pod);
    if (path === undefined) return;
    const config = resourceConfigForPod(pod, this.#ports.options.cgroups);
    await this.#write(path, wider(this.#podLimits.get(pod.metadata.uid), config));
  }

  /** Sets the pod's current limits and the weight of its QoS class. */
  async settle(pod: NodePod): Promise<void> {
    const path = await this.#groupOf(pod);
    if (path === undefined) return;
    const config = resourceConfigForPod(pod, this.#ports.options.cgroups);
    await this.#write(path, config);
    this.#podLimits.set(pod.metadata.uid, config);
    await this.updateQos();
  }

  /**
   * Updates the limits before a container starts with different limits. If this agent never set the limits, failures are only logged.
   * Source: kuberuntime_manager.go doPodResizeAction, UpdatePodResources.
   */
  async refit(pod: NodePod): Promise<void> {
    if (!this.#isEnabled) return;
    const before = this.#podLimits.get(pod.metadata.uid);
    if (jsonEqual(before, resourceConfigForPod(pod, this.#ports.options.cgroups))) return;
    await this.settle(pod).catch((error: unknown) => {
      if (before !== undefined) throw error;
      this.#ports.log.warn("failed to set the pod's cgroup limits", { pod: pod.metadata.uid, error: messageOf(error) });
    });
  }

  /** Updates the QoS cgroups for the active pods (CM2). Logs failures; the next pod change, or the next minute, retries. */
  async updateQos(): Promise<void> {
    if (!this.#isSetUp) return;
    const updated = this.#last.then(() => this.#updateQos());
    this.#last = updated.catch((error: unknown) =>
      this.#ports.log.warn("failed to update QoS cgroups; will retry", { error: messageOf(error) }),
    );
    await this.#last;
  }

  /** Returns the UIDs of pods with a cgroup, including pods of other processes. */
  async podUids(): Promise<readonly string[]> {
    return [...new Set((await this.#podGroups()).map(({ uid }) => uid))];
  }

  /** Returns the number of processes and threads by pod UID. Omits a pod if its cgroup does not count them. */
  async processes(): Promise<ReadonlyMap<string, number>> {
    const groups = await this.#podGroups();
    const counted = await Promise.all(groups.map(async ({ uid, path }) => [uid, await this.#ports.cgroups.processes(path)] as const));
    return new Map(counted.flatMap(([uid, count]) => (count === undefined ? [] : [[uid, count] as const])));
  }

  /**
   * The memory that is left below the common limit of all pods; undefined without a limit. Source: pkg/kubelet/stats/helper.go
   * cadvisorInfoToCPUandMemoryStats.
   */
  async memory(): Promise<Observation | undefined> {
    const { cgroups, options } = this.#ports;
    const { workingSetBytes = 0, limitBytes } = (this.#isEnabled && (await cgroups.memory(kubepodsCgroup(options)))) || {};
    return limitBytes === undefined ? undefined : { available: limitBytes - workingSetBytes, capacity: limitBytes };
  }

  /** Kills the processes in the pod's cgroup and removes it. @throws while the cgroup is busy */
  async destroy(podUid: string): Promise<void> {
    this.#podLimits.delete(podUid);
    for (const { uid, path } of await this.#podGroups()) {
      if (uid !== podUid) continue;
      await this.#ports.cgroups.kill(path);
      await this.#ports.cgroups.remove(path);
    }
  }

  /** Minimizes the pod's CPU weight while its volumes remain. The cgroup is kept, because the memory of the volumes is charged to it. */
  async reduceCpu(podUid: string): Promise<void> {
    if (!this.#isEnabled) return;
    for (const { uid, path } of await this.#podGroups()) if (uid === podUid) await this.#write(path, LEAST);
  }

  /** Returns the path of the pod's cgroup, if the cgroup exists and cgroups are enabled. */
  async #groupOf(pod: NodePod): Promise<CgroupPath | undefined> {
    const { cgroups, options } = this.#ports;
    const path = podCgroup(options, pod);
    return this.#isEnabled && (await cgroups.exists(path)) ? path : undefined;
  }

  get #isEnabled(): boolean {
    return this.#ports.options.cgroups.perQos;
  }

  async #setUp(): Promise<void> {
    if (this.#isSetUp) return;
    const { cgroups, options } = this.#ports;
    this.#keepShares = await cgroups.exists(qosCgroup(options, "Burstable"));
    await cgroups.create(kubepodsCgroup(options));
    const configs = qosConfigs([], this.#ports.resources);
    for (const qos of ["Burstable", "BestEffort"] as const) {
      await cgroups.create(qosCgroup(options, qos));
      await this.#write(qosCgroup(options, qos), qos === "Burstable" ? withoutShares(configs[qos]) : configs[qos]);
    }
    this.#isSetUp = true;
  }

  /** Retries each limit until it is set, because running pods may exceed it. Source: node_container_manager_linux.go. */
  async #enforce(): Promise<void> {
    const { cgroups, options, resources, log } = this.#ports;
    const all: Enforced = {
      path: kubepodsCgroup(options),
      name: kubepodsCgroup(options),
      config: kubepodsConfig(resources, { enforced: options.cgroups.enforce.includes("pods") }),
      done: "Updated Node Allocatable limit across pods",
      failed: "Failed to update Node Allocatable Limits",
    };
    for (const { path, name, config, done, failed } of [all, ...this.#reserved()]) {
      if (this.#enforced.has(path)) continue;
      try {
        if (!(await cgroups.exists(path))) throw new Error("cgroup does not exist");
        await this.#write(path, config);
        this.#enforced.add(path);
        this.#recordEvent("Normal", "NodeAllocatableEnforced", done);
      } catch (error) {
        const message = `${failed} ${JSON.stringify(name)}: ${messageOf(error)}`;
        log.warn("failed to enforce node allocatable; will retry", { error: message });
        this.#recordEvent("Warning", "FailedNodeAllocatableEnforcement", message);
      }
    }
  }

  #reserved(): readonly Enforced[] {
    const { options, resources } = this.#ports;
    const { enforce, kubeReserved, systemReserved } = options.cgroups;
    const groups = [
      { key: "system-reserved", of: systemReserved, what: "System Reserved" },
      { key: "kube-reserved", of: kubeReserved, what: "Kube Reserved" },
    ] as const;
    return groups.flatMap(({ key, of: { cgroup: name, resources: kept }, what }) => {
      const compressibleOnly = enforce.includes(`${key}-compressible`);
      if (name === undefined || !(compressibleOnly || enforce.includes(key))) return [];
      const done = `Updated limits on ${what.toLowerCase()} cgroup ${name}`;
      return [
        {
          path: reservedCgroup(options, name),
          name,
          config: reservedConfig(kept, resources.cpus, compressibleOnly),
          done,
          failed: `Failed to enforce ${what} Cgroup Limits on`,
        },
      ];
    });
  }

  async #updateQos(): Promise<void> {
    const { condition, options, resources } = this.#ports;
    const configs = qosConfigs(await activePodsOf(this.#ports), resources);
    const burstable = this.#keepShares && !condition.sourcesReady ? withoutShares(configs.Burstable) : configs.Burstable;
    for (const qos of CLASSES) {
      const config = qos === "Burstable" ? burstable : configs[qos];
      if (jsonEqual(this.#qosLimits.get(qos), config)) continue;
      this.#qosLimits.delete(qos);
      await this.#write(qosCgroup(options, qos), config);
      this.#qosLimits.set(qos, config);
    }
  }

  async #podGroups(): Promise<readonly { readonly uid: string; readonly path: CgroupPath }[]> {
    const { cgroups, options } = this.#ports;
    if (!options.cgroups.perQos) return [];
    const found: { uid: string; path: CgroupPath }[] = [];
    for (const qos of CLASSES) {
      const parent = qosCgroup(options, qos);
      for (const name of await cgroups.children(parent)) {
        const uid = podUidOf(name);
        if (uid !== undefined) found.push({ uid, path: `${parent}/${name}` });
      }
    }
    return found;
  }

  async #write(path: CgroupPath, config: ResourceConfig): Promise<void> {
    const { cgroups, resources } = this.#ports;
    await cgroups.write(path, cgroupFiles(config, cgroups, resources.hugePageSizes ?? []));
  }

  #recordEvent(type: "Normal" | "Warning", reason: string, message: string): void {
    this.#ports.record({ involved: nodeReference(this.#ports.options.nodeName), type, reason, message });
  }
}

/** Returns the larger of each limit. A limit is unlimited if either value is unknown or unlimited. */
function wider(before: ResourceConfig | undefined, after: ResourceConfig): ResourceConfig {
  const most = (a = NO_LIMIT, b = NO_LIMIT): number => (a < 0 || b < 0 ? NO_LIMIT : Math.max(a, b));
  return {
    ...after,
    cpuPeriod: QUOTA_PERIOD,
    cpuQuota: most(before?.cpuQuota, after.cpuQuota),
    memoryBytes: most(before?.memoryBytes, after.memoryBytes),
  };
}

function withoutShares({ cpuShares: _later, ...config }: ResourceConfig): ResourceConfig {
  return config;
}
