/**
 * Directories and files of one node agent: pod volumes, other files that containers mount, and container logs (node-agent §6.1, §7.5, §7.8,
 * §10, §16.3). All paths are below the adapter's roots, except hostPaths, which may be checked or created.
 *
 * NF1 every call may be repeated, and completes an earlier call that was interrupted.
 * NF2 `writeVolume` replaces all files of a volume atomically: a reader of the links sees either the old or the new files, never a
 *     mixture. Unchanged files are not written.
 * NF3 secrets, tokens and `medium: "Memory"` are on tmpfs. If the machine allows no mounts, secrets and tokens are rejected and never
 *    written to a disk; a memory-backed emptyDir becomes a plain directory, with one warning in the log.
 * NF4 removing a pod's directory first unmounts all mounts in it, and never removes files below a mount.
 * NF5 an error contains the path and advice; no message contains the content of a file.
 * NF6 calls for the same volume, or for its pod's directory, run one at a time in the order of the calls.
 * NF7 a checkpoint is replaced atomically and is on disk when the call returns; a crash leaves the old or the new one. `content` is called
 *    when the write starts. Calls that wait for the same file share one write, with the content of the last one.
 */
export interface NodeFiles {
  /** Reads `<root>/<name>`; undefined if missing. */
  readCheckpoint(name: string): Promise<string | undefined>;
  writeCheckpoint(name: string, content: () => Promise<string>): Promise<void>;

  /** Creates `<root>/pods/<uid>` with `volumes` and `plugins`, mode 0750. */
  makePodDirectories(uid: string): Promise<void>;
  /** Returns the UIDs of pods that have a directory. */
  podsWithDirectories(): Promise<readonly string[]>;
  /** Removes the pod's directory, including all volumes and mounts. */
  removePodDirectory(uid: string): Promise<void>;

  /** @returns the host path that containers mount */
  writeVolume(volume: VolumePlace, payload: readonly VolumeFile[], options?: VolumeOptions): Promise<string>;
  /** Returns the path of a complete volume; undefined if the volume is missing or incomplete. */
  volumePath(volume: VolumePlace): Promise<string | undefined>;
  makeEmptyDir(volume: VolumePlace, options?: EmptyDirOptions): Promise<string>;
  /** @throws {NodeFilesError} if the path does not match `type`, and `type` does not permit creating it */
  checkHostPath(path: string, type: string): Promise<void>;
  /** Creates missing directories with the mode of the volume. Never leaves the volume, not even through a symlink. */
  makeSubPath(uid: string, volumePath: string, subPath: string): Promise<string>;

  /** Writes `<root>/pods/<uid>/etc-hosts`. @returns its path */
  writeHostsFile(uid: string, content: string): Promise<string>;
  /** Reads /etc/hosts or the file of `--resolv-conf`; empty if missing. */
  readHostFile(which: "hosts" | "resolv.conf"): Promise<string>;

  /** Creates the empty file `<root>/pods/<uid>/containers/<container>/<8 hex digits>` with mode 0666. @returns its path */
  makeTerminationLog(uid: string, container: string): Promise<string>;
  /** Reads at most the last `bytesMax` bytes; returns undefined if the file is missing or outside the root. */
  readTerminationLog(path: string, bytesMax: number): Promise<string | undefined>;

  /** Creates a directory with mode 0755, and its parents. `directory` is relative to the pod log root. @returns its absolute path */
  makeLogDirectory(directory: string): Promise<string>;
  /** Returns the highest N of all files `<N>.log` and `<N>.log.<suffix>`; undefined if there is no such file. */
  highestLogNumber(directory: string): Promise<number | undefined>;
  /** Returns the last lines without time and stream, up to a number of lines and bytes; empty if the log is missing. */
  tailLog(logPath: string, limits: { readonly linesMax: number; readonly bytesMax: number }): Promise<string>;
  /** Links `<container log root>/<name>` to `logPath`, if that file exists. */
  linkContainerLog(name: string, logPath: string): Promise<void>;
  /**
   * Renames a log above `bytesMax`, compresses older logs and removes logs beyond `filesMax` (including the live one). The runtime must
   * then reopen the log. Returns undefined if the log was not rotated, because the log is small, missing or outside the root.
   */
  rotateLog(logPath: string, limits: LogLimits): Promise<RotatedLog | undefined>;
  /** Removes the log file, its rotated files, and the link `linkName` if it points to the log. */
  removeContainerLogs(logPath: string, linkName: string): Promise<void>;
  /** Names of the directories in the pod log root. */
  logDirectories(): Promise<readonly string[]>;
  removeLogDirectory(directory: string): Promise<void>;
  /** Removes links in the container log root whose target is missing. */
  removeDeadLinks(): Promise<void>;

  /** Returns statistics of the file system that contains `path`; undefined if the path does not exist. */
  diskSpace(path: string): Promise<FileSystem | undefined>;
  /** Returns the usage of the pod's logs in `logDirectory` (below the pod log root) and of its hosts file. */
  podDiskUsage(uid: string, logDirectory: string): Promise<PodDiskUsage>;
  /**
   * Returns undefined if the volume is missing, or if its pod's directory is being removed. A large volume may take long; several volumes
   * are measured concurrently.
   */
  volumeUsage(volume: VolumePlace): Promise<VolumeUsage | undefined>;
}

export interface DiskSpace {
  readonly capacityBytes: number;
  /** Free bytes of the file system for users other than root. */
  readonly availableBytes: number;
}

export interface FileSystem extends DiskSpace {
  /** Device number, which is the same for all paths on one file system. */
  readonly device: number;
  readonly inodes: number;
  readonly inodesFree: number;
  /** Free bytes including those reserved for root; if absent, the same as `availableBytes`. */
  readonly freeBytes?: number;
}

export interface DiskUsage {
  readonly usedBytes: number;
  readonly inodesUsed: number;
}

export interface VolumeUsage extends DiskUsage {
  /** Why some entries are not counted, which makes the usage a lower bound. */
  readonly failure?: string;
}

/** Disk usage of a pod, in which missing files count as 0. */
export interface PodDiskUsage {
  /** Usage of the logs by container name. */
  readonly logs: ReadonlyMap<string, DiskUsage>;
  readonly hostsFile: DiskUsage;
}

export interface LogLimits {
  readonly bytesMax: number;
  readonly filesMax: number;
  /** The time from which the suffix of the rotated log is computed. */
  readonly nowMs: number;
}

export interface RotatedLog {
  /** Undoes the rename, because the runtime failed to open a new log. */
  undo(): Promise<void>;
}

export interface VolumePlace {
  readonly uid: string;
  /** The directory name of the volume plugin, for example `kubernetes.io~configmap`. */
  readonly plugin: string;
  /** Name of the volume in the pod's spec. */
  readonly name: string;
}

export interface VolumeFile {
  /** Path relative to the volume, which may contain `/` but never `..`. */
  readonly path: string;
  readonly content: Uint8Array;
  readonly mode: number;
  /** Owner of the file. Default: root. */
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

/** A path on the machine's disk is in an unexpected state. Users see the message, which has the problem, the path and the remedy. */
export class NodeFilesError extends Error {
  override readonly name = "NodeFilesError";
}
