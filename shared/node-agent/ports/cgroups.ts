/**
 * The kernel's control groups, where this agent has its pods (node-agent §7.6.1). A group is called by its path below the mount of
 * cgroups, `/kubepods/burstable`; with version 1 it stands in every hierarchy. Which group has which limits is decided by others.
 *
 * CG1 what does not stand at or below a root that the adapter was given is not looked at or changed: the call fails.
 * CG2 a group is there once each hierarchy that pods are bounded in has it; `create` makes what is missing of it and above it.
 * CG3 `write` writes in order, and ends with the first file that is refused, by an error that names it. A file that is optional may be missing.
 * CG4 `remove` takes a group and all below it; where one still holds a process it stays, and that is an error.
 * CG5 `kill` ends every process in a group and below it, as by SIGKILL. They may take a moment to go.
 * CG6 every call may be repeated. A group that is not there has no children, no processes and no memory, and is removed already.
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
  /** Processes and threads in a group and below it; undefined: not counted. */
  processes(path: string): Promise<number | undefined>;
  /** Usage of a group and all below it; undefined: not counted. */
  memory(path: string): Promise<CgroupMemory | undefined>;
  kill(path: string): Promise<void>;
  remove(path: string): Promise<void>;
}

export interface CgroupMemory {
  /** Memory without inactive file pages. */
  readonly workingSetBytes: number;
  /** Absent: unlimited. */
  readonly limitBytes?: number;
}

export interface CgroupFile {
  readonly controller: string;
  readonly name: string;
  readonly value: string;
  readonly optional?: true;
}
