/** Builds the input of a user controller's sync, and the data for its decision, from the run's snapshot. */
import { objectKey } from "@deltaloop/kube/objects";
import type { CachedObject, ObjectKey } from "@deltaloop/kube/objects";
import type { Digester } from "@deltaloop/kube/pod-template";
import type { Row, Snapshot as StoreSnapshot } from "@deltaloop/store/ports";
import type { Snapshot, VisibleObject } from "@deltaloop/sdk/context";
import { apiVersionOf } from "@deltaloop/sdk/definitions";
import type { KindData } from "@deltaloop/sdk/definitions";
import { idText } from "@deltaloop/sdk/writes";
import type { CachedOwned, ObjectId, Observed } from "@deltaloop/sdk/writes";
import { isMine, ownFields, visibleOf } from "./project.ts";
import type { OwnControllerEntry } from "./registry.ts";
import type { OwnViewOf } from "./views.ts";

export interface OwnObserved extends Observed {
  /** Rows of owned objects by `idText`. */
  readonly rows: ReadonlyMap<string, Row>;
}

/** @param row of the primary */
export function observe({ views, definition }: OwnControllerEntry, row: Row, { slices, records = new Map() }: StoreSnapshot): OwnObserved {
  const { metadata } = cachedOf(row);
  const { namespace, name, uid, resourceVersion, generation = 0 } = metadata;
  const own = ownFields(cachedOf(row));
  const rows = new Map<string, Row>();
  const owned = views.flatMap((view) =>
    view.role === "owned"
      ? existing(slices?.get(view.name)).flatMap((each): readonly CachedOwned[] => {
          if (!isMine(definition.primary, metadata, cachedOf(each))) return [];
          const fields = ownFields(cachedOf(each));
          const id = idOf(view.kind, each.key);
          rows.set(idText(id), each);
          const { deletionTimestamp } = cachedOf(each).metadata;
          return [
            {
              ...{ id, uid: each.uid, resourceVersion: each.rv, content: fields.content ?? "" },
              ...{ isManaged: fields.isManaged === true, isDeleting: deletionTimestamp !== undefined },
            },
          ];
        })
      : [],
  );
  return {
    primary: { name, namespace, uid, resourceVersion, generation },
    content: own.content ?? "",
    statusContent: own.status ?? "",
    isManaged: own.isManaged === true,
    owned,
    records,
    rows,
  };
}

/** Objects that a delete has ended are no longer shown. */
function existing(rows: readonly Row[] = []): readonly Row[] {
  return rows.filter(({ gone }) => !gone);
}

export function snapshotOf({ views }: OwnControllerEntry, row: Row, { slices }: StoreSnapshot): Snapshot {
  const of = (role: OwnViewOf["role"]): readonly VisibleObject[] =>
    views.flatMap((view) =>
      view.role === role
        ? existing(slices?.get(view.name)).flatMap((each) => (ownFields(cachedOf(each)).isOut ? [] : [shown(view.kind, cachedOf(each))]))
        : [],
    );
  return { object: shown(views[0].kind, cachedOf(row)), owned: of("owned"), watched: of("watched") };
}

/** The object as a sync sees it through a view; undefined if the object does not concern this controller (PJ2). */
export function seenThrough(view: OwnViewOf, object: unknown, digester: Digester): VisibleObject | undefined {
  const cached = view.project(object, digester) as CachedObject; // a view of this module
  return ownFields(cached).isOut ? undefined : shown(view.kind, cached);
}

function shown(kind: KindData, object: CachedObject): VisibleObject {
  // Conditions of a snapshot are readonly lists, as metadata is a readonly record.
  return { apiVersion: apiVersionOf(kind), kind: kind.kind, ...visibleOf(object) } as unknown as VisibleObject;
}

export function cachedOf({ object }: Row): CachedObject {
  return object as CachedObject; // a row of a view of this module
}

export function idOf(kind: KindData, key: ObjectKey): ObjectId {
  const slash = key.indexOf("/");
  return { kind, namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

export function keyOfId({ namespace, name }: Pick<ObjectId, "namespace" | "name">): ObjectKey {
  return objectKey(namespace, name);
}
