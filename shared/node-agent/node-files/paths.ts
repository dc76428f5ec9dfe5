/** Where things stand below the agent's root, as upstream lays them out, and the guard that keeps names from leading out of it. */
import { isAbsolute, join, relative, resolve, sep } from "node:path";
import type { VolumePlace } from "../ports/node-files.ts";
import { NodeFilesError } from "../ports/node-files.ts";

/** Of the directories that lead to volumes: only the agent itself, and the runtime, walk them. */
export const PRIVATE_MODE = 0o750;
const NAME_BYTES_MAX = 255;

export interface PodPaths {
  /** Holds a directory per pod UID. */
  readonly pods: string;
  pod(uid: string): string;
  volume(place: VolumePlace): string;
  /** The mark that a volume is complete, and how it was made (volume-directory.ts). */
  ready(place: VolumePlace): string;
  hostsFile(uid: string): string;
  terminationLogs(uid: string, container: string): string;
  /** Holds what subPaths are bound to. */
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

/** @throws {NodeFilesError} unless `name` is a single name: names come from manifests, and none may lead out of its directory */
export function plainName(name: string): string {
  const isPlain = name !== "" && name !== "." && name !== ".." && !/[/\0]/u.test(name) && Buffer.byteLength(name) <= NAME_BYTES_MAX;
  if (!isPlain) throw new NodeFilesError(`"${name}" cannot be the name of a file: correct the pod's spec`);
  return name;
}

/** Whether `path`, taken literally, is `base` or below it. */
export function isWithin(base: string, path: string): boolean {
  const way = relative(base, path);
  return way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

/** `path` below `base`, whether it was given relative or absolute. @throws {NodeFilesError} when it is not below it */
export function within(base: string, path: string): string {
  const absolute = resolve(base, path);
  if (absolute === resolve(base) || !isWithin(base, absolute))
    throw new NodeFilesError(`${path} is not inside ${base}: nothing is done there`);
  return absolute;
}
