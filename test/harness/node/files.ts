/** NodeFiles in memory: the node's disk as the agent sees it. It survives restarts of the agent. */
import type {
  FileSystem,
  NodeFiles,
  PodDiskUsage,
  VolumeFile,
  VolumePlace,
  VolumeUsage,
} from "../../../shared/node-agent/ports/node-files.ts";
import { NodeFilesError } from "../../../shared/node-agent/ports/node-files.ts";

export interface MemoryNodeFiles extends NodeFiles {
  /** Appends to a file, as the runtime does with its logs. */
  append(path: string, text: string): void;
  /** Writes a file as a container does, for example a termination message. */
  write(path: string, text: string): void;
  read(path: string): string | undefined;
  /** The current payload of a volume. */
  payload(hostPath: string): readonly VolumeFile[] | undefined;
  /** Sets the space of the node's only disk; by default the disk is empty. */
  setSpace(space: Partial<FileSystem>): void;
  setUsage(uid: string, usage: Partial<Usage>): void;
}

type Usage = PodDiskUsage & { readonly volumes: ReadonlyMap<string, VolumeUsage> };

const WHOLE_DISK: FileSystem = { capacityBytes: 2 ** 40, availableBytes: 2 ** 40, inodes: 2 ** 20, inodesFree: 2 ** 20, device: 1 };

const PODS = "/root/pods";
const LOGS = "/logs";

export function createMemoryNodeFiles(): MemoryNodeFiles {
  const directories = new Set<string>();
  const files = new Map<string, string>();
  const payloads = new Map<string, readonly VolumeFile[]>();
  const links = new Map<string, string>();
  const usages = new Map<string, Partial<Usage>>();
  let space: Partial<FileSystem> = {};
  let names = 0;

  const make = (path: string): string => {
    directories.add(path);
    return path;
  };
  const removeBelow = (root: string): void => {
    const isBelow = (path: string): boolean => path === root || path.startsWith(`${root}/`);
    for (const path of directories) if (isBelow(path)) directories.delete(path);
    for (const path of files.keys()) if (isBelow(path)) files.delete(path);
    for (const path of payloads.keys()) if (isBelow(path)) payloads.delete(path);
  };
  const volumePath = ({ uid, plugin, name }: VolumePlace): string => `${PODS}/${uid}/volumes/${plugin}/${name}`;
  const childrenOf = (root: string): readonly string[] => [
    ...new Set(
      [...directories, ...files.keys()].flatMap((path) =>
        path.startsWith(`${root}/`) ? (path.slice(root.length + 1).split("/")[0] ?? []) : [],
      ),
    ),
  ];

  return {
    append: (path, text) => void files.set(path, (files.get(path) ?? "") + text),
    write: (path, text) => void files.set(path, text),
    read: (path) => files.get(path),
    payload: (path) => payloads.get(path),

    readCheckpoint: async (name) => files.get(`/root/${name}`),
    writeCheckpoint: async (name, content) => void files.set(`/root/${name}`, await content()),
    volumePath: async (volume) => (payloads.has(volumePath(volume)) ? volumePath(volume) : undefined),
    rotateLog: async () => undefined, // logs are short here
    makePodDirectories: async (uid) => void make(`${PODS}/${uid}`),
    podsWithDirectories: async () => childrenOf(PODS),
    removePodDirectory: async (uid) => removeBelow(`${PODS}/${uid}`),
    async writeVolume(volume, payload) {
      payloads.set(volumePath(volume), payload);
      return make(volumePath(volume));
    },
    makeEmptyDir: async (volume) => make(volumePath(volume)),
    async checkHostPath(path, type) {
      if (type === "Directory" && !directories.has(path))
        throw new NodeFilesError(`hostPath type check failed: ${path} is not a directory`);
    },
    makeSubPath: async (_uid, root, subPath) => make(`${root}/${subPath}`),
    async writeHostsFile(uid, content) {
      const path = `${PODS}/${uid}/etc-hosts`;
      files.set(path, content);
      return path;
    },
    readHostFile: async () => "",
    async makeTerminationLog(uid, container) {
      const path = `${PODS}/${uid}/containers/${container}/${(++names).toString(16).padStart(8, "0")}`;
      files.set(path, "");
      return path;
    },
    readTerminationLog: async (path, bytesMax) => files.get(path)?.slice(0, bytesMax),
    makeLogDirectory: async (directory) => make(`${LOGS}/${directory}`),
    async highestLogNumber(directory) {
      const numbers = childrenOf(`${LOGS}/${directory}`).flatMap((name) =>
        /^(\d+)\.log(\.|$)/u.test(name) ? Number.parseInt(name, 10) : [],
      );
      return numbers.length === 0 ? undefined : Math.max(...numbers);
    },
    async tailLog(path, { linesMax, bytesMax }) {
      const lines = (files.get(path) ?? "").split("\n").filter((line) => line !== "");
      return lines
        .slice(-linesMax)
        .map((line) => line.split(" ").slice(3).join(" "))
        .join("\n")
        .slice(-bytesMax);
    },
    async linkContainerLog(name, logPath) {
      if (files.has(logPath)) links.set(name, logPath);
    },
    async removeContainerLogs(logPath, linkName) {
      for (const path of files.keys()) if (path === logPath || path.startsWith(`${logPath}.`)) files.delete(path);
      if (links.get(linkName) === logPath) links.delete(linkName);
    },
    logDirectories: async () => childrenOf(LOGS),
    removeLogDirectory: async (directory) => removeBelow(`${LOGS}/${directory}`),
    diskSpace: async () => ({ ...WHOLE_DISK, ...space }),
    setSpace: (given) => void (space = given),
    setUsage: (uid, usage) => void usages.set(uid, usage),
    podDiskUsage: async (uid) => ({ logs: new Map(), hostsFile: { usedBytes: 0, inodesUsed: 0 }, ...usages.get(uid) }),
    volumeUsage: async (volume) =>
      usages.get(volume.uid)?.volumes?.get(volume.name) ??
      (directories.has(volumePath(volume)) ? { usedBytes: 0, inodesUsed: 0 } : undefined),
    async removeDeadLinks() {
      for (const [name, target] of links) if (!files.has(target)) links.delete(name);
    },
  };
}
