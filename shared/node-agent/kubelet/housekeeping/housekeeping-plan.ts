/**
 * What housekeeping does about pods, once `syncKnownPods` has been applied (node-agent §3.2, steps 4 to 12; §18.4's work queue). Only to be called when all sources are ready: before that, nobody knows what is not desired.
 */
import type { StaticStart, WorkerRecord } from "../../ports/node-store.ts";
import { workerState } from "../pod-workers/pod-worker.ts";

/**
 * Keys are UIDs unless it says otherwise. To be read in this order, so that a pod that comes meanwhile is not taken for one that is
 * gone: what may be left over (control groups, directories, statuses, probes, mirrors), `desired`, what runs, `records`.
 */
export interface HousekeepingInput {
  /** Mirror pods too. */
  readonly desired: ReadonlyMap<string, DesiredPod>;
  /** What `syncKnownPods` has left. */
  readonly records: ReadonlyMap<string, WorkerRecord>;
  /** Of the runtime. */
  readonly runningUids: ReadonlySet<string>;
  readonly directories: readonly string[];
  /** Pods that have a control group. */
  readonly cgroups: readonly string[];
  /** Pods that have something mounted; left out by a host whose removal of a directory unmounts first (NodeFiles NF4). */
  readonly mountedUids?: ReadonlySet<string>;
  readonly cachedStatusUids: readonly string[];
  /** Pods with probe records. */
  readonly probedUids: readonly string[];
  /** Full names. */
  readonly orphanMirrors: readonly string[];
  /** By full name. */
  readonly staticStarts: ReadonlyMap<string, StaticStart>;
  /** Pods with an entry in the work queue. */
  readonly due: ReadonlySet<string>;
}

export interface DesiredPod {
  readonly fullName: string;
  readonly isStatic: boolean;
  readonly isMirror: boolean;
  readonly deletionTimestamp?: true;
  /** To the API server, or in the cached status. */
  readonly phaseIsTerminal: boolean;
}

export interface HousekeepingPlan {
  /** Worker update `create`. */
  readonly create: readonly string[];
  /** Worker update `kill` of a desired pod that the agent rejected: lets it be finalised. */
  readonly kill: readonly string[];
  /** Worker update `kill`, runtime only, grace 1 s. */
  readonly killRuntimeOnly: readonly string[];
  readonly stopProbes: readonly string[];
  readonly dropStatuses: readonly string[];
  readonly removeDirectories: readonly string[];
  /** What still runs in them is ended. */
  readonly removeCgroups: readonly string[];
  /** Their pods have volumes still, whose memory would be charged to nobody. */
  readonly reduceCgroups: readonly string[];
  /** Full names. */
  readonly deleteMirrors: readonly string[];
  /** Full names, each with the UID that holds it and lives no more: `releaseFullName`. */
  readonly releaseFullNames: ReadonlyMap<string, string>;
  /**
   * Desired pods that nothing would wake again. One whose turn is in progress is among them; put all of them some back-off
   * (`requeueDelayMs` of an error) ahead, and the end of that turn replaces the entry.
   */
  readonly schedule: readonly string[];
}

/**
 * Source: pkg/kubelet/kubelet_pods.go HandlePodCleanups, filterOutInactivePods, filterTerminalPodsToDelete, cleanupOrphanedPodDirs,
 * cleanupOrphanedPodCgroups.
 * Differs from upstream, where no record is ever lost: a desired pod of terminal phase that still runs gets its worker back, and is
 * stopped with its spec's grace and hooks instead of as an orphan; a full name whose holder's record is gone is released. And a
 * directory also stays while its pod's worker is not done, which may be about to read the termination message, and then takes it
 * away itself.
 */
export function housekeepingPlan(input: HousekeepingInput): HousekeepingPlan {
  const { desired, records, runningUids, mountedUids, due } = input;
  const pods = [...desired].filter(([, { isMirror }]) => !isMirror);
  const isDesired = (uid: string): boolean => desired.get(uid)?.isMirror === false;
  const isOver = (uid: string): boolean => {
    const record = records.get(uid);
    return record === undefined || workerState(record) === "terminated";
  };

  // Until then its own worker takes away what it has mounted, and two at one volume are in each other's way.
  const isDone = (uid: string): boolean => !records.has(uid) || records.get(uid)?.finished === true;

  // A worker that terminates has its group still, and takes it away itself.
  const withoutNeed = input.cgroups.filter((uid) => isOver(uid) && !runningUids.has(uid));

  const unknown = pods.filter(([uid]) => !records.has(uid));
  const create = unknown.filter(([uid, pod]) => !pod.phaseIsTerminal || runningUids.has(uid)).map(([uid]) => uid);
  const created = new Set(create);
  const rejected = unknown.filter(([uid, pod]) => pod.deletionTimestamp && !created.has(uid));
  const isAwaited = (uid: string): boolean => created.has(uid) || (records.has(uid) && !records.get(uid)?.finished);

  return {
    create,
    kill: rejected.map(([uid]) => uid),
    killRuntimeOnly: [...runningUids].filter((uid) => !records.has(uid) && !isDesired(uid)),
    stopProbes: input.probedUids.filter(isOver),
    dropStatuses: input.cachedStatusUids.filter((uid) => !desired.has(uid)),
    removeDirectories: input.directories.filter((uid) => !isDesired(uid) && isDone(uid) && !runningUids.has(uid) && !mountedUids?.has(uid)),
    removeCgroups: withoutNeed.filter((uid) => !created.has(uid) && !input.directories.includes(uid)),
    reduceCgroups: withoutNeed.filter((uid) => !created.has(uid) && input.directories.includes(uid)),
    deleteMirrors: withoutTerminating(input.orphanMirrors, records),
    releaseFullNames: heldByNobody(input, isDesired),
    schedule: pods.map(([uid]) => uid).filter((uid) => !due.has(uid) && isAwaited(uid)),
  };
}

/**
 * Whether the runtime has to be asked what runs (`input.runningUids` is what the last relist saw): there is something to be taken away
 * that must not run, or a pod to be judged by whether it does, or something runs that nobody knows. Else the plan is the same whatever
 * has begun or ended since; what somebody else has begun, the next relist sees.
 */
export function dependsOnWhatRuns(input: HousekeepingInput): boolean {
  const ifNothingRan = housekeepingPlan({ ...input, runningUids: new Set() });
  const { removeDirectories, removeCgroups, reduceCgroups, releaseFullNames } = ifNothingRan;
  const ofGone = removeDirectories.length + removeCgroups.length + reduceCgroups.length + releaseFullNames.size;
  const isUnknown = [...input.desired].some(([uid, { isMirror }]) => !isMirror && !input.records.has(uid));
  return ofGone > 0 || isUnknown || housekeepingPlan(input).killRuntimeOnly.length > 0;
}

/** A mirror stays as long as its static pod terminates, so that its status can be seen. */
function withoutTerminating(fullNames: readonly string[], records: ReadonlyMap<string, WorkerRecord>): readonly string[] {
  const terminating = new Set<string>();
  for (const record of records.values()) if (record.isStatic && workerState(record) === "terminating") terminating.add(record.fullName);
  return fullNames.filter((fullName) => !terminating.has(fullName));
}

function heldByNobody(
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
