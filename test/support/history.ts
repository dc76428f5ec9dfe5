/**
 * The history of a namespace as a client of the API server sees it: every change of Deployments, ReplicaSets and pods,
 * ordered by resourceVersion, which is global in etcd. Bounds are checked on it afterwards, so no moment between two
 * polls is missed.
 */
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../shared/base/system/random.ts";
import { ListWatch } from "../../shared/kube/list-watch/list-watch.ts";
import type { Listener } from "../../shared/kube/list-watch/list-watch.ts";
import type { KubeWatch } from "../../shared/kube/client/kube.ts";

/** The fields that the checks read, of all three kinds. */
export interface Seen {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly deletionTimestamp?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly ownerReferences?: readonly { readonly uid: string; readonly name: string; readonly controller?: boolean }[];
  };
  readonly spec?: { readonly replicas?: number; readonly nodeName?: string };
  readonly status?: {
    readonly phase?: string;
    readonly replicas?: number;
    readonly updatedReplicas?: number;
    readonly conditions?: readonly { readonly type: string; readonly status: string; readonly reason?: string }[];
  };
}

export interface Change {
  readonly kind: "Deployment" | "ReplicaSet" | "Pod";
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly object: Seen;
  /** The resourceVersion. Changes that a list after a broken watch found share the highest resourceVersion of that list. */
  readonly revision: bigint;
  /** Found by a list after a broken watch: changes in between are unknown. */
  readonly afterBreak: boolean;
}

export interface History {
  /** In the order of the changes. */
  changes(): readonly Change[];
  stop(): Promise<void>;
}

const TYPES = { A: "ADDED", M: "MODIFIED", D: "DELETED" } as const;
const RESOURCES = { Deployment: "deployments", ReplicaSet: "replicasets", Pod: "pods" } as const;

/** Records one namespace, or all namespaces by default. Resolves when all three watches have listed. */
export async function recordHistory(kube: KubeWatch, namespace?: string): Promise<History> {
  const ending = new AbortController();
  const changes: Change[] = [];
  const [clock, random] = [createSystemClock(), createSystemRandom()];
  const watches = (["Deployment", "ReplicaSet", "Pod"] as const).map((kind) => {
    const known = new Map<string, Seen>();
    const add = (type: Change["type"], object: Seen, revision: bigint, afterBreak = false): void => {
      if (type === "DELETED") known.delete(object.metadata.uid);
      else if (known.get(object.metadata.uid)?.metadata.resourceVersion === object.metadata.resourceVersion) return;
      else known.set(object.metadata.uid, object);
      changes.push({ kind, type, object, revision, afterBreak });
    };
    const listed = Promise.withResolvers<undefined>();
    let lists = 0;
    const listener: Listener = {
      list() {
        const objects = new Map<string, Seen>();
        const keep = (object: Seen): void => void objects.set(object.metadata.uid, object);
        return {
          page: (items) => (items as readonly Seen[]).forEach(keep), // objects of the API server
          change: (type, object) => (type === "D" ? void objects.delete((object as Seen).metadata.uid) : keep(object as Seen)), // as above
          listed: () => replace([...objects.values()]),
        };
      },
      change: (type, object) => add(TYPES[type], object as Seen, revisionOf(object as Seen)), // as above
    };
    const replace = (objects: readonly Seen[]): void => {
      const revision = [...known.values(), ...objects].map(revisionOf).reduce((max, one) => (one > max ? one : max), 0n);
      const gone = [...known.values()].filter(({ metadata }) => !objects.some((object) => object.metadata.uid === metadata.uid));
      const afterBreak = lists++ > 0;
      for (const object of gone) add("DELETED", object, revision, afterBreak);
      for (const object of objects) add(known.has(object.metadata.uid) ? "MODIFIED" : "ADDED", object, revision, afterBreak);
      listed.resolve(undefined);
    };
    const followed = {
      kube,
      resource: RESOURCES[kind],
      ...(namespace !== undefined && { fieldSelector: `metadata.namespace=${namespace}` }),
      clock,
      random,
    };
    const ends = new ListWatch(followed, listener).run(ending.signal);
    return { listed: listed.promise, ends };
  });
  await Promise.all(watches.map(({ listed }) => listed));
  return {
    changes: () => changes.toSorted((a, b) => (a.revision < b.revision ? -1 : a.revision > b.revision ? 1 : 0)),
    async stop() {
      ending.abort();
      await Promise.all(watches.map(({ ends }) => ends));
    },
  };
}

