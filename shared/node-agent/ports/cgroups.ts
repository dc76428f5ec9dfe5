/**
 * The cgroups of this agent's pods (node-agent §7.6.1). A cgroup is identified by its path below the cgroup mount, such as
 * `/kubepods/burstable`; with version 1, it exists in every hierarchy. Callers decide the limits of each group.
 *
 * CG1 a call for a group that is not at or below one of the adapter's roots fails without accessing any file.
 * CG2 a group exists if it exists in every hierarchy that limits pods; `create` creates it, and its parents, where they are missing.
 * CG3 `write` writes files in order, and stops with an error at the first file that the kernel rejects. An optional file may be missing.
 * CG4 `remove` removes a group and all groups below it; it fails for a group that still holds a process.
 * CG5 `kill` sends SIGKILL to every process in a group and below it. The processes may take a moment to end.
 * CG6 every call may be repeated. A missing group has no children, processes or memory, and counts as removed.
 */
export interface Cgroups {
  readonly version: 1 | 2;
  /** Available controllers, such as `cpu`, `memory` and `pids`. */
  readonly controllers: readonly string[];
  exists(path: string): Promise<boolean>;
  create(path: string): Promise<void>;
  write(path: string, files: readonly CgroupFile[]): Promise<void>;
  /**
   * Returns the names of the child groups in all hierarchies. Of several hierarchies with the same number of child groups, only one is
   * read.
   */
  children(path: string): Promise<readonly string[]>;
  /** Number of processes and threads in the group and below it; undefined if the kernel does not count them. */
  processes(path: string): Promise<number | undefined>;
  /** Memory usage of the group and all groups below it; undefined if the kernel does not count it. */
  memory(path: string): Promise<CgroupMemory | undefined>;
  kill(path: string): Promise<void>;
  remove(path: string): Promise<void>;
}

export interface CgroupMemory {
  /** Memory without inactive file pages. */
  readonly workingSetBytes: number;
  /** Absent if unlimited. */
  readonly limitBytes?: number;
}

export interface CgroupFile {
  readonly controller: string;
  readonly name: string;
  readonly value: string;
  readonly optional?: true;
}
