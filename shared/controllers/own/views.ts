/** The views of a user controller, from its definition. */
import { hash } from "node:crypto";
import { controllerRef, mappedSlice, objectKey, podOwnerId } from "@deltaloop/kube/objects";
import type { CachedObject, ObjectKey, OwnController, OwnerId, OwnView, SliceInfo } from "@deltaloop/kube/objects";
import { viewName } from "@deltaloop/kube/strip";
import type { ViewDefinition } from "@deltaloop/kube/strip";
import { isMetadataOnly } from "@deltaloop/sdk/definitions";
import type { Definition, KindData, Mask, WatchedData } from "@deltaloop/sdk/definitions";
import { managerOf } from "@deltaloop/sdk/writes";
import { isOwnedBy, isSelected, ownFields, projection } from "./project.ts";
import { resourceOfKind } from "./resources.ts";
import { ROW_FORMAT } from "./row-texts.ts";

/** One view, and its role for its controller. */
export interface OwnViewOf extends ViewDefinition {
  readonly kind: KindData;
  readonly role: "primary" | "owned" | "watched";
  readonly by?: SliceInfo["by"];
  readonly watched?: WatchedData;
}

/** The primary's view first. */
export function viewsOf(definition: Definition): readonly [OwnViewOf, ...OwnViewOf[]] {
  const { primary, see, where, annotations, owns, watches } = definition;
  const controller = definition.name as OwnController; // the registry names it
  const manager = managerOf(definition.name);
  const make = (
    kind: KindData,
    role: OwnViewOf["role"],
    mask: Mask,
    shown: readonly string[],
    isIn: Parameters<typeof projection>[0]["isIn"],
    rest: Pick<OwnViewOf, "by" | "watched" | "slice">,
    place: unknown,
  ): OwnViewOf => {
    const identity = [ROW_FORMAT, role, kind.crd ? { ...kind, crd: true } : kind, mask, shown, rest.by, place];
    const name: OwnView = viewName(resourceOfKind(kind), controller, nameHash(JSON.stringify(identity)));
    const project = projection({ view: name, kind, see: mask, annotations: shown, manager, isWritten: role !== "watched", isIn });
    return { name, resource: resourceOfKind(kind), isMetadataOnly: isMetadataOnly(kind), project, kind, role, ...rest };
  };
  // Stores list the primaries by namespace from the first row on, so a view that starts to be listed is another view.
  const isListed = watches.some((watched) => sliceBy(watched) !== "key");
  return [
    {
      ...make(primary, "primary", see, annotations, isSelected(definition), {}, isListed ? [where, "listed"] : where),
      isOutside: (object) => ownFields(object).isOut === true,
    },
    ...owns.map(({ kind, see: mask }) =>
      make(kind, "owned", mask, [], isOwnedBy(primary), { by: "owner", slice: (object) => ownerOf(primary, object) }, [
        primary.group,
        primary.kind,
      ]),
    ),
    ...watches.map((watched) => {
      const { kind, see: mask, by, place } = watched;
      const shown = "annotation" in by ? [by.annotation] : [];
      const isIn: Parameters<typeof projection>[0]["isIn"] = ({ metadata: { name, namespace } }) =>
        place === undefined || (place.namespace === namespace && (place.name === undefined || place.name === name));
      const slice = (object: CachedObject): OwnerId | undefined => {
        const mapped = mappedKey(watched, primary, object);
        return mapped && mappedSlice(mapped.by, mapped.key);
      };
      return make(kind, "watched", mask, shown, isIn, { by: sliceBy(watched), watched, slice }, [by, place]);
    }),
  ];
}

/** Returns a hash of letters and digits only, because it becomes part of a view's name. */
function nameHash(text: string): string {
  return hash("sha256", text, "hex").slice(0, 12);
}

function ownerOf({ scope }: KindData, object: CachedObject): OwnerId | undefined {
  const reference = controllerRef(object.metadata);
  return reference && podOwnerId(scope === "Cluster" ? "" : object.metadata.namespace, reference);
}

/** The key of the owned object's primary, if its reference can be one. */
export function ownerKey({ scope }: KindData, object: CachedObject): { readonly key: ObjectKey; readonly uid: string } | undefined {
  const reference = controllerRef(object.metadata);
  if (reference === undefined || reference.name === "" || reference.name.includes("/")) return undefined;
  return { key: objectKey(scope === "Cluster" ? "" : object.metadata.namespace, reference.name), uid: reference.uid };
}

function sliceBy({ by }: WatchedData): "key" | "namespace" | "cluster" {
  if ("all" in by) return by.all;
  return "namespace" in by ? "namespace" : "key";
}

/** The primary, or the namespace or cluster of primaries, to which a watched object is mapped. */
export function mappedKey(
  { by }: WatchedData,
  { scope }: KindData,
  { metadata }: CachedObject,
): { readonly by: "key" | "namespace" | "cluster"; readonly key: ObjectKey } | undefined {
  const { namespace, name, labels } = metadata;
  const primaryNamespace = scope === "Cluster" ? "" : namespace;
  const named = (value: string | undefined): ReturnType<typeof mappedKey> =>
    value === undefined || value === "" || value.includes("/") ? undefined : { by: "key", key: objectKey(primaryNamespace, value) };
  if ("label" in by) return named(labels?.[by.label]);
  if ("annotation" in by) return named(metadata.annotations?.[by.annotation]);
  if ("name" in by) return named(name);
  if ("namespace" in by) return { by: "namespace", key: objectKey(name, "-") };
  return by.all === "cluster" ? { by: "cluster", key: "/-" } : { by: "namespace", key: objectKey(namespace, "-") };
}