function revisionOf({ metadata }: Seen): bigint {
  return BigInt(metadata.resourceVersion);
}

/** A moment of a rollout: sizes and pods after one change. */
export interface Moment {
  readonly change: Change;
  /** Sum of the ReplicaSets' `spec.replicas`. */
  readonly asked: number;
  /** Pods whose deletion was not requested. */
  readonly active: number;
  /** The number of active pods that are Ready. */
  readonly ready: number;
  /** Names of ReplicaSets that have more active pods than they ever desired: a surplus create. Empty after a broken watch. */
  readonly overshot: readonly string[];
  /** `live`: neither Succeeded nor Failed, including terminating pods. */
  readonly byReplicaSet: Readonly<Record<string, { readonly asked: number; readonly active: number; readonly live: number }>>;
}

/** Returns one moment per change of the Deployment's objects, from the first one on. */
export function momentsOf(changes: readonly Change[], deployment: string): readonly Moment[] {
  const sets = new Map<string, Seen>();
  const pods = new Map<string, Seen>();
  const askedMost = new Map<string, number>();
  const moments: Moment[] = [];
  let isWhole = true;
  for (const [index, change] of changes.entries()) {
    const { kind, type, object, revision } = change;
    isWhole &&= !change.afterBreak;
    if (kind === "Deployment" || (kind === "ReplicaSet" && ownerOf(object)?.name !== deployment)) continue;
    const objects = kind === "ReplicaSet" ? sets : pods;
    if (type === "DELETED") objects.delete(object.metadata.uid);
    else objects.set(object.metadata.uid, object);
    if (kind === "ReplicaSet")
      askedMost.set(object.metadata.name, Math.max(askedMost.get(object.metadata.name) ?? 0, object.spec?.replicas ?? 0));
    if (changes[index + 1]?.revision === revision) continue; // the rest of one list
    const rows = [...sets.values()].map((set) => {
      const own = [...pods.values()].filter((pod) => ownerOf(pod)?.uid === set.metadata.uid);
      const active = own.filter(isActive);
      return {
        name: set.metadata.name,
        asked: set.spec?.replicas ?? 0,
        live: own.filter(isLive).length,
        active: active.length,
        ready: active.filter(isReady).length,
      };
    });
    const sum = (of: (row: (typeof rows)[number]) => number): number => rows.reduce((total, row) => total + of(row), 0);
    moments.push({
      change,
      asked: sum(({ asked }) => asked),
      active: sum(({ active }) => active),
      ready: sum(({ ready }) => ready),
      overshot: rows.filter(({ name, active }) => isWhole && active > (askedMost.get(name) ?? 0)).map(({ name }) => name),
      byReplicaSet: Object.fromEntries(rows.map(({ name, asked, active, live }) => [name, { asked, active, live }])),
    });
  }
  return moments;
}

/** The maximum of `value` over all moments. */
export function most(moments: readonly Moment[], value: (moment: Moment) => number): number {
  return moments.reduce((max, moment) => Math.max(max, value(moment)), 0);
}

export function least(moments: readonly Moment[], value: (moment: Moment) => number): number {
  return moments.reduce((min, moment) => Math.min(min, value(moment)), Infinity);
}

/** The number of different pods ever seen of each ReplicaSet, by its name. */
export function podsCreated(changes: readonly Change[]): Readonly<Record<string, number>> {
  const uids = new Map<string, Set<string>>();
  for (const { kind, object } of changes) {
    const owner = kind === "Pod" ? ownerOf(object) : undefined;
    if (owner) uids.set(owner.name, (uids.get(owner.name) ?? new Set()).add(object.metadata.uid));
  }
  return Object.fromEntries([...uids].map(([name, set]) => [name, set.size]));
}

function ownerOf({ metadata }: Seen): { readonly uid: string; readonly name: string } | undefined {
  return metadata.ownerReferences?.find(({ controller }) => controller === true);
}

function isActive(pod: Seen): boolean {
  return pod.metadata.deletionTimestamp === undefined && isLive(pod);
}

function isLive({ status }: Seen): boolean {
  return status?.phase !== "Succeeded" && status?.phase !== "Failed";
}

function isReady({ status }: Seen): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true;
}
