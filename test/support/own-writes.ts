/**
 * Our functions' writes in a real cluster, from its audit log, and the decisions of a replay of the capture, as the same data, so that they
 * can be compared write by write. Creates are compared by name and template digest; pod names are random, so pods are compared by number. A
 * replay repeats a decision until the stream contains its effect. So for each owner, only the maximum number of desired pods counts, and
 * for each size, only the deletes that the first sync chooses.
 */
import type { Digester } from "../../shared/kube/pod-template/digest.ts";
import { controllerRef } from "../../shared/kube/objects/owner-references.ts";
import type { ObjectMeta, PodTemplateSpec } from "../../shared/kube/objects/wire.ts";
import type { Reason } from "../../shared/controllers/kit/reason.ts";
import type { ReplayedSync } from "../../shared/replay/engine/sync-log.ts";

/** A write of the audit log, with its body. */
export interface WriteEvent {
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly objectRef?: { readonly resource?: string; readonly subresource?: string; readonly namespace?: string; readonly name?: string };
  readonly responseStatus?: { readonly code?: number };
  readonly requestObject?: {
    readonly metadata?: ObjectMeta;
    readonly spec?: { readonly replicas?: number; readonly template?: PodTemplateSpec };
  };
}

export interface Writes {
  /** Name, template digest and size of each ReplicaSet: `shop/web-1 DIGEST 2`. */
  readonly replicaSets: readonly string[];
  /** The sizes of each ReplicaSet, in order. */
  readonly sizes: ReadonlyMap<string, readonly number[]>;
  /** Number of pods that `shop/web-1 DIGEST` created. */
  readonly pods: ReadonlyMap<string, number>;
  /** Names of deleted pods: `shop/web-1-x2x4z`. */
  readonly deleted: readonly string[];
}

/** Returns the writes by one of `users` that the API server accepted. */
export function writesMade(events: readonly WriteEvent[], users: RegExp, digester: Digester): Writes {
  const made = {
    replicaSets: [] as string[],
    sizes: new Map<string, number[]>(),
    pods: new Map<string, number>(),
    deleted: [] as string[],
  };
  for (const { verb, user, objectRef = {}, responseStatus, requestObject } of events) {
    if (!users.test(user.username) || (responseStatus?.code ?? 0) >= 300 || (objectRef.subresource ?? "") !== "") continue;
    const { namespace = "", resource } = objectRef;
    const key = `${namespace}/${objectRef.name ?? requestObject?.metadata?.name ?? ""}`;
    const spec = requestObject?.spec;
    if (resource === "replicasets" && verb === "create" && spec?.template !== undefined)
      made.replicaSets.push(`${key} ${digester.digest(spec.template)} ${spec.replicas}`);
    if (resource === "replicasets" && verb === "patch" && spec?.replicas !== undefined) push(made.sizes, key, spec.replicas);
    if (resource === "pods" && verb === "delete") made.deleted.push(key);
    if (resource === "pods" && verb === "create" && requestObject?.metadata !== undefined) {
      const { labels, annotations } = requestObject.metadata;
      // The logged request contains a pod with its defaults; the template has no such defaults.
      const template = {
        metadata: { labels, annotations },
        spec: { ...spec, enableServiceLinks: undefined },
      } as unknown as PodTemplateSpec; // the template of a pod
      const owner = `${namespace}/${controllerRef(requestObject.metadata)?.name} ${digester.digest(template)}`;
      made.pods.set(owner, (made.pods.get(owner) ?? 0) + 1);
    }
  }
  return sorted(made);
}

export function writesReplayed(syncs: readonly ReplayedSync[]): Writes {
  const replicaSets = new Set<string>();
  const sizes = new Map<string, number[]>();
  const pods = new Map<string, number>();
  const deleted = new Set<string>();
  const chosen = new Map<string, number>();
  for (const { lines } of syncs) {
    const reasons = lines.flatMap((line) => (line.kind === "reason" ? [line.reason] : []));
    for (const line of lines) {
      if (line.kind !== "decided") continue;
      const { write } = line;
      const { namespace } = write.owner;
      switch (write.kind) {
        case "CreateReplicaSet":
          replicaSets.add(`${namespace}/${write.name} ${write.template.digest} ${write.replicas}`);
          break;
        case "PatchReplicaSet":
          if (write.replicas !== undefined && sizes.get(`${namespace}/${write.name}`)?.at(-1) !== write.replicas)
            push(sizes, `${namespace}/${write.name}`, write.replicas);
          break;
        case "CreatePods": {
          const owner = `${namespace}/${write.owner.name} ${write.template.digest}`;
          pods.set(owner, Math.max(pods.get(owner) ?? 0, write.count + numberIn(reasons, "too few", "pods")));
          break;
        }
        case "DeletePod": {
          const size = `${namespace}/${write.owner.name} ${write.size.generation}`;
          const most = chosen.get(size) ?? numberIn(reasons, "too many", "remove");
          chosen.set(size, most);
          if (numberIn(reasons, "too many", "remove") === most) deleted.add(`${namespace}/${write.name}`);
          break;
        }
        default:
          break;
      }
    }
  }
  return sorted({ replicaSets: [...replicaSets], sizes, pods, deleted: [...deleted] });
}

function sorted({ replicaSets, sizes, pods, deleted }: Writes): Writes {
  const byKey = <T>(map: ReadonlyMap<string, T>): ReadonlyMap<string, T> => new Map([...map].toSorted(([a], [b]) => (a < b ? -1 : 1)));
  return { replicaSets: replicaSets.toSorted(), sizes: byKey(sizes), pods: byKey(pods), deleted: deleted.toSorted() };
}

function numberIn(reasons: readonly Reason[], rule: string, fact: string): number {
  const value = reasons.find((reason) => reason.rule === rule)?.facts[fact];
  return typeof value === "number" ? value : 0;
}

function push(map: Map<string, number[]>, key: string, value: number): void {
  map.set(key, [...(map.get(key) ?? []), value]);
}
