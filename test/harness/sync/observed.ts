/** Shared by both sync harnesses: the controllers' handlers, and a Store whose calls are observed. */
import type { Controller } from "../../../shared/kube/objects/resources.ts";
import type { SyncHandler } from "../../../shared/controllers/kit/sync/session.ts";
import { syncDeployment } from "../../../shared/controllers/deployment/sync/sync.ts";
import type { Store } from "../../../shared/store/ports/store.ts";
import { syncReplicaSet } from "../../../shared/controllers/replicaset/sync.ts";
import { syncReplicationController } from "../../../shared/controllers/replication/sync.ts";

export const HANDLERS: { readonly [C in Controller]: SyncHandler } = {
  deployment: syncDeployment,
  replicaset: syncReplicaSet,
  replicationcontroller: syncReplicationController,
};

export interface Notes {
  readonly verb: (verb: string) => void;
  readonly rows?: (count: number) => void;
}

/** The Store; reports each verb, and how many rows it returns. */
export function observedStore(store: Store, notes: Notes): Store {
  return new Proxy(store, {
    get(target, verb: keyof Store) {
      const value: unknown = Reflect.get(target, verb);
      if (typeof value !== "function") return value;
      return async (...parameters: readonly unknown[]): Promise<unknown> => {
        notes.verb(verb);
        const answer: unknown = await Reflect.apply(value, target, parameters);
        notes.rows?.(rowsIn(answer));
        return answer;
      };
    },
  });
}

/**
 * A Store in which every unmarked owner counts as listed under this fence, so that its creates and deletes need no list (replicaset §18).
 */
export function withMarks(store: Store): Store {
  return {
    ...store,
    take: async (run, known) => {
      const result = await store.take(run, known);
      if (result.kind !== "ok" || result.snapshot.pods === undefined) return result;
      const { fence, suspects } = result.snapshot.pods;
      const mark = { kind: "listed", fence, suspects, version: "0", atMs: 0 } as const;
      return { ...result, snapshot: { mark, ...result.snapshot } };
    },
  };
}

/** Counts everything with a resourceVersion as a row. */
function rowsIn(answer: unknown): number {
  if (typeof answer !== "object" || answer === null) return 0;
  if ("rv" in answer) return 1;
  return Object.values(answer).reduce<number>((sum, each) => sum + rowsIn(each), 0);
}
