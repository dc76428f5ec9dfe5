/**
 * Primaries that a user controller's `where` does not select, on any Store: which of them a list, a resync and a change enqueue. Objects
 * pass through the controller's views and event handlers.
 */
import { afterEach, describe, expect, it } from "vitest";
import { Website } from "../../examples/website/website.ts";
import { cacheIdentity } from "../../shared/controllers/cache/identity.ts";
import { cachedAs } from "../../shared/controllers/cache/cache-registry.ts";
import { prepareChanges } from "../../shared/controllers/cache/prepare.ts";
import { ownControllers, registryOf } from "../../shared/controllers/own/registry.ts";
import { cacheOf } from "../../shared/controllers/registry/cache-of.ts";
import type { OwnController, OwnView } from "../../shared/kube/objects/resources.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { defineController } from "../../shared/sdk/index.ts";
import { Deployment } from "../../shared/sdk/kinds.ts";
import type { Store } from "../../shared/store/ports/store.ts";
import { HOLE_LIMIT_MS } from "../../shared/base/times.ts";
import type { MakeStore } from "./own-views.ts";

const SITES = defineController({
  name: "sites",
  for: Website,
  where: { labels: { site: "*" } },
  owns: [Deployment],
  sync: () => ({ apply: [] }),
});
const CONTROLLER = "sites" as OwnController; // the only controller of the registry
const ENTRIES = ownControllers([SITES.definition]);
const CACHE = cacheOf(registryOf(ENTRIES));
// the view of the primaries, and that of an owned kind
const [WEBSITES, DEPLOYMENTS] = (ENTRIES[0]?.views ?? []).map(({ name }) => name) as [OwnView, OwnView];
const DIGESTER = createDigester("a key for tests");
const EPOCH = { epoch: "e1", clusterUid: "uid", fence: "100", ...cacheIdentity(DIGESTER) };

interface Version {
  readonly rv: number;
  /** Whether `where` selects the object. */
  readonly isIn?: boolean;
  /** Whether the controller has set fields of the object. */
  readonly isManaged?: boolean;
}

const uidOf = (name: string): string =>
  `${name
    .padStart(8, "0")
    .slice(0, 8)
    .replaceAll(/[^0-9a-f]/g, "0")}-1111-4222-8333-444444444444`;

function websiteOf(name: string, { rv, isIn = false, isManaged = false }: Version): object {
  return {
    metadata: {
      ...{ namespace: "shop", name, uid: uidOf(name), resourceVersion: String(rv), labels: isIn ? { site: "a" } : {} },
      ...(isManaged && { managedFields: [{ manager: "deltaloop-sites", operation: "Apply", fieldsV1: {} }] }),
    },
    spec: { image: "nginx", replicas: 0 },
  };
}

function deploymentOf(website: string, rv: number): object {
  const owner = { apiVersion: "demo.example.com/v1", kind: "Website", name: website, uid: uidOf(website), controller: true };
  const metadata = { namespace: "shop", name: website, uid: `uid-of-${website}`, resourceVersion: String(rv), ownerReferences: [owner] };
  return { metadata, spec: {}, status: {} };
}

class Outside {
  readonly store: Store;
  readonly #generations = new Map<OwnView, number>();
  readonly #sequences = new Map<OwnView, number>();
  #tokens = 0;

  constructor(store: Store) {
    this.store = store;
  }

