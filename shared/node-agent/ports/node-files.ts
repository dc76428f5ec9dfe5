/**
 * The directories of one node agent: pod volumes and what else containers mount, and container logs (node-agent §6.1, §7.5, §7.8,
 * §10, §16.3). All paths are under the roots that the adapter was made with; nothing outside them is ever touched, except that a
 * hostPath may be looked at or made.
 *
 * NF1 every call may be repeated, and continues what an earlier one did not finish.
 * NF2 `writeVolume` changes all files of a volume at once: a reader of the links sees one payload or the next, never
 *    a mixture; an unchanged payload is not written.
 * NF3 secrets, tokens and `medium: "Memory"` are on tmpfs. Where the machine allows no mount, what is to be written there is refused and
 *    never on a disk; an emptyDir of memory is a plain directory, and a warning is logged once.
 * NF4 removing a pod's directory unmounts what is mounted in it first, and never reaches through a mount.
 * NF5 a failure is an error whose message names the path and what to do; no message holds content.
 * NF6 nothing meets at one place: a volume is made, written or taken away, with all of its pod's directory, by one call at a time, in
 *    the order in which they came.
 * NF7 a checkpoint is replaced as a whole and is on disk when the call answers: a crash leaves the old one or the new one. Its content
 *    is asked for when it is this call's turn, so that of two calls at once the one that came last leaves what was true last. Calls
 *    that wait for the same file are written as one, by the content of the last of them.
 */
export interface NodeFiles {
  /** `<root>/<name>`; undefined when there is none. */
  readCheckpoint(name: string): Promise<string | undefined>;
  writeCheckpoint(name: string, content: () => Promise<string>): Promise<void>;

  /** `<root>/pods/<uid>` with `volumes` and `plugins`, mode 0750. */
  makePodDirectories(uid: string): Promise<void>;
  /** UIDs that have a directory. */
  podsWithDirectories(): Promise<readonly string[]>;
  /** Volumes, mounts and all. */
  removePodDirectory(uid: string): Promise<void>;

  /** @returns the host path that containers mount */
  writeVolume(volume: VolumePlace, payload: readonly VolumeFile[], options?: VolumeOptions): Promise<string>;
  /** Of a volume that was written before; undefined when there is none. */
  volumePath(volume: VolumePlace): Promise<string | undefined>;
  makeEmptyDir(volume: VolumePlace, options?: EmptyDirOptions): Promise<string>;
  /** @throws {NodeFilesError} when it is not what `type` says and may not be made */
  checkHostPath(path: string, type: string): Promise<void>;
  /** For a pod, a directory in a volume, made with the volume's mode where it is missing; never outside of it (also not by a symlink). */
  makeSubPath(uid: string, volumePath: string, subPath: string): Promise<string>;

  /** `<root>/pods/<uid>/etc-hosts`. @returns its path */
  writeHostsFile(uid: string, content: string): Promise<string>;
  /** The machine's own /etc/hosts, and what `--resolv-conf` names; empty when there is none. */
  readHostFile(which: "hosts" | "resolv.conf"): Promise<string>;

  /** A new empty file `<root>/pods/<uid>/containers/<container>/<8 hex>`, mode 0666. @returns its path */
  makeTerminationLog(uid: string, container: string): Promise<string>;
  /** At most its last `bytesMax`; undefined when it is missing or outside our roots. */
  readTerminationLog(path: string, bytesMax: number): Promise<string | undefined>;

  /** 0755, parents too. `directory` is relative to the pod log root. @returns its absolute path */
  makeLogDirectory(directory: string): Promise<string>;
  /** The highest N of `<N>.log` or `<N>.log.<anything>` in it; undefined when it is missing or empty. */
  highestLogNumber(directory: string): Promise<number | undefined>;
  /** The last lines of a CRI log without time and stream, limited in lines and bytes; "" when the log is missing. */
  tailLog(logPath: string, limits: { readonly linesMax: number; readonly bytesMax: number }): Promise<string>;
  /** `<container log root>/<name>` → `logPath`, if that file is there. */
  linkContainerLog(name: string, logPath: string): Promise<void>;
  /**
   * A log above `bytesMax` is renamed; older ones are compressed, those beyond `filesMax` (the live one counts)
   * removed. The runtime must then reopen the log. Undefined: the log is small, missing or unowned.
   */
  rotateLog(logPath: string, limits: LogLimits): Promise<RotatedLog | undefined>;
  /** The log file, its rotated ones, and the link of that name if it leads to it. */
  removeContainerLogs(logPath: string, linkName: string): Promise<void>;
  /** Directories of the pod log root, by name. */
  logDirectories(): Promise<readonly string[]>;
  removeLogDirectory(directory: string): Promise<void>;
  /** Links of the container log root whose log is gone. */
  removeDeadLinks(): Promise<void>;

  /** Of the file system that `path` is on; undefined when there is no such path. */
  diskSpace(path: string): Promise<FileSystem | undefined>;
  /** Of what the agent and the runtime write for a pod: its logs in `logDirectory` of the pod log root, its hosts file. */
  podDiskUsage(uid: string, logDirectory: string): Promise<PodDiskUsage>;
  /**
   * Undefined when there is none, or its pod's directory is being removed. Takes as long as what its containers have made of it is
   * large; others are measured meanwhile, and nothing waits for it.
   */
  volumeUsage(volume: VolumePlace): Promise<VolumeUsage | undefined>;
}

export interface DiskSpace {
  readonly capacityBytes: number;
  /** Permissions for users other than root. */
  readonly availableBytes: number;
}

export interface FileSystem extends DiskSpace {
  /** Equal for paths on one file system. */
  readonly device: number;
  readonly inodes: number;
  readonly inodesFree: number;
  /** What root may still write is in it; absent: as `availableBytes`. */
  readonly freeBytes?: number;
}

export interface DiskUsage {
  readonly usedBytes: number;
  readonly inodesUsed: number;
}

/** On a file system of its own (memory): what it takes there. */
export interface VolumeUsage extends DiskUsage {
  /** Why something of it is not counted: the volume takes at least what is said. */
  readonly failure?: string;
}

/** What is not there takes nothing. */
export interface PodDiskUsage {
  /** By the name of the container. */
  readonly logs: ReadonlyMap<string, DiskUsage>;
  readonly hostsFile: DiskUsage;
}

export interface LogLimits {
  readonly bytesMax: number;
  readonly filesMax: number;
  /** Names the log that steps aside. */
  readonly nowMs: number;
}

export interface RotatedLog {
  /** The runtime would not open a new one: the log takes its place again. */
  undo(): Promise<void>;
}

export interface VolumePlace {
  readonly uid: string;
  /** `kubernetes.io~configmap` and the like. */
  readonly plugin: string;
  /** Of the volume, as the pod's spec has it. */
  readonly name: string;
}

export interface VolumeFile {
  /** Relative, in the volume; may hold `/`, never `..`. */
  readonly path: string;
  readonly content: Uint8Array;
  readonly mode: number;
  /** Owner, when not root. */
  readonly uid?: number;
}

export interface VolumeOptions {
  readonly tmpfs?: true;
  readonly fsGroup?: number;
}

export interface EmptyDirOptions {
  readonly medium?: "Memory";
  readonly sizeLimitBytes?: number;
  readonly fsGroup?: number;
}

/** Something on this machine's disk is not as it must be. The message says what, where and what to do; it is shown to users. */
export class NodeFilesError extends Error {
  override readonly name = "NodeFilesError";
}
