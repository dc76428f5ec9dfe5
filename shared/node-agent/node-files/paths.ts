/** Paths below the agent's root directory, in upstream's layout, and checks that names cannot leave it. */
import { isAbsolute, join, relative, resolve, sep } from "node:path";
import type { VolumePlace } from "../ports/node-files.ts";
import { NodeFilesError } from "../ports/node-files.ts";

/** Mode of the directories above volumes, because only the agent and the runtime enter them. */
export const PRIVATE_MODE = 0o750;
const NAME_BYTES_MAX = 255;

export interface PodPaths {
  /** Parent of the pods' directories, which are named by UID. */
  readonly pods: string;
  pod(uid: string): string;
  volume(place: VolumePlace): string;
  /** Marker file of a complete volume. It also records whether the volume is on tmpfs (volume-directory.ts). */
  ready(place: VolumePlace): string;
  hostsFile(uid: string): string;
  terminationLogs(uid: string, container: string): string;
  /** Directory of the mount points for subPaths. */
  subPaths(uid: string): string;
}

/** Source: pkg/kubelet/kubelet_getters.go. */
export function podPaths(rootDir: string): PodPaths {
  const pods = join(rootDir, "pods");
  const pod = (uid: string): string => join(pods, plainName(uid));
  return {
    pods,
    pod,
    volume: ({ uid, plugin, name }) => join(pod(uid), "volumes", plainName(plugin), plainName(name)),
    ready: ({ uid, plugin, name }) => join(pod(uid), "plugins", plainName(plugin), plainName(name), "ready"),
    hostsFile: (uid) => join(pod(uid), "etc-hosts"),
    terminationLogs: (uid, container) => join(pod(uid), "containers", plainName(container)),
    subPaths: (uid) => join(pod(uid), "volume-subpaths"),
  };
}

/** @throws {NodeFilesError} unless `name` is a single path segment, because names come from manifests and must not leave the directory */
export function plainName(name: string): string {
  const isPlain = name !== "" && name !== "." && name !== ".." && !/[/\0]/u.test(name) && Buffer.byteLength(name) <= NAME_BYTES_MAX;
  if (!isPlain) throw new NodeFilesError(`"${name}" is not a valid file name: correct the pod's spec`);
  return name;
}

/** Whether `path` is `base` or is below it; does not resolve links. */
export function isWithin(base: string, path: string): boolean {
  const way = relative(base, path);
  return way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

/** Resolves a relative or absolute `path`. @throws {NodeFilesError} unless it is below `base` */
export function within(base: string, path: string): string {
  const absolute = resolve(base, path);
  if (absolute === resolve(base) || !isWithin(base, absolute))
    throw new NodeFilesError(`${path} is not inside ${base}: the operation was rejected`);
  return absolute;
}
