/** What the control groups of pods are called (node-agent §7.6.1). */
import { qosClass } from "../types/pod-requests.ts";
import type { QosClass } from "../types/pod-requests.ts";
import type { NodeOptions } from "../types/node-options.ts";
import type { NodePod } from "../types/pod.ts";

/** A path below the mount of cgroups, as both drivers have it on disk: `/kubepods/burstable`, `/kubepods.slice/kubepods-burstable.slice`. */
export type CgroupPath = string;

type Naming = Pick<NodeOptions, "cgroupRoot" | "cgroupDriver">;

/** Pods without a class of their own, Guaranteed ones, stand directly in it. Source: pkg/kubelet/cm/node_container_manager_linux.go. */
export function kubepodsCgroup(naming: Naming): CgroupPath {
  return cgroupPath(naming, []);
}

/** Source: pkg/kubelet/cm/qos_container_manager_linux.go Start. */
export function qosCgroup(naming: Naming, qos: QosClass): CgroupPath {
  return cgroupPath(naming, partsOf(qos));
}

/**
 * The group of all containers of the pod, which is also what the runtime is told as `cgroup_parent`.
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
 * A group of others, by what the agent was told of it: with the systemd driver the last part is a slice's name, with or without its end.
 *
 *     cgroupfs: /system/kube → /system/kube
 *     systemd:  /kube-node → /kube.slice/kube-node.slice
 *
 * Source: pkg/kubelet/cm/node_container_manager_linux.go enforceExistingCgroup; cgroup_manager_linux.go ParseSystemdToCgroupName.
 */
export function reservedCgroup({ cgroupDriver }: Naming, told: string): CgroupPath {
  if (cgroupDriver === "cgroupfs") return told;
  const name = told.slice(told.lastIndexOf("/") + 1).replace(/\.slice$/u, "");
  return slices(name.split("-"));
}

/** `pod<uid>` and, with the systemd driver, `kubepods-besteffort-pod<uid with _>.slice`, below any other root too. */
const OF_POD = /^(?:[^/]*-)?pod([0-9a-f][0-9a-f_-]{7,}?)(?:\.slice)?$/u;

/** The pod whose group is so called, by the last part of its path. Source: pod_container_manager_linux.go GetAllPodsFromCgroups. */
export function podUidOf(name: string): string | undefined {
  return OF_POD.exec(name)?.[1]?.replaceAll("_", "-");
}

function partsOf(qos: QosClass): readonly string[] {
  return qos === "Guaranteed" ? [] : [qos.toLowerCase()];
}

/**
 * systemd parts its levels by dashes, and repeats all of them in each: a dash of a name is written as an underscore.
 *
 * Source: pkg/kubelet/cm/cgroup_manager_linux.go ToCgroupfs, ToSystemd; github.com/opencontainers/cgroups systemd ExpandSlice.
 */
function cgroupPath({ cgroupRoot, cgroupDriver }: Naming, below: readonly string[]): CgroupPath {
  const parts = [...cgroupRoot.split("/").filter((part) => part !== ""), "kubepods", ...below];
  if (cgroupDriver === "cgroupfs") return `/${parts.join("/")}`;
  return slices(parts.map((part) => part.replaceAll("-", "_")));
}

function slices(parts: readonly string[]): CgroupPath {
  return `/${parts.map((_part, index) => `${parts.slice(0, index + 1).join("-")}.slice`).join("/")}`;
}
