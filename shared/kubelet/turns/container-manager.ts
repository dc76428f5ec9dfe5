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
 * CM3 with the systemd driver nothing is made or written: slices are systemd's, and are made by it for the runtime.
 *
 * Source: pkg/kubelet/cm/container_manager_linux.go setupNode, qos_container_manager_linux.go, pod_container_manager_linux.go.
 */
import type { CgroupPath } from "../cm/cgroup-name.ts";
import { kubepodsCgroup, podCgroup, podUidOf, qosCgroup } from "../cm/cgroup-name.ts";
import { cgroupFiles } from "../cm/cgroup-files.ts";
import { kubepodsConfig, LEAST, qosConfigs, reservedConfig, resourceConfigForPod } from "../cm/resource-config.ts";
import type { ResourceConfig } from "../cm/resource-config.ts";
import { activePods } from "../config/active-pods.ts";
import type { PodManager } from "../config/pod-manager.ts";
import type { QosClass } from "../config/pod-requests.ts";
import { nodeReference } from "../node/node-object.ts";
import type { NodeEvent } from "../node/event-recorder.ts";
import type { NodeOptions, NodeResources } from "../node-options.ts";
import type { NodePod } from "../pod.ts";
import { messageOf } from "../../api/errors.ts";
import type { Cgroups } from "../../ports/cgroups.ts";
import type { Log } from "../../ports/log.ts";
import type { NodeStore } from "../../ports/node-store.ts";

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

export class ContainerManager {
  readonly #ports: ContainerManagerPorts;
  #isSetUp = false;
  #isEnforced = false;
  #last: Promise<unknown> = Promise.resolve();

  constructor(ports: ContainerManagerPorts) {
    this.#ports = ports;
  }

  /** Each minute, and at once when the host begins. @throws when what is above the pods cannot be made */
  async maintain(): Promise<void> {
    if (!this.#makesGroups) return;
    await this.#setUp();
    await this.#enforce();
    await this.updateQos();
  }

  /** Whether the pod has its group; where this agent makes none, it always has. */
  async has(pod: NodePod): Promise<boolean> {
    return !this.#makesGroups || (await this.#ports.cgroups.exists(podCgroup(this.#ports.options, pod)));
  }

  /** Makes the pod's group (CM1). A limit that the kernel does not take is logged, as upstream does it. @throws if there is none afterwards */
  async create(pod: NodePod): Promise<void> {
    const { cgroups, options, log } = this.#ports;
    await this.#setUp();
    const path = podCgroup(options, pod);
    await cgroups.create(path);
    await this.#write(path, resourceConfigForPod(pod, options.cgroups)).catch((error: unknown) =>
      log.error("a pod's limits were not set", { cgroup: path, error: messageOf(error) }),
    );
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

  /** Ends what still runs in the pod's group, and takes it away. @throws while something does not go */
  async destroy(podUid: string): Promise<void> {
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

  get #makesGroups(): boolean {
    const { cgroupDriver, cgroups } = this.#ports.options;
    return cgroups.perQos && cgroupDriver === "cgroupfs";
  }

  async #setUp(): Promise<void> {
    if (this.#isSetUp) return;
    const { cgroups, options } = this.#ports;
    await cgroups.create(kubepodsCgroup(options));
    const configs = qosConfigs([], this.#ports.resources);
    for (const qos of ["Burstable", "BestEffort"] as const) {
      await cgroups.create(qosCgroup(options, qos));
      await this.#write(qosCgroup(options, qos), qos === "Burstable" ? withoutShares(configs[qos]) : configs[qos]);
    }
    this.#isSetUp = true;
  }

  /** Until it succeeds: pods that run already may take more than they are allowed now. Source: node_container_manager_linux.go. */
  async #enforce(): Promise<void> {
    if (this.#isEnforced) return;
    const { options, resources, log } = this.#ports;
    const kubepods = kubepodsCgroup(options);
    try {
      const enforced = options.cgroups.enforce.includes("pods");
      await this.#write(kubepods, kubepodsConfig(resources, { enforced }));
      this.#tell("Normal", "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods");
      for (const { path, config, what } of this.#reserved()) {
        if (!(await this.#ports.cgroups.exists(path))) throw new Error(`there is no control group ${path} to keep ${what} in`);
        await this.#write(path, config);
        this.#tell("Normal", "NodeAllocatableEnforced", `Updated limits on ${what} cgroup ${path}`);
      }
      this.#isEnforced = true;
    } catch (error) {
      log.warn("node allocatable is not enforced", { error: messageOf(error) });
      this.#tell(
        "Warning",
        "FailedNodeAllocatableEnforcement",
        `Failed to update Node Allocatable Limits ${JSON.stringify(kubepods)}: ${messageOf(error)}`,
      );
    }
  }

  #reserved(): readonly { readonly path: CgroupPath; readonly config: ResourceConfig; readonly what: string }[] {
    const { options, resources } = this.#ports;
    const { enforce, kubeReserved, systemReserved } = options.cgroups;
    const groups = { "system-reserved": systemReserved, "kube-reserved": kubeReserved } as const;
    return (["system-reserved", "kube-reserved"] as const).flatMap((key) => {
      const { cgroup: path, resources: kept } = groups[key];
      const compressibleOnly = enforce.includes(`${key}-compressible`);
      if (path === undefined || !(compressibleOnly || enforce.includes(key))) return [];
      return [{ path, config: reservedConfig(kept, resources.cpus, compressibleOnly), what: key.replace("-", " ") }];
    });
  }

  async #updateQos(): Promise<void> {
    const { store, pods, condition, options, resources } = this.#ports;
    const [records, statuses] = [await store.rows("workers"), await store.rows("statuses")];
    const active = activePods({ desired: pods.desired(), records, statuses, hasRelisted: condition.relisted !== undefined });
    const configs = qosConfigs(active, resources);
    // Nobody knows yet who runs here: those that do keep the weight that they have.
    const burstable = condition.sourcesReady ? configs.Burstable : withoutShares(configs.Burstable);
    for (const qos of CLASSES) await this.#write(qosCgroup(options, qos), qos === "Burstable" ? burstable : configs[qos]);
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

function withoutShares({ cpuShares: _later, ...config }: ResourceConfig): ResourceConfig {
  return config;
}
