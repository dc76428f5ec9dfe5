/** Controllers and views by name, as plain data: the part of a registry that Stores, watcher and applier need. */
import { mappedSlice, podOwnerId, primaryAsOwner } from "./owner-id.ts";
import type { OwnerId } from "./owner-id.ts";
import { CACHED_RESOURCES, CONTROLLER_INFO, CONTROLLERS, isBuiltIn, RESOURCES, splitKey } from "./resources.ts";
import type { ControllerInfo, ControllerName, ObjectKey, View } from "./resources.ts";

export interface Catalog {
  /** The controllers, in the order in which their affected keys are computed. */
  readonly controllers: readonly ControllerName[];
  /** The distinct views, in the order in which they are listed at start. */
  readonly views: readonly View[];
  readonly entries: ReadonlyMap<ControllerName, CatalogEntry>;
  /** How a Store that keeps text shortens what user controllers store. Default: not at all. */
  readonly rowTexts?: RowTexts;
}

/** Short forms of texts without control characters: uids, and JSON without whitespace. `restore(shorten(text))` is `text`. None has 0x1F. */
export interface RowTexts {
  shorten(json: string): string;
  restore(text: string): string;
}

export interface CatalogEntry extends ControllerInfo {
  readonly name: ControllerName;
  /** The primary's kind, which its dependents' owner references name. */
  readonly kind: string;
}

/** @throws {RangeError} if two controllers have the same name */
export function catalogOf(all: readonly CatalogEntry[], rowTexts?: RowTexts): Catalog {
  const entries = new Map(
    all.map(({ name, kind, primary, dependents, slices, reads }): readonly [ControllerName, CatalogEntry] => [
      name,
      { name, kind, primary, ...(dependents !== undefined && { dependents }), ...(slices && { slices }), reads },
    ]),
  );
  if (entries.size < all.length) throw new RangeError("two controllers have the same name");
  const read = new Set<View>(all.flatMap(({ reads }) => reads));
  const core = CACHED_RESOURCES.filter((resource) => read.has(resource));
  return { controllers: [...entries.keys()], views: [...new Set<View>([...core, ...read])], entries, ...(rowTexts && { rowTexts }) };
}

/** @throws {RangeError} for a controller that the catalog lacks: a bug of the caller */
export function infoIn({ entries }: Catalog, controller: ControllerName): CatalogEntry {
  const entry = entries.get(controller);
  if (!entry) throw new RangeError(`no controller ${controller}`);
  return entry;
}

/** The controller whose primaries the view holds, if any. */
export function controllerIn({ entries }: Catalog, view: View): ControllerName | undefined {
  for (const { name, primary } of entries.values()) if (primary === view) return name;
  return undefined;
}

/**
 * Whether a Store lists the primaries of a namespace for look-ups: those of a user controller only if one of its slices is by
 * namespace or cluster.
 */
export function listsPrimaries(catalog: Catalog, controller: ControllerName): boolean {
  return isBuiltIn(controller) || (infoIn(catalog, controller).slices ?? []).some(({ by }) => by === "namespace" || by === "cluster");
}

/**
 * Returns the controller whose primaries the view holds, for a look-up of those of a namespace.
 * @throws {RangeError} if the Store does not list them, so that the look-up would find none: a bug of the caller
 */
export function checkListed(catalog: Catalog, view: View): ControllerName {
  const controller = controllerIn(catalog, view);
  if (controller === undefined) throw new RangeError(`${view} is not the primary resource of any controller`);
  if (listsPrimaries(catalog, controller)) return controller;
  const { kind } = infoIn(catalog, controller);
  throw new RangeError(
    `the primaries of ${controller} (${kind}, view ${view}) are not listed by namespace: it has no slice by namespace or cluster`,
  );
}

/** The owner id of a primary, which keys its dependents' slice and its intents. */
export function ownerIdIn(catalog: Catalog, controller: ControllerName, key: ObjectKey, uid: string): OwnerId {
  if (isBuiltIn(controller)) return primaryAsOwner(controller, key, uid);
  const { namespace, name } = splitKey(key);
  return podOwnerId(namespace, { kind: infoIn(catalog, controller).kind, name, uid });
}

/** Returns the names of the slices that a snapshot of the key has in addition to its dependents. */
export function slicesIn(
  catalog: Catalog,
  controller: ControllerName,
  key: ObjectKey,
  uid: string,
): readonly { readonly view: View; readonly slice: OwnerId }[] {
  return (infoIn(catalog, controller).slices ?? []).map(({ view, by }) => ({
    view,
    slice: by === "owner" ? ownerIdIn(catalog, controller, key, uid) : mappedSlice(by, key),
  }));
}

/** Returns the slices of the objects that a primary owns. */
export function ownedSlices(catalog: Catalog, controller: ControllerName, key: ObjectKey, uid: string): ReturnType<typeof slicesIn> {
  const slice = ownerIdIn(catalog, controller, key, uid);
  return (infoIn(catalog, controller).slices ?? []).flatMap(({ view, by }) => (by === "owner" ? [{ view, slice }] : []));
}

/** The built-in controllers. */
export const BUILT_IN: Catalog = catalogOf(
  CONTROLLERS.map((name) => ({ name, ...CONTROLLER_INFO[name], kind: RESOURCES[CONTROLLER_INFO[name].primary].kind })),
);
