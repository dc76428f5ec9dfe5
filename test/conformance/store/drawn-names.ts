/** Names of created pods on a Store that was rolled back while two functions run the same key (IT5; informer §13 layer 5). */
import { expect, it as base } from "vitest";

import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { inSession } from "../../../shared/controllers/kit/sync/in-session.ts";
import { runKey } from "../../../shared/controllers/kit/sync/worker.ts";
import { builtInGateway } from "../../support/built-in-gateway.ts";
import { CORE_CACHE } from "../../../shared/controllers/registry/registry.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { CONTROLLER_INFO } from "../../../shared/kube/objects/resources.ts";
import { strip } from "../../../shared/kube/strip/strip.ts";
import { HANDLERS, withMarks } from "../../harness/sync/observed.ts";
import type { StoreHarness } from "../../harness/store/store.ts";
import { put } from "../../support/builders.ts";
import { refusal, ScriptedApi } from "../../support/scripted-api.ts";
import { silentLog } from "../../support/silent-log.ts";
import type { OpenStore } from "../store.ts";

const KEY = "shop/web";
const REPLICAS = 4;
/** A time in ms longer than the back-off of a first failure, and longer than a live list stays valid. */
const RETRIED_MS = 6_000;
/** Shared by all functions: each run has its own token. */
const random = createSeededRandom(1);
const digester = createDigester("0123456789abcdef0123456789abcdef");
type Owner = "replicaset" | "replicationcontroller";

/** Creates an owner without pods, whose key is queued. */
async function ownerIn(harness: StoreHarness, controller: Owner): Promise<ScriptedApi> {
  const api = await ScriptedApi.create({ clock: harness.fixture.clock });
  const resource = CONTROLLER_INFO[controller].primary;
  const labels = { app: "web" };
  const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "i" }] } };
  const selector = controller === "replicaset" ? { matchLabels: labels } : labels;
  const live = await api.put(resource, { metadata: { name: "web" }, spec: { replicas: REPLICAS, selector, template } });
  await harness.seed(resource, [put(strip(resource, live, digester), { counted: true })]);
  await harness.store.add(harness.epoch, controller, KEY, 0);
  return api;
}

/** One function runs the key once. `isMarked`: decides from the cache instead of a live list (replicaset §18). */
async function runOnce(harness: StoreHarness, api: ScriptedApi, controller: Owner, isMarked: boolean): Promise<void> {
  const ports = {
    store: isMarked ? withMarks(harness.store) : harness.store,
    reader: api,
    gateway: builtInGateway(api, controller, "act"),
    doorbells: { ring: async () => {} },
    digester,
    registry: CORE_CACHE,
    clock: harness.fixture.clock,
    random,
    log: silentLog,
  };
  await runKey(ports, controller, { controller, key: KEY, epoch: harness.epoch, delayMs: 0 }, inSession(HANDLERS[controller]));
}

const names = (api: ScriptedApi) => api.all("pods").map(({ metadata }) => metadata.name);

export function drawnNameCases(open: OpenStore): void {
  const it = base.extend("harness", async () => await (await open()).synced());
  const cases = (["replicaset", "replicationcontroller"] as const).flatMap((controller) =>
    (["the cache", "a live list"] as const).flatMap((basis) => [1, 2, REPLICAS].map((nth) => ({ controller, basis, nth }))),
  );

  it.for(cases)(
    "IT5 $controller: a second run at create $nth on a rolled-back Store, based on $basis, creates no surplus pod",
    async ({ controller, basis, nth }, { harness, skip }) => {
      if (!harness.fixture.snapshot) return skip("the adapter cannot be set back");
      const api = await ownerIn(harness, controller);
      const restore = await harness.fixture.snapshot();
      api.script = {
        "create pods": async (_, count) => {
          if (count !== nth) return;
          await restore();
          await runOnce(harness, api, controller, basis === "the cache");
        },
      };
      await runOnce(harness, api, controller, basis === "the cache");
      expect(names(api)).toHaveLength(REPLICAS);
    },
  );

  it.for(cases)(
    "IT5 $controller: a create rejected after the Store was rolled back at create $nth causes at most one surplus pod, based on $basis",
    async ({ controller, basis, nth }, { harness, skip }) => {
      if (!harness.fixture.snapshot) return skip("the adapter cannot be set back");
      const api = await ownerIn(harness, controller);
      const restore = await harness.fixture.snapshot();
      let refusals = 0;
      api.script = {
        "create pods": async (_, count) => {
          if (refusals > 0) {
            refusals--;
            return refusal(403, "Forbidden", "exceeded quota");
          }
          if (count !== nth) return undefined;
          await restore();
          refusals = 1;
          await runOnce(harness, api, controller, basis === "the cache");
          await harness.store.add(harness.epoch, controller, KEY, 0); // without waiting for its back-off
          await runOnce(harness, api, controller, basis === "the cache");
          return undefined;
        },
      };
      await runOnce(harness, api, controller, basis === "the cache");
      expect(names(api).length - REPLICAS).toBeOneOf([0, 1]);
    },
  );

  it.for([
    { basis: "a live list", why: "exceeded quota: NAME", surplus: 0 },
    { basis: "the cache", why: "exceeded quota: NAME", surplus: 1 },
    { basis: "the cache", why: "too many requests", surplus: 0 },
  ])(
    "IT5 based on $basis: a name rejected with `$why` before a rollback of the Store causes $surplus surplus pods, and names that were not sent cause none",
    async ({ basis, why, surplus }, { harness, skip }) => {
      if (!harness.fixture.snapshot) return skip("the adapter cannot be set back");
      const api = await ownerIn(harness, "replicaset");
      const restore = await harness.fixture.snapshot();
      api.script = {
        "create pods": ({ name }, nth) => (nth === 1 ? refusal(403, "Forbidden", why.replace("NAME", name)) : undefined),
      };
      await runOnce(harness, api, "replicaset", true); // one name is rejected, three are not attempted
      await harness.store.add(harness.epoch, "replicaset", KEY, 0);
      await harness.fixture.clock.advance(RETRIED_MS);
      await runOnce(harness, api, "replicaset", true);
      expect(names(api)).toHaveLength(REPLICAS);
      await restore();
      await runOnce(harness, api, "replicaset", basis === "the cache");
      expect(names(api)).toHaveLength(REPLICAS + surplus);
    },
  );

  it("IT5 after a rollback of the Store, the next run generates the pod names of the lost run again", async ({ harness, skip }) => {
    if (!harness.fixture.snapshot) return skip("the adapter cannot be set back");
    const api = await ownerIn(harness, "replicaset");
    const restore = await harness.fixture.snapshot();
    await runOnce(harness, api, "replicaset", true);
    const lost = names(api);
    await restore();
    await runOnce(harness, api, "replicaset", true);
    expect(names(api)).toEqual(lost);
    const tried = api.calls.flatMap(({ verb, resource, name }) => (verb === "create" && resource === "pods" ? [name] : []));
    expect(tried).toEqual([...lost, ...lost]);
    expect((await harness.taken("replicaset", KEY)).snapshot.dependents.map(({ key }) => key)).toEqual(
      lost.map((name) => `shop/${name}`).toSorted(),
    );
  });
}
