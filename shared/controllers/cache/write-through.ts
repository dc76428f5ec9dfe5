/**
 * Writes responses to own writes, and live reads, into the cache at once (informer §13 layer 2): the next sync sees them, and the same step
 * queues their affected keys, long before the stream delivers them.
 */
import type { Digester } from "@deltaloop/kube/pod-template";
import type { Cached, CachedResource, View, ObjectKey } from "@deltaloop/kube/objects";
import { objectKey } from "@deltaloop/kube/objects";
import type { Doorbell, Doorbells, DoneResult, ItemChange, Outcome, Store, AnyTaken, WriteThrough } from "@deltaloop/store/ports";
import type { KubeReader } from "@deltaloop/kube/client";
import type { Log } from "@deltaloop/base";
import { cachedAs } from "./cache-registry.ts";
import type { CacheRegistry } from "./cache-registry.ts";
import { prepareChanges, reportFaults } from "./prepare.ts";
import type { Change, KnownRows } from "./prepare.ts";
import { readLive } from "./repair.ts";
import { ring } from "./ring.ts";

export interface WriteThroughPorts {
  readonly store: Pick<Store, "readIndex" | "writeThrough">;
  readonly doorbells: Doorbells;
  readonly registry: CacheRegistry;
  readonly digester: Digester;
  /** Reads objects whose cached values have an invalid MAC (A14). */
  readonly reader: Pick<KubeReader, "get">;
  readonly log: Log;
}

export interface Answers<R extends View = CachedResource> {
  readonly resource: R;
  /** Whole objects as the API server sent them. */
  readonly objects: readonly unknown[];
  /** uid of the run's primary; its intents are settled. */
  readonly ownerUid: string;
  /** Rows the run has read, so that the usual case needs no further read; `undefined` = known to be absent. */
  readonly known?: KnownRows;
  readonly lower?: readonly string[];
  readonly plan?: WriteThrough["plan"];
  readonly hold?: WriteThrough["hold"];
  readonly gone?: WriteThrough["gone"];
  readonly marks?: WriteThrough["marks"];
  readonly records?: WriteThrough["records"];
  readonly ownStatus?: boolean;
  readonly left?: number;
  /** Returns the outcome with which the same step ends the run (WQ8), from the objects as they will be cached. Called once. */
  readonly ends?: (objects: readonly Cached<R>[]) => Outcome;
}

export interface Written<R extends View> {
  /** The objects as they are now cached, in the order of the input. */
  readonly objects: readonly Cached<R>[];
  /** The result of ending the run with `ends`. */
  readonly done?: DoneResult;
}

/** Attempts while rows keep changing; after that the objects arrive with the stream. */
const ATTEMPTS_MAX = 5;

/**
 * Writes the objects through.
 *
 * @throws {Error} when the cache changed during every attempt, or belongs to another epoch; the sync is then retried
 */
export async function writeThrough<R extends View>(ports: WriteThroughPorts, run: AnyTaken, answers: Answers<R>): Promise<Written<R>> {
  // The resource determines the type of its objects, which TypeScript cannot infer here.
  const objects = answers.objects.map((object) => cachedAs(ports.registry, answers.resource, object, ports.digester) as Cached<R>);
  let changes = objects.map((object) => putOf(object as Cached<View>));
  let known = answers.known;
  const ops = { lower: answers.lower ?? [], plan: answers.plan ?? [], hold: answers.hold ?? [], gone: answers.gone ?? [] };
  const ends = answers.ends?.(objects);
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const { items, counts, faults } = await prepareChanges(ports.store, ports.registry, answers.resource, changes, {
      ...(known && { known: onlyOf(known, changes) }),
      live: (key) => readLive(ports, answers.resource, key),
    });
    reportFaults(ports.log, answers.resource, faults);
    const answer = ports.store.writeThrough(run, {
      resource: answers.resource,
      items,
      counts,
      ...ops,
      ...(answers.marks && answers.marks.length > 0 && { marks: answers.marks }),
      ...(answers.records && { records: answers.records }),
      ownerUid: answers.ownerUid,
      ownStatus: answers.ownStatus ?? false,
      ...(answers.left !== undefined && { left: answers.left }),
      ...(ends && { ends }),
    });
    // No other command may be sent on this connection between `expect` and the call.
    const doorbells = ports.doorbells.expect?.(dueBy(run, items)) ?? ports.doorbells;
    const result = await answer;
    if (result.kind === "otherEpoch") throw new Error("the cache belongs to another epoch");
    if (result.bells.length > 0) await ring({ ...ports, doorbells }, result.bells);
    if (result.kind === "ok") return { objects, ...(result.done && { done: result.done }) };
    changes = changes.slice(result.index);
    known = undefined;
  }
  throw new Error(`gave up writing ${run.key} through after ${ATTEMPTS_MAX} attempts: the cache of ${answers.resource} kept changing`);
}

/** Doorbells of the primaries among the items that may be due at once, as the Store will have them after this call. */
function dueBy({ epoch, controller: own, key: ownKey }: AnyTaken, items: readonly ItemChange[]): readonly Doorbell[] {
  return items.flatMap(({ effects, uid, owner }) =>
    effects
      .filter(({ self, urgency, controller, key }) => self && urgency === "act" && !(controller === own && key === ownKey))
      .map(({ controller, key }) => ({ controller, key, uid, ...(owner !== undefined && { owner }), epoch, delayMs: 0 })),
  );
}

function putOf(object: Cached<View>): Change {
  const { namespace, name, uid, resourceVersion } = "metadata" in object ? object.metadata : object;
  return { type: "put", key: objectKey(namespace, name), uid, rv: resourceVersion, object };
}

function onlyOf(known: KnownRows, changes: readonly Change[]): KnownRows {
  const keys = new Set<ObjectKey>(changes.map((change) => change.key));
  return new Map([...known].filter(([key]) => keys.has(key)));
}
