/**
 * The kernel's control groups with this agent's pods (node-agent §7.6.1). A group is identified by its path below the mount of cgroups,
 * `/kubepods/burstable`; with version 1 it exists in every hierarchy. Callers decide the limits of each group.
 *
 * CG1 calls for a group that is not at or below one of the adapter's roots fail without any access.
 * CG2 a group exists once all hierarchies that limit pods have it; `create` creates missing ones, with their parents.
 * CG3 `write` writes files in order and stops at the first rejected one, with an error that names it. An optional file may be missing.
 * CG4 `remove` removes a group and all groups below it; it fails for a group that still holds a process.
 * CG5 `kill` sends SIGKILL to every process in a group and below it. Their end may take a moment.
 * CG6 every call may be repeated. A missing group has no children, processes or memory, and counts as removed.
 */
export interface Cgroups {
  readonly version: 1 | 2;
  /** Available controllers, such as `cpu`, `memory`, `pids`. */
  readonly controllers: readonly string[];
  exists(path: string): Promise<boolean>;
  create(path: string): Promise<void>;
  write(path: string, files: readonly CgroupFile[]): Promise<void>;
  /** Names of the child groups in all hierarchies; hierarchies with equally many groups are read once. */
  children(path: string): Promise<readonly string[]>;
  /** Processes and threads in a group and below it; undefined if they are not counted. */
  processes(path: string): Promise<number | undefined>;
  /** Usage of a group and all below it; undefined if it is not counted. */
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
