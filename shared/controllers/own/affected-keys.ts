/** The keys of a user controller that a change of one of its views affects. Nothing is filtered by sender or time. */
import { objectKey } from "@deltaloop/kube/objects";
import type { CachedObject, ObjectKey, OwnController } from "@deltaloop/kube/objects";
import type { Effect } from "@deltaloop/store/ports";
import type { AffectedKeys, Lookups } from "../cache/affected-keys.ts";
import { isChanged, ownFields } from "./project.ts";
import { mappedKey, ownerKey } from "./views.ts";
import type { OwnViewOf } from "./views.ts";

export function ownAffectedKeys(name: string, views: readonly [OwnViewOf, ...OwnViewOf[]]): AffectedKeys {
  const controller = name as OwnController; // `name` is a controller of the registry
  const [primary] = views;
  return (delta, lookups) => {
    const view = views.find((each) => each.name === delta.resource);
    if (view === undefined) return [];
    // the view determines the type of its objects
    const [before, after] = [delta.old as CachedObject | undefined, delta.new as CachedObject | undefined];
    if (before && after && !isChanged(before, after, view.role === "owned" || view.isMetadataOnly)) return [];
    const known = [before, after].flatMap((object) => (object === undefined || ownFields(object).isOut ? [] : [object]));
    // A cache that was lost does not say whether an object has left `where`, but its field manager does.
    const mayHaveLeft = view.role === "primary" && before === undefined && after !== undefined && ownFields(after).isManaged === true;
    if (known.length === 0 && !mayHaveLeft) return [];
    const effect = (key: ObjectKey, uid: string, self = false): Effect => ({ controller, key, uid, urgency: "act", self });
    if (view.role === "primary") {
      // A deleted primary costs no sync; one that left `where` has objects to prune.
      return after === undefined ? [] : [effect(keyOf(after), after.metadata.uid, true)];
    }
    const owned = known.flatMap((object) => (view.role === "owned" ? (ownerKey(primary.kind, object) ?? []) : []));
    const watched = view.watched === undefined ? [] : known.flatMap((object) => watching(view, primary, object, lookups));
    const effects = new Map([...owned, ...watched].map(({ key, uid }) => [`${key} ${uid}`, effect(key, uid)]));
    return [...effects.values()];
  };
}

function watching(
  view: OwnViewOf,
  primary: OwnViewOf,
  object: CachedObject,
  lookups: Lookups,
): readonly { readonly key: ObjectKey; readonly uid: string }[] {
  const mapped = view.watched && mappedKey(view.watched, primary.kind, object);
  if (mapped === undefined) return [];
  const namespace = mapped.by === "cluster" ? "" : mapped.key.slice(0, mapped.key.indexOf("/"));
  const found =
    mapped.by === "key"
      ? [lookups.get(primary.name, mapped.key) as CachedObject | undefined] // the view determines the type of its objects
      : (lookups.primaries(primary.name, namespace) as readonly CachedObject[]);
  return found.flatMap((each) => (each === undefined || ownFields(each).isOut ? [] : [{ key: keyOf(each), uid: each.metadata.uid }]));
}

function keyOf({ metadata: { namespace, name } }: CachedObject): ObjectKey {
  return objectKey(namespace, name);
}
