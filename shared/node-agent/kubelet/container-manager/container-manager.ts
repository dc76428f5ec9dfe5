/**
 * The control groups of this node's pods: who has one, and how much it may take (node-agent §7.6.1). Lives as long as the host.
 *
 *     <cgroup root>/kubepods                    all pods: the machine, less what is kept back
 *                     ├─ pod<uid>               a Guaranteed one
 *                     ├─ burstable/pod<uid>     as heavy as what its pods ask for
 *                     └─ besteffort/pod<uid>    the least
 *
 * CM1 a pod's group is there, with its limits, before anything of the pod is made.
 * CM2 what one class of pods may take is worked out and written by one at a time, so that the newest is what stays.
 *
 * Source: pkg/kubelet/cm/container_manager_linux.go setupNode, qos_container_manager_linux.go, pod_container_manager_linux.go.
 */
import type { CgroupPath } from "./cgroup-name.ts";
import { kubepodsCgroup, podCgroup, podUidOf, qosCgroup, reservedCgroup } from "./cgroup-name.ts";
import { cgroupFiles } from "./cgroup-files.ts";
import { kubepodsConfig, LEAST, qosConfigs, reservedConfig, resourceConfigForPod } from "./resource-config.ts";
import type { ResourceConfig } from "./resource-config.ts";
import { allocatedPod } from "../allocation/allocation.ts";
import { activePods } from "../pod-workers/active-pods.ts";
import type { PodManager } from "../pod/pod-manager.ts";
import type { QosClass } from "../types/pod-requests.ts";
import type { Observation } from "../types/eviction-thresholds.ts";
import { jsonEqual } from "../types/json-equal.ts";
import { QUOTA_PERIOD } from "./cpu-limits.ts";
import { nodeReference } from "../events/event-recorder.ts";
import type { NodeEvent } from "../events/event-recorder.ts";
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
  /** As NodeCondition has it. */
  readonly condition: { readonly sourcesReady: boolean; readonly relisted?: object };
  readonly record: (event: NodeEvent) => void;
  readonly log: Log;
  readonly options: NodeOptions;
  readonly resources: NodeResources;
}

/** A group that is to be bounded, what it is called by who asked for it, and what is said then. */
interface Enforced {
  readonly path: CgroupPath;
  readonly told: string;
  readonly config: ResourceConfig;
  readonly done: string;
  readonly failed: string;
}

export class ContainerManager implements PodCgroups {
  readonly #ports: ContainerManagerPorts;
  #isSetUp = false;
  /** Whether pods ran here before this agent did: they keep the weight that they have until it is known who they are. */
  #keepsWeight = false;
  /** Groups whose limits are what is to be enforced. */
  readonly #enforced = new Set<CgroupPath>();
  /** What each class was given last. */
  readonly #given = new Map<QosClass, ResourceConfig>();
  /** The limits that this agent has written, by pod. */
  readonly #bounded = new Map<string, ResourceConfig>();
  #last: Promise<unknown> = Promise.resolve();

  constructor(ports: ContainerManagerPorts) {
    this.#ports = ports;
  }

