/** `decide`: one sync on a snapshot, without any server. */
import type { Controller } from "@deltaloop/sdk";
import type { VisibleObject } from "@deltaloop/sdk/context";
import { wantedBy } from "@deltaloop/sdk/writes";
import type { Decision, Given } from "./given.ts";
import { isOf, snapshotOf } from "./snapshot.ts";
import type { Whole } from "./snapshot.ts";
import { syncTwice } from "./twice.ts";

const NOW = new Date("2026-01-01T00:00:00Z");

/**
 * Runs the controller's `sync` on the given objects and returns its result. The sync sees what it would see in a cluster: the visible
 * fields of each object, with the schema's defaults. It runs twice, and both results must be equal.
 *
 *     const result = await decide(website, { object: { metadata: { name: "a" }, spec: { image: "nginx" } } });
 *     assert.deepEqual(result.status, { ready: 0 });
 *
 * @throws what `sync` throws
 * @throws {Error} if both runs differ, if an object cannot be in a snapshot of the controller, or if the result is one that deltaloop
 * refuses, such as an object without a name
 */
export async function decide<T>(controller: Controller<T>, given: Given<T>): Promise<Decision<T>> {
  // The types of `Given` are stricter than those of plain objects.
  const { object, owned = [], watched = [], live = [], now = NOW } = given as Given<unknown>;
  const { snapshot, whole } = snapshotOf(controller.definition, { object, owned, watched, live, now });
  const find = (kind: Parameters<typeof isOf>[0], name: string, namespace: string): Whole | undefined =>
    whole.find(
      (each) => isOf(kind, each) && each.metadata.name === name && (kind.scope === "Cluster" || each.metadata.namespace === namespace),
    );
  const result = await syncTwice(controller, snapshot, {
    now,
    log: { info: () => undefined },
    live: (kind, name, namespace) => Promise.resolve(find(kind, name, namespace)),
  });
  const {
    name,
    namespace = "",
    uid = "",
    resourceVersion = "",
    generation = 0,
  } = snapshot.object.metadata as Required<VisibleObject>["metadata"];
  const checked = wantedBy(controller.definition, { name, namespace, uid, resourceVersion, generation }, result);
  if ("problems" in checked) throw new Error(`${controller.name}: ${checked.problems.join("; ")}`);
  return result as Decision<T>; // its types describe what it returns
}