  async open(): Promise<this> {
    await this.store.openEpoch(EPOCH);
    for (const resource of [WEBSITES, DEPLOYMENTS]) await this.store.openFence({ ...this.#at(), resource, lanes: 1 });
    return this;
  }

  #at(): { readonly epoch: string; readonly fence: string } {
    return { epoch: EPOCH.epoch, fence: EPOCH.fence };
  }

  #header(resource: OwnView, kind: "L" | "D") {
    const sequence = (this.#sequences.get(resource) ?? 0) + 1;
    this.#sequences.set(resource, sequence);
    return { ...this.#at(), generation: this.#generations.get(resource) ?? 0, resource, lane: 0, sequence, kind };
  }

  async put(resource: OwnView, objects: readonly object[], listRV?: string): Promise<void> {
    const changes = objects.map((object) => {
      // resources of this cache
      const cached = cachedAs(CACHE, resource, object, DIGESTER) as ReturnType<(typeof ENTRIES)[0]["views"][0]["project"]>;
      const { namespace, name, uid, resourceVersion: rv } = cached.metadata;
      return { type: "put" as const, key: `${namespace}/${name}`, uid, rv, object: cached };
    });
    const live = (): never => expect.fail("nothing is forged");
    const { items, counts } = await prepareChanges(this.store, CACHE, resource, changes, { live, ...(listRV !== undefined && { listRV }) });
    const kind = listRV === undefined ? "D" : "L";
    const commit = { ...(listRV === undefined && { watermark: changes.at(-1)?.rv ?? "0" }) };
    const answer = await this.store.applyPack(this.#header(resource, kind), items, {
      counts,
      commit,
      ...(listRV !== undefined && { listRV }),
    });
    expect(answer.kind).toBe("applied");
  }

  /** Applies a whole list: the payloads and the manifest. */
  async list(resource: OwnView, objects: readonly object[], listRV: string): Promise<void> {
    const opened = await this.store.openGeneration({ ...this.#at(), resource });
    if (opened.kind !== "open") throw new Error(opened.kind);
    this.#generations.set(resource, opened.generation);
    if (objects.length > 0) await this.put(resource, objects, listRV);
    const rows = objects.map((object) => {
      const { metadata } = object as { readonly metadata: Readonly<Record<string, string>> };
      return { key: `shop/${metadata["name"]}`, uid: metadata["uid"] ?? "", rv: metadata["resourceVersion"] ?? "" };
    });
    const answer = await this.store.applyManifest(this.#header(resource, "D"), { listRV, rows, sweep: [], counts: [] });
    expect(answer.kind).toBe("applied");
  }

  async queued(): Promise<readonly string[]> {
    return (await this.store.queued(CONTROLLER)).flatMap(({ key, readyAtMs }) => (readyAtMs === undefined ? [] : [key]));
  }

  async resync(): Promise<readonly string[]> {
    return (await this.store.resync(EPOCH.epoch, CONTROLLER, 0)).map(({ key }) => key);
  }

  /** Runs each due key to its end; returns the rows of their primaries. */
  async drain(): Promise<readonly unknown[]> {
    const seen: unknown[] = [];
    for (const key of await this.queued()) {
      const run = { epoch: EPOCH.epoch, controller: CONTROLLER, key, token: `t${++this.#tokens}` };
      const first = await this.store.take(run, {});
      const taken = first.kind === "moved" ? await this.store.take(run, first) : first;
      if (taken.kind !== "ok") throw new Error(JSON.stringify(taken));
      seen.push(taken.snapshot.primary?.object);
      await this.store.done(run, { kind: "ok" });
    }
    return seen;
  }
}

/** @param make a Store without data */
export function outsideConformance(where: string, make: (...options: Parameters<MakeStore>) => Store | Promise<Store>): void {
  describe(`primaries outside \`where\`, ${where}`, () => {
    const stores: Store[] = [];
    let count = 0;
    afterEach(async () => {
      for (const store of stores.splice(0)) await store.close();
    });
    const opened = async (): Promise<Outside> => {
      const identity = cacheIdentity(DIGESTER);
      const options = {
        deployment: "outside",
        cluster: `outside-${++count}`,
        identity,
        holeLimitMs: HOLE_LIMIT_MS,
        catalog: CACHE.catalog,
      };
      const store = await make(options);
      stores.push(store);
      return await new Outside(store).open();
    };
    /** Lists two Websites, of which `where` selects `a`. */
    const listed = async (): Promise<Outside> => {
      const outside = await opened();
      await outside.list(DEPLOYMENTS, [], "5");
      await outside.list(WEBSITES, [websiteOf("a", { rv: 1, isIn: true }), websiteOf("b", { rv: 2 })], "5");
      return outside;
    };

    it("are not enqueued by a list, a resync or a change, as those inside are", async () => {
      const outside = await listed();
      expect(await outside.queued()).toEqual(["shop/a"]);
      await outside.drain();
      expect(await outside.resync()).toEqual(["shop/a"]);
      await outside.drain();
      await outside.put(WEBSITES, [websiteOf("b", { rv: 6 })]);
      await outside.list(WEBSITES, [websiteOf("a", { rv: 1, isIn: true }), websiteOf("b", { rv: 7 })], "8");
      expect(await outside.queued()).toEqual([]);
    });

    it("are enqueued once when they leave `where`, and as usual after they return", async () => {
      const outside = await listed();
      await outside.drain();
      await outside.put(WEBSITES, [websiteOf("a", { rv: 6 })]);
      expect(await outside.queued()).toEqual(["shop/a"]);
      expect(await outside.drain()).toMatchObject([{ metadata: { name: "a", resourceVersion: "6" }, "~own": { isOut: true } }]);
      expect(await outside.resync()).toEqual([]);
      await outside.put(WEBSITES, [websiteOf("a", { rv: 7, isIn: true })]);
      await outside.drain();
      expect(await outside.resync()).toEqual(["shop/a"]);
    });

    it.each(["before", "after"])("are enqueued if the objects that they own are listed %s them", async (order) => {
      const outside = await opened();
      const lists = [
        () => outside.list(DEPLOYMENTS, [deploymentOf("b", 3)], "5"),
        () => outside.list(WEBSITES, [websiteOf("b", { rv: 1 }), websiteOf("c", { rv: 2 })], "5"),
      ];
      for (const list of order === "before" ? lists : lists.toReversed()) await list();
      expect(await outside.queued()).toEqual(["shop/b"]);
    });

    it("are enqueued if a list finds fields that the controller has set, because they left while the cache was lost", async () => {
      const outside = await opened();
      await outside.list(DEPLOYMENTS, [], "5");
      await outside.list(WEBSITES, [websiteOf("b", { rv: 1, isManaged: true }), websiteOf("c", { rv: 2 })], "5");
      expect(await outside.queued()).toEqual(["shop/b"]);
    });
  });
}
