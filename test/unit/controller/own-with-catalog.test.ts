/** The data that the memory Store keeps when the definitions of user controllers change. */
import { expect, it } from "vitest";
import { ownControllers, registryOf } from "../../../shared/controllers/own.ts";
import { cacheOf } from "../../../shared/controllers/registry.ts";
import type { ControllerName, ObjectKey } from "../../../shared/kube/objects.ts";
import { defineController } from "../../../shared/sdk/index.ts";
import { ConfigMap, Secret, Service } from "../../../shared/sdk/kinds.ts";
import { createMemoryData, newEpoch, withCatalog } from "../../../shared/store/memory/store/data.ts";

const NAME = "c" as ControllerName; // a controller of the definitions below
const KEY = "shop/a" as ObjectKey; // the form that objectKey returns
const catalogOf = (definition: Partial<Parameters<typeof defineController>[0]>) =>
  cacheOf(
    registryOf(
      ownControllers([defineController({ name: "c", for: ConfigMap, owns: [Secret], ...definition, sync: () => undefined }).definition]),
    ),
  ).catalog;

/** Returns a Store's data after a list of all views, with one key that has failed three times. */
function usedData() {
  const catalog = catalogOf({});
  const data = createMemoryData(catalog);
  const record = { epoch: "e", clusterUid: "u", projection: 1, digestPrefix: "k.1", hashLayout: "", fence: "1" };
  const epoch = newEpoch(catalog, record);
  data.epoch = epoch;
  for (const view of catalog.views) {
    epoch.opened.add(view);
    epoch.resources.set(view, {} as never); // only its existence matters
  }
  epoch.queues[NAME]?.failures.set(KEY, 3);
  return { data, catalog };
}

it.each([
  { what: "another owned kind", change: { owns: [Service] }, keeps: 1, failures: 3 },
  { what: "an additional owned kind", change: { owns: [Secret, Service] }, keeps: 2, failures: 3 },
  { what: "another projection of the primary", change: { annotations: ["a"] }, keeps: 1, failures: undefined },
  { what: "the same definition", change: {}, keeps: 2, failures: 3 },
])("keeps $keeps views and the failure count $failures with $what", ({ change, keeps, failures }) => {
  const { data, catalog } = usedData();
  const next = catalogOf(change);
  const { epoch, catalog: kept } = withCatalog(data, next);
  expect(kept).toBe(next);
  const staying = catalog.views.filter((view) => next.views.includes(view));
  expect(staying).toHaveLength(keeps);
  expect([...(epoch?.opened ?? [])]).toEqual(staying);
  expect([...(epoch?.resources.keys() ?? [])]).toEqual(staying);
  expect(epoch?.queues[NAME]?.failures.get(KEY)).toBe(failures);
});