  /** Each minute, and at once when the host begins. @throws when what is above the pods cannot be made */
  async maintain(): Promise<void> {
    if (!this.#makesGroups) return;
    await this.#setUp();
    await this.#enforce();
    this.#given.clear(); // somebody else may have changed it
    await this.updateQos();
  }

  /** Whether the pod has its group, and whether this agent gave it its limits; where it makes none, both are so. */
  async stateOf(pod: NodePod): Promise<{ readonly exists: boolean; readonly isBounded: boolean }> {
    if (!this.#makesGroups) return { exists: true, isBounded: true };
    const exists = (await this.#groupOf(pod)) !== undefined;
    return { exists, isBounded: exists && this.#bounded.has(pod.metadata.uid) };
  }

  /** Makes the pod's group (CM1). A limit that the kernel does not take is logged, as upstream does it. @throws if there is none afterwards */
  async create(pod: NodePod): Promise<void> {
    const { cgroups, options, log } = this.#ports;
    await this.#setUp();
    const path = podCgroup(options, pod);
    await cgroups.create(path);
    try {
      const config = resourceConfigForPod(pod, options.cgroups);
      await this.#write(path, config);
      this.#bounded.set(pod.metadata.uid, config);
    } catch (error) {
      log.error("a pod's limits were not set", { cgroup: path, error: messageOf(error) });
    }
  }

  /**
   * Before limits of a pod's containers change: its group has room for what they may take now and for what they may take then.
   * `settle` ends it. Source: kuberuntime_manager.go doPodResizeAction, which grows the group first and shrinks it last.
   */
  async widen(pod: NodePod): Promise<void> {
    const path = await this.#groupOf(pod);
    if (path === undefined) return;
    const config = resourceConfigForPod(pod, this.#ports.options.cgroups);
    await this.#write(path, wider(this.#bounded.get(pod.metadata.uid), config));
  }

  /** The limits of the pod as it is now, and the weight of its class. */
  async settle(pod: NodePod): Promise<void> {
    const path = await this.#groupOf(pod);
    if (path === undefined) return;
    const config = resourceConfigForPod(pod, this.#ports.options.cgroups);
    await this.#write(path, config);
    this.#bounded.set(pod.metadata.uid, config);
    await this.updateQos();
  }

  /**
   * Before something of the pod starts: one that was ended to start with other limits finds room for them. Of a group whose limits this
   * agent does not know, what the kernel refuses is only logged, as in `create`.
   *
   * Source: kuberuntime_manager.go doPodResizeAction, UpdatePodResources.
   */
  async refit(pod: NodePod): Promise<void> {
    if (!this.#makesGroups) return;
    const before = this.#bounded.get(pod.metadata.uid);
    if (jsonEqual(before, resourceConfigForPod(pod, this.#ports.options.cgroups))) return;
    await this.settle(pod).catch((error: unknown) => {
      if (before !== undefined) throw error;
      this.#ports.log.warn("a pod's limits were not set", { pod: pod.metadata.uid, error: messageOf(error) });
    });
  }

  /** By the pods that are active now (CM2). What goes wrong is logged, and done again with the next pod, or in a minute. */
  async updateQos(): Promise<void> {
    if (!this.#isSetUp) return;
    const updated = this.#last.then(() => this.#updateQos());
    this.#last = updated.catch((error: unknown) => this.#ports.log.warn("classes of pods were not updated", { error: messageOf(error) }));
    await this.#last;
  }

  /** Of pods that have a group, whoever made it. */
  async podUids(): Promise<readonly string[]> {
    return [...new Set((await this.#podGroups()).map(({ uid }) => uid))];
  }

  /** Processes and threads of each pod, by UID; one whose group does not count them is not there. */
  async processes(): Promise<ReadonlyMap<string, number>> {
    const groups = await this.#podGroups();
    const counted = await Promise.all(groups.map(async ({ uid, path }) => [uid, await this.#ports.cgroups.processes(path)] as const));
    return new Map(counted.flatMap(([uid, count]) => (count === undefined ? [] : [[uid, count] as const])));
  }

  /** What all pods together have left of what they may take; undefined where nothing bounds them. Source: pkg/kubelet/stats/helper.go cadvisorInfoToCPUandMemoryStats. */
  async memory(): Promise<Observation | undefined> {
    const { cgroups, options } = this.#ports;
    const { workingSetBytes = 0, limitBytes } = (this.#makesGroups && (await cgroups.memory(kubepodsCgroup(options)))) || {};
    return limitBytes === undefined ? undefined : { available: limitBytes - workingSetBytes, capacity: limitBytes };
  }

  /** Ends what still runs in the pod's group, and takes it away. @throws while something does not go */
  async destroy(podUid: string): Promise<void> {
    this.#bounded.delete(podUid);
    for (const { uid, path } of await this.#podGroups()) {
      if (uid !== podUid) continue;
      await this.#ports.cgroups.kill(path);
      await this.#ports.cgroups.remove(path);
    }
  }

  /** Its memory is charged to it for as long as its volumes are there, so that it stays; it takes nothing from others meanwhile. */
  async reduceCpu(podUid: string): Promise<void> {
    if (!this.#makesGroups) return;
    for (const { uid, path } of await this.#podGroups()) if (uid === podUid) await this.#write(path, LEAST);
  }

  /** The pod's group, if the agent makes groups and this one exists. */
  async #groupOf(pod: NodePod): Promise<CgroupPath | undefined> {
    const { cgroups, options } = this.#ports;
    const path = podCgroup(options, pod);
    return this.#makesGroups && (await cgroups.exists(path)) ? path : undefined;
  }

  get #makesGroups(): boolean {
    return this.#ports.options.cgroups.perQos;
  }

  async #setUp(): Promise<void> {
    if (this.#isSetUp) return;
    const { cgroups, options } = this.#ports;
    this.#keepsWeight = await cgroups.exists(qosCgroup(options, "Burstable"));
    await cgroups.create(kubepodsCgroup(options));
    const configs = qosConfigs([], this.#ports.resources);
    for (const qos of ["Burstable", "BestEffort"] as const) {
      await cgroups.create(qosCgroup(options, qos));
      await this.#write(qosCgroup(options, qos), qos === "Burstable" ? withoutShares(configs[qos]) : configs[qos]);
    }
    this.#isSetUp = true;
  }

  /** Each until it succeeds: pods that run already may take more than they are allowed now. Source: node_container_manager_linux.go. */
  async #enforce(): Promise<void> {
    const { cgroups, options, resources, log } = this.#ports;
    const all: Enforced = {
      path: kubepodsCgroup(options),
      told: kubepodsCgroup(options),
      config: kubepodsConfig(resources, { enforced: options.cgroups.enforce.includes("pods") }),
      done: "Updated Node Allocatable limit across pods",
      failed: "Failed to update Node Allocatable Limits",
    };
    for (const { path, told, config, done, failed } of [all, ...this.#reserved()]) {
      if (this.#enforced.has(path)) continue;
      try {
        if (!(await cgroups.exists(path))) throw new Error("there is no such control group");
        await this.#write(path, config);
        this.#enforced.add(path);
        this.#tell("Normal", "NodeAllocatableEnforced", done);
      } catch (error) {
        const message = `${failed} ${JSON.stringify(told)}: ${messageOf(error)}`;
        log.warn("node allocatable is not enforced", { error: message });
        this.#tell("Warning", "FailedNodeAllocatableEnforcement", message);
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
    return groups.flatMap(({ key, of: { cgroup: told, resources: kept }, what }) => {
      const compressibleOnly = enforce.includes(`${key}-compressible`);
      if (told === undefined || !(compressibleOnly || enforce.includes(key))) return [];
      const done = `Updated limits on ${what.toLowerCase()} cgroup ${told}`;
      return [
        {
          path: reservedCgroup(options, told),
          told,
          config: reservedConfig(kept, resources.cpus, compressibleOnly),
          done,
          failed: `Failed to enforce ${what} Cgroup Limits on`,
        },
      ];
    });
  }

  async #updateQos(): Promise<void> {
    const { store, pods, condition, options, resources } = this.#ports;
    const [records, statuses] = [await store.rows("workers"), await store.rows("statuses")];
    const active = activePods({ desired: pods.desired(), records, statuses, hasRelisted: condition.relisted !== undefined });
    const allocations = await store.rows("allocations");
    const configs = qosConfigs(
      active.map((pod) => allocatedPod(pod, allocations.get(pod.metadata.uid))),
      resources,
    );
    const burstable = this.#keepsWeight && !condition.sourcesReady ? withoutShares(configs.Burstable) : configs.Burstable;
    for (const qos of CLASSES) {
      const config = qos === "Burstable" ? burstable : configs[qos];
      if (jsonEqual(this.#given.get(qos), config)) continue;
      this.#given.delete(qos);
      await this.#write(qosCgroup(options, qos), config);
      this.#given.set(qos, config);
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

  #tell(type: "Normal" | "Warning", reason: string, message: string): void {
    this.#ports.record({ involved: nodeReference(this.#ports.options.nodeName), type, reason, message });
  }
}

/** Room for both; what is not known, or has no limit in one of them, has none. */
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
