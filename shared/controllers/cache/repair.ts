/**
 * Repairs rows that this deployment did not write (A14): reads their objects live and replaces exactly the forged text. The run that found
 * them decides nothing and is repeated afterwards.
 */
import type { Digester } from "@deltaloop/kube/pod-template";
import { MalformedObjectError, objectKey, splitKey } from "@deltaloop/kube/objects";
import type { View, ObjectKey } from "@deltaloop/kube/objects";
import type { KubeReader } from "@deltaloop/kube/client";
import type { Log } from "@deltaloop/base";
import type { Forged, Store, AnyTaken, Doorbells } from "@deltaloop/store/ports";
import { cachedAs, resourceOf } from "./cache-registry.ts";
import type { CacheRegistry } from "./cache-registry.ts";
import { prepareChanges, reportFaults } from "./prepare.ts";
import type { Change } from "./prepare.ts";
import { ring } from "./ring.ts";

export interface RepairPorts {
  readonly store: Pick<Store, "readIndex" | "writeThrough">;
  readonly reader: Pick<KubeReader, "get">;
  readonly doorbells: Doorbells;
  readonly registry: CacheRegistry;
  readonly digester: Digester;
  readonly log: Log;
}

/** Number of objects of one resource that one run reads live; the next run repairs the rest. */
const OBJECTS_MAX = 50;
/** Retries after concurrent writes. */
const ATTEMPTS_MAX = 3;
const NAMED_MAX = 10;

/**
 * `run` names the key that is enqueued after a repair; the caller need not hold it.
 * @throws {Error} if an object cannot be read, or the cache belongs to another epoch
 */
export async function repair(ports: RepairPorts, run: AnyTaken, forged: readonly Forged[]): Promise<void> {
  for (const [resource, all] of Map.groupBy(forged, (each) => each.resource)) {
    ports.log.error("MAC verification of cached rows failed; reading their objects live", {
      key: run.key,
      resource,
      count: all.length,
      rows: all
        .slice(0, NAMED_MAX)
        .map(({ key, where }) => `${where} ${key}`)
        .join(", "),
    });
    let left = [...Map.groupBy(all, (each) => each.key)].slice(0, OBJECTS_MAX);
    for (let attempt = 0; left.length > 0 && attempt < ATTEMPTS_MAX; attempt++)
      left = left.slice(await putBack(ports, run, resource, left));
  }
}

/** Replaces forged rows by the live objects. @returns the number of repaired rows */
async function putBack(
  ports: RepairPorts,
  run: AnyTaken,
  resource: View,
  left: readonly (readonly [ObjectKey, readonly Forged[]])[],
): Promise<number> {
  const live = (key: ObjectKey): Promise<Change> => readLive(ports, resource, key);
  const changes = await Promise.all(left.map(async ([key, forged]) => ({ ...(await live(key)), forged })));
  const named = changes.filter(({ key }) => isKey(key));
  const { items, counts, faults } = await prepareChanges(ports.store, ports.registry, resource, named, { live });
  reportFaults(ports.log, resource, faults);
  const strays = changes
    .filter(({ key }) => !isKey(key))
    .map(({ key, uid, rv, forged }) => ({ type: "delete" as const, key, uid, rv, forged, effects: [], counted: false, lowers: [] }));
  const result = await ports.store.writeThrough(run, {
    resource,
    items: [...items, ...strays],
    counts,
    ownerUid: "",
    lower: [],
    plan: [],
    gone: [],
    ownStatus: false,
  });
  if (result.kind === "otherEpoch") throw new Error("the cache belongs to another epoch");
  if (result.bells.length > 0) await ring(ports, result.bells);
  return result.kind === "ok" ? left.length : result.index;
}

/**
 * Returns a put of the live object. If the object does not exist or cannot be cached (AP1), returns a delete without a
 * resourceVersion, which only removes a row.
 */
export async function readLive(
  { reader, digester, registry }: Pick<RepairPorts, "reader" | "digester" | "registry">,
  resource: View,
  key: ObjectKey,
): Promise<Change> {
  const none: Change = { type: "delete", key, uid: "", rv: "0", object: undefined };
  if (!isKey(key)) return none;
  const { namespace, name } = splitKey(key);
  const live = await reader.get(resourceOf(registry, resource), namespace, name);
  if (live === undefined) return none;
  try {
    const object = cachedAs(registry, resource, live, digester);
    const { uid, resourceVersion } = "metadata" in object ? object.metadata : object;
    return { type: "put", key: objectKey(namespace, name), uid, rv: resourceVersion, object };
  } catch (error) {
    if (error instanceof MalformedObjectError) return none;
    throw error;
  }
}

function isKey(key: string): boolean {
  try {
    splitKey(key);
    return true;
  } catch {
    return false;
  }
}
