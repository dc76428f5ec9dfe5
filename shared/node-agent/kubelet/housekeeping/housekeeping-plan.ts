/** Plans housekeeping after `syncKnownPod` (node-agent §3.2, steps 4 to 12; §18.4). Requires all sources to be ready. */
import type { StaticStart, WorkerRecord } from "../../ports/node-store.ts";
import { workerState } from "../pod-workers/pod-worker.ts";

/**
 * Keys are pod UIDs unless noted. The caller must read in this order, so that a pod that arrives in the meantime does not look like a
 * removed pod: leftovers (cgroups, directories, statuses, probes, mirrors), `desired`, running pods, `records`.
 */
export interface HousekeepingInput {
  /** Desired pods, including mirror pods. */
  readonly desired: ReadonlyMap<string, DesiredPod>;
  /** Worker records after `syncKnownPod`. */
  readonly records: ReadonlyMap<string, WorkerRecord>;
  /** Pods that run according to the runtime. */
  readonly runningUids: ReadonlySet<string>;
  readonly directories: readonly string[];
  /** Pods with a cgroup. */
  readonly cgroups: readonly string[];
  /** Pods with mounts; absent if the removal of a directory unmounts everything in it first (NodeFiles NF4). */
  readonly mountedUids?: ReadonlySet<string>;
  readonly cachedStatusUids: readonly string[];
  /** Pods with probe records. */
  readonly probedUids: readonly string[];
  /** Full names of mirror pods without a static pod. */
  readonly orphanMirrors: readonly string[];
  /** Keyed by full name. */
  readonly staticStarts: ReadonlyMap<string, StaticStart>;
  /** Pods that are in the work queue. */
  readonly due: ReadonlySet<string>;
}

export interface DesiredPod {
  readonly fullName: string;
  readonly isStatic: boolean;
  readonly isMirror: boolean;
  readonly deletionTimestamp?: true;
  /** Whether the phase in the API or in the cached status is terminal. */
  readonly phaseIsTerminal: boolean;
}

export interface HousekeepingPlan {
  /** Pods for the worker update `create`. */
  readonly create: readonly string[];
  /** Rejected desired pods for the worker update `kill`, so that they are finalized. */
  readonly kill: readonly string[];
  /** Pods for the worker update `kill`, known only from the runtime, with a grace period of 1 s. */
  readonly killRuntimeOnly: readonly string[];
  readonly stopProbes: readonly string[];
  readonly dropStatuses: readonly string[];
  readonly removeDirectories: readonly string[];
  /** Cgroups to remove. Processes that remain in them are killed. */
  readonly removeCgroups: readonly string[];
  /** Cgroups whose CPU weight must be reduced. They are kept, because the pods still have volumes whose memory is charged to them. */
  readonly reduceCgroups: readonly string[];
  /** Full names of mirror pods. */
  readonly deleteMirrors: readonly string[];
  /** Full names to release, with the UIDs of their former holders. */
  readonly releaseFullNames: ReadonlyMap<string, string>;
  /**
   * Desired pods without a scheduled sync, including pods with a running sync. Schedule them with the delay of a failed sync
   * (`requeueDelayMs`); the end of a running sync replaces this schedule.
   */
  readonly schedule: readonly string[];
}

/**
 * Source: pkg/kubelet/kubelet_pods.go HandlePodCleanups, filterOutInactivePods, filterTerminalPodsToDelete, cleanupOrphanedPodDirs,
 * cleanupOrphanedPodCgroups. Differs from upstream: records can be lost here, so
 * - a desired terminal pod that still runs gets a worker again and is stopped with its grace period and hooks;
 * - a full name is released if its holder's record is gone;
 * - a directory stays until its pod's worker is finished, because the worker may still read the termination message.
 */
