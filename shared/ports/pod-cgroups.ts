/**
 * The control groups that the runtime made for this agent's pods, below its own cgroup root (node-agent §3.2 step 12, §5.4). The
 * runtime makes a pod's group with its sandbox and does not take it away.
 *
 * CG1 nothing outside the root is looked at or removed.
 * CG2 `remove` takes a pod's group and what is below it, in every hierarchy; a group that still holds a process stays, and is no error.
 * CG3 every call may be repeated.
 */
export interface PodCgroups {
  /** UIDs that have a group. */
  uids(): Promise<readonly string[]>;
  remove(uid: string): Promise<void>;
}
