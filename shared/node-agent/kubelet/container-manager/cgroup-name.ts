/** Names of pod cgroups (node-agent §7.6.1). */
import { qosClass, type QosClass } from "../types/pod-requests.ts";
import type { NodeOptions } from "../types/node-options.ts";
import type { NodePod } from "../types/pod.ts";

/** A path below the cgroup mount, as on disk: `/kubepods/burstable`, `/kubepods.slice/kubepods-burstable.slice`. */
export type CgroupPath = string;

type Naming = Pick<NodeOptions, "cgroupRoot" | "cgroupDriver">;

/** The parent of all pod cgroups; Guaranteed pods are its direct children. Source: pkg/kubelet/cm/node_container_manager_linux.go. */
export function kubepodsCgroup(naming: Naming): CgroupPath {
  return cgroupPath(naming, []);
}

/** The cgroup of a QoS class. Source: pkg/kubelet/cm/qos_container_manager_linux.go Start. */
export function qosCgroup(naming: Naming, qos: QosClass): CgroupPath {
  return cgroupPath(naming, partsOf(qos));
}

/**
 * The cgroup of the pod, passed to the runtime as `cgroup_parent`.
 *
 *     cgroupfs: /kubepods/burstable/pod0f1e-22
 *     systemd:  /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0f1e_22.slice
 *
 * Source: pkg/kubelet/cm/pod_container_manager_linux.go GetPodContainerName.
 */
export function podCgroup(naming: Naming, pod: NodePod): CgroupPath {
  return cgroupPath(naming, [...partsOf(qosClass(pod)), `pod${pod.metadata.uid}`]);
}

/**
 * The path of a configured reserved cgroup. With systemd, the last element is a slice name, with or without suffix.
 *
 *     cgroupfs: /system/kube → /system/kube
 *     systemd:  /kube-node → /kube.slice/kube-node.slice
 *
 * Source: pkg/kubelet/cm/node_container_manager_linux.go enforceExistingCgroup; cgroup_manager_linux.go ParseSystemdToCgroupName.
 */
export function reservedCgroup({ cgroupDriver }: Naming, configured: string): CgroupPath {
  if (cgroupDriver === "cgroupfs") return configured;
  const name = configured.slice(configured.lastIndexOf("/") + 1).replace(/\.slice$/u, "");
  return slices(name.split("-"));
}

/** Matches `pod<uid>`, or with systemd `kubepods-besteffort-pod<uid with _>.slice`, below any root. */
const OF_POD = /^(?:[^/]*-)?pod([0-9a-f][0-9a-f_-]{7,}?)(?:\.slice)?$/u;

/** The UID of the pod with this cgroup name. Source: pod_container_manager_linux.go GetAllPodsFromCgroups. */
export function podUidOf(name: string): string | undefined {
  return OF_POD.exec(name)?.[1]?.replaceAll("_", "-");
}

function partsOf(qos: QosClass): readonly string[] {
  return qos === "Guaranteed" ? [] : [qos.toLowerCase()];
}

/**
 * systemd separates levels by dashes and repeats the parents; dashes in names become underscores. Source:
 * pkg/kubelet/cm/cgroup_manager_linux.go ToCgroupfs, ToSystemd; github.com/opencontainers/cgroups systemd ExpandSlice.
 */
function cgroupPath({ cgroupRoot, cgroupDriver }: Naming, below: readonly string[]): CgroupPath {
  const parts = [...cgroupRoot.split("/").filter((part) => part !== ""), "kubepods", ...below];
  if (cgroupDriver === "cgroupfs") return `/${parts.join("/")}`;
  return slices(parts.map((part) => part.replaceAll("-", "_")));
}

function slices(parts: readonly string[]): CgroupPath {
  return `/${parts.map((_part, index) => `${parts.slice(0, index + 1).join("-")}.slice`).join("/")}`;
}