export function housekeepingPlan(input: HousekeepingInput): HousekeepingPlan {
  const { desired, records, runningUids, mountedUids, due } = input;
  const pods = [...desired].filter(([, { isMirror }]) => !isMirror);
  const isDesired = (uid: string): boolean => desired.get(uid)?.isMirror === false;
  const isOver = (uid: string): boolean => {
    const record = records.get(uid);
    return record === undefined || workerState(record) === "terminated";
  };

  // Until a worker is finished, it unmounts its own volumes, and concurrent unmounts would conflict.
  const isDone = (uid: string): boolean => !records.has(uid) || records.get(uid)?.finished === true;

  // A terminating worker still needs its cgroup, and removes the cgroup itself.
  const unneeded = input.cgroups.filter((uid) => isOver(uid) && !runningUids.has(uid));

  const unknown = pods.filter(([uid]) => !records.has(uid));
  const create = unknown.filter(([uid, pod]) => !pod.phaseIsTerminal || runningUids.has(uid)).map(([uid]) => uid);
  const created = new Set(create);
  const rejected = unknown.filter(([uid, pod]) => pod.deletionTimestamp && !created.has(uid));
  const needsSync = (uid: string): boolean => created.has(uid) || (records.has(uid) && !records.get(uid)?.finished);

  return {
    create,
    kill: rejected.map(([uid]) => uid),
    killRuntimeOnly: [...runningUids].filter((uid) => !records.has(uid) && !isDesired(uid)),
    stopProbes: input.probedUids.filter(isOver),
    dropStatuses: input.cachedStatusUids.filter((uid) => !desired.has(uid)),
    removeDirectories: input.directories.filter((uid) => !isDesired(uid) && isDone(uid) && !runningUids.has(uid) && !mountedUids?.has(uid)),
    removeCgroups: unneeded.filter((uid) => !created.has(uid) && !input.directories.includes(uid)),
    reduceCgroups: unneeded.filter((uid) => !created.has(uid) && input.directories.includes(uid)),
    deleteMirrors: withoutTerminating(input.orphanMirrors, records),
    releaseFullNames: orphanedFullNames(input, isDesired),
    schedule: pods.map(([uid]) => uid).filter((uid) => !due.has(uid) && needsSync(uid)),
  };
}

/**
 * Whether the plan needs a current list of the runtime instead of the last relist (`input.runningUids`). It does if something must be
 * removed, a worker is missing, or an unknown pod runs. For other changes, the next relist is early enough.
 */
export function needsCurrentList(input: HousekeepingInput): boolean {
  const ifNothingRuns = housekeepingPlan({ ...input, runningUids: new Set() });
  const { removeDirectories, removeCgroups, reduceCgroups, releaseFullNames } = ifNothingRuns;
  const removals = removeDirectories.length + removeCgroups.length + reduceCgroups.length + releaseFullNames.size;
  const isUnknown = [...input.desired].some(([uid, { isMirror }]) => !isMirror && !input.records.has(uid));
  return removals > 0 || isUnknown || housekeepingPlan(input).killRuntimeOnly.length > 0;
}

/** Keeps a mirror pod while its static pod terminates, so that the pod's status stays visible. */
function withoutTerminating(fullNames: readonly string[], records: ReadonlyMap<string, WorkerRecord>): readonly string[] {
  const terminating = new Set<string>();
  for (const record of records.values()) if (record.isStatic && workerState(record) === "terminating") terminating.add(record.fullName);
  return fullNames.filter((fullName) => !terminating.has(fullName));
}

function orphanedFullNames(
  { staticStarts, records, runningUids }: HousekeepingInput,
  isDesired: (uid: string) => boolean,
): ReadonlyMap<string, string> {
  const released = new Map<string, string>();
  for (const [fullName, { startedUid }] of staticStarts) {
    if (startedUid === undefined) continue;
    const record = records.get(startedUid);
    const isGone = record === undefined ? !isDesired(startedUid) && !runningUids.has(startedUid) : record.finished === true;
    if (isGone) released.set(fullName, startedUid);
  }
  return released;
}
