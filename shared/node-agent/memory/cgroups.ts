/** Cgroups in memory: a tree of groups that stores written values, and processes that a test adds. */
import type { Cgroups } from "../ports/cgroups.ts";

export interface MemoryCgroups extends Cgroups {
  /** Returns the values written to the files of a group; `undefined` if the group does not exist. */
  files(path: string): Readonly<Record<string, string>> | undefined;
  /** Starts a process in the group, and creates the group if necessary, as a runtime does. */
  enter(path: string): Promise<void>;
  /** Sets the memory usage of the group itself, without its child groups. */
  use(path: string, bytes: number): void;
}

export interface MemoryCgroupOptions {
  /** Root paths, as in the cgroupfs adapter. */
  readonly roots: readonly string[];
  /** Default: 1. */
  readonly version?: 1 | 2;
}

interface Group {
  readonly files: Map<string, string>;
  processes: number;
  memoryBytes: number;
}

const CONTROLLERS = ["cpuset", "cpu", "memory", "pids"];

export function createMemoryCgroups({ roots, version = 1 }: MemoryCgroupOptions): MemoryCgroups {
  const groups = new Map<string, Group>();
  const own = (path: string): string => {
    const isPlain = path
      .split("/")
      .slice(1)
      .every((part) => part !== "" && part !== "." && part !== "..");
    if (!isPlain || !roots.some((root) => path === root || path.startsWith(`${root}/`)))
      throw new Error(`${path} is outside the cgroup roots of this agent`);
    return path;
  };
  const within = (path: string): readonly string[] => [...groups.keys()].filter((one) => one === path || one.startsWith(`${path}/`));
  const make = (path: string): Group => {
    const parent = path.slice(0, path.lastIndexOf("/"));
    if (parent !== "" && !groups.has(parent)) make(parent);
    const group = groups.get(path) ?? { files: new Map<string, string>(), processes: 0, memoryBytes: 0 };
    groups.set(path, group);
    return group;
  };
  return {
    version,
    controllers: CONTROLLERS,
    async exists(path) {
      return groups.has(own(path));
    },
    async create(path) {
      make(own(path));
    },
    async write(path, files) {
      const group = groups.get(own(path));
      for (const { controller, name, value, optional } of files) {
        if (group === undefined || !CONTROLLERS.includes(controller)) {
          if (optional === true) continue;
          throw new Error(`failed to set ${name} of ${path} to ${value}`);
        }
        group.files.set(name, value);
      }
    },
    async children(path) {
      const prefix = `${own(path)}/`;
      return [...groups.keys()]
        .filter((one) => one.startsWith(prefix) && !one.slice(prefix.length).includes("/"))
        .map((one) => one.slice(prefix.length));
    },
    async processes(path) {
      own(path);
      return groups.has(path) ? within(path).reduce((sum, one) => sum + (groups.get(one)?.processes ?? 0), 0) : undefined;
    },
    async memory(path) {
      const group = groups.get(own(path));
      if (group === undefined) return undefined;
      const limit = Number(group.files.get(version === 1 ? "memory.limit_in_bytes" : "memory.max") ?? -1);
      const workingSetBytes = within(path).reduce((sum, one) => sum + (groups.get(one)?.memoryBytes ?? 0), 0);
      return { workingSetBytes, ...(limit >= 0 && { limitBytes: limit }) };
    },
    async kill(path) {
      for (const one of within(own(path))) make(one).processes = 0;
    },
    async remove(path) {
      const busy = within(own(path)).find((one) => (groups.get(one)?.processes ?? 0) > 0);
      if (busy !== undefined) throw new Error(`EBUSY: ${busy} has a process`);
      for (const one of within(path)) groups.delete(one);
    },
    files: (path) => {
      const group = groups.get(path);
      return group && Object.fromEntries(group.files);
    },
    async enter(path) {
      make(own(path)).processes++;
    },
    use(path, bytes) {
      make(own(path)).memoryBytes = bytes;
    },
  };
}
