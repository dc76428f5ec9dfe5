/**
 * Writes of user controllers on a real API server, for each kind of object: fields that the code drops, edits by other clients, contested
 * objects, syncs that must not write, values that must not leave the API server, and references that other tenants forge.
 */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKubeHttp } from "../../shared/kube/http/kube-http.ts";
import { kubeHttpConfigFrom } from "../../shared/kube/kubeconfig/kubeconfig.ts";
import type { Kube } from "../../shared/kube/client/kube.ts";
import type { Log } from "../../shared/base/log.ts";
import { valueAt } from "../../shared/controllers/own/project.ts";
import { crdManifest } from "../../shared/sdk/definitions.ts";
import { customResource, defineController, kind, s } from "../../shared/sdk/index.ts";
import type { Controller } from "../../shared/sdk/index.ts";
import { ConfigMap, Deployment, Secret, Service } from "../../shared/sdk/kinds.ts";
import { createMemoryData } from "../../shared/store/memory/store/data.ts";
import { cacheOf } from "../../shared/controllers/registry/cache-of.ts";
import { ownControllers, registryOf } from "../../shared/controllers/own/registry.ts";
import { counting } from "../harness/own/counting.ts";
import { startOwnSystem } from "../harness/own/system.ts";
import type { OwnSystem, OwnSystemOptions } from "../harness/own/system.ts";
import { deltaloop, eventually, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";

const CANARY = "CANARY-7f3a";
const GROUP = "demo.example.com";
const V1 = { group: GROUP, version: "v1" } as const;
const Widget = customResource({ ...V1, kind: "Widget", spec: s.object({ a: s.string(), b: s.string().optional() }) });
const Bundle = customResource({ ...V1, kind: "Bundle", spec: s.object({ turn: s.integer(), password: s.string().optional().secret() }) });
/** The same kind as a third party declares it: without its spec, which the controller therefore cannot see. */
const ThirdParty = kind<{ readonly spec: { readonly a: string } }>()({ ...V1, kind: "Widget", plural: "widgets", scope: "Namespaced" });

const base64 = (text: string): string => Buffer.from(text).toString("base64");
/** Simulates a new version of the code, which drops the field. */
let hasExtra = true;
const bundle = defineController({
  name: "bundle",
  for: Bundle,
  owns: [Deployment, Service, ConfigMap, Secret, Widget],
  sync({ object }) {
    const { name } = object.metadata;
    const labels = { app: name };
    const env = [{ name: "TOKEN", value: CANARY }];
    const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "i", env }] } };
    const ports = [{ port: 80 }];
    return {
      apply: [
        Deployment({
          metadata: { name, labels: { app: name, ...(hasExtra && { b: "2" }) } },
          spec: { replicas: 1, selector: { matchLabels: labels }, template },
        }),
        Service({ metadata: { name }, spec: { selector: { app: name, ...(hasExtra && { b: "2" }) }, ports } }),
        ConfigMap({ metadata: { name }, data: { a: CANARY, ...(hasExtra && { b: "2" }) } }),
        Secret({ metadata: { name }, data: { a: base64(CANARY), ...(hasExtra && { b: base64("2") }) } }),
        Widget({ metadata: { name }, spec: { a: CANARY, ...(hasExtra && { b: "2" }) } }),
      ],
    };
  },
});
const thirdParty = defineController({ name: "third-party", for: ThirdParty, sync: () => ({ again: "1h" }) });

/** For each kind, a field that the code drops and a field that it keeps. */
const KINDS = [
  {
    what: "Deployment",
    path: "/apis/apps/v1/namespaces/NS/deployments",
    dropped: "metadata.labels.b",
    kept: "spec.replicas",
    edit: { spec: { replicas: 9 } },
  },
  {
    what: "Service",
    path: "/api/v1/namespaces/NS/services",
    dropped: "spec.selector.b",
    kept: "spec.selector.app",
    edit: { spec: { selector: { app: "x" } } },
  },
  { what: "ConfigMap", path: "/api/v1/namespaces/NS/configmaps", dropped: "data.b", kept: "data.a", edit: { data: { a: "x" } } },
  { what: "Secret", path: "/api/v1/namespaces/NS/secrets", dropped: "data.b", kept: "data.a", edit: { data: { a: base64("x") } } },
  {
    what: "custom resource",
    path: `/apis/${GROUP}/v1/namespaces/NS/widgets`,
    dropped: "spec.b",
    kept: "spec.a",
    edit: { spec: { a: "x" } },
  },
] as const;

const MERGE = "application/merge-patch+json";
const APPLY = "application/apply-patch+yaml";
const RESYNCED = 20;
const RESYNCS = 50;
/** Number of reverts within ten minutes after which an object counts as contested. */
const REVERTS_MAX = 5;

interface Found {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

await whereRealPartsAre("writes of user controllers", () => {
  let cluster: Cluster;
  let kube: (component: string) => Kube;
  const counts = { requests: 0, commands: 0 };
  beforeAll(async () => {
    cluster = await startCluster({ machines: false });
    const access = await kubeHttpConfigFrom(cluster.plane.adminKubeconfig, { component: "own" });
    kube = (component) => {
      const plain = createKubeHttp({ ...access, component });
      return component.startsWith("sync-") ? counting(plain, ["get", "list", "create", "patch", "delete"], () => counts.requests++) : plain;
    };
    for (const { data } of [Bundle, Widget])
      await cluster.client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crdManifest(data));
    for (const plural of ["bundles", "widgets"])
      await eventually(`${plural} are served`, () => cluster.client.list(`/apis/${GROUP}/v1/${plural}`).then(() => true));
  });
  afterAll(async () => {
    await cluster?.stop();
  });

  const start = (controllers: readonly Controller[], options: Partial<OwnSystemOptions> = {}): Promise<OwnSystem> =>
    startOwnSystem({ controllers, kube, ...options });
  const open = (namespace: string) => cluster.client.request("POST", "/api/v1/namespaces", { metadata: { name: namespace } });
  const post = (namespace: string, plural: string, kindName: string, name: string, spec: object, metadata: object = {}) =>
    cluster.client.request("POST", `/apis/${GROUP}/v1/namespaces/${namespace}/${plural}`, {
      ...{ apiVersion: `${GROUP}/v1`, kind: kindName, metadata: { name, ...metadata }, spec },
    });
  const remove = (namespace: string, name: string) =>
    cluster.client.request("DELETE", `/apis/${GROUP}/v1/namespaces/${namespace}/bundles/${name}`);
  const at = (path: string, namespace: string, name: string): string => `${path.replace("NS", namespace)}/${name}`;
  const get = (path: string): Promise<Found | undefined> => cluster.get<Found>(path);
  const patchesOf = async (namespace: string): Promise<readonly unknown[]> =>
    (await cluster.audit()).filter(
      ({ verb, objectRef }) => objectRef?.namespace === namespace && objectRef.resource === "configmaps" && verb === "patch",
    );
  const eventOf = (reason: string, name: string): Promise<unknown> =>
    eventually(`the Event ${reason} of ${name}`, async () => {
      const events = await cluster.list<{ readonly reason: string; readonly involvedObject: { readonly name: string } }>("/api/v1/events");
      return events.some((event) => event.reason === reason && event.involvedObject.name === name);
    });

  describe("a controller that owns objects of each kind", () => {
    let system: OwnSystem;
    beforeAll(async () => {
      system = await start([bundle]);
      await open("kinds");
      await post("kinds", "bundles", "Bundle", "five", { turn: 1 });
      await eventually("all five", async () => (await Promise.all(KINDS.map(({ path }) => get(at(path, "kinds", "five"))))).every(Boolean));
      await system.settled("bundle");
    });
    afterAll(async () => {
      await remove("kinds", "five");
      await system?.stop();
    });

    it.each(KINDS)("reverts an edit of its field of a $what, and keeps the fields of another manager", async ({ path, kept, edit }) => {
      const object = at(path, "kinds", "five");
      const before = valueAt(await get(object), kept);
      await cluster.client.request("PATCH", object, { ...edit, metadata: { annotations: { mine: "yes" } } }, MERGE);
      await eventually("the revert", async () => valueAt(await get(object), kept) === before);
      expect((await get(object))?.metadata.annotations?.["mine"]).toBe("yes");
    });

    it("removes the fields that new code no longer sets, of all kinds", async () => {
      for (const { path, dropped } of KINDS) expect(valueAt(await get(at(path, "kinds", "five")), dropped), path).toBeDefined();
      hasExtra = false;
      await system.resync("bundle");
      for (const { path, dropped, kept } of KINDS) {
        await eventually(`no ${dropped}`, async () => valueAt(await get(at(path, "kinds", "five")), dropped) === undefined);
        expect(valueAt(await get(at(path, "kinds", "five")), kept), path).toBeDefined();
      }
    });

    it("reports a field that another user controller manages, and does not take it over", async () => {
      await system.settled("bundle");
      const object = at(KINDS[2].path, "kinds", "five");
      const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "five", namespace: "kinds" }, data: { a: "of the rival" } };
      await cluster.client.request("PATCH", `${object}?fieldManager=deltaloop-rival&force=true`, body, APPLY);
      await eventOf("Contested", "five");
      expect(valueAt(await get(object), "data.a")).toBe("of the rival");
    });
  });

  it("stops reverting an object that another writer keeps changing, and reports it", async () => {
    const system = await start([bundle]);
    try {
      await open("contested");
      await post("contested", "bundles", "Bundle", "fought", { turn: 1 });
      const object = at(KINDS[0].path, "contested", "fought");
      await eventually("the Deployment", () => get(object));
      await system.settled("bundle");
      for (let times = 0; times <= REVERTS_MAX; times++) {
        await cluster.client.request("PATCH", object, KINDS[0].edit, MERGE);
        await eventually("the revert", async () => valueAt(await get(object), "spec.replicas") === 1);
        await system.settled("bundle");
      }
      await cluster.client.request("PATCH", object, KINDS[0].edit, MERGE);
      await eventOf("Contested", "fought");
      expect(valueAt(await get(object), "spec.replicas")).toBe(9);
      await remove("contested", "fought");
    } finally {
      await system.stop();
    }
  });

  it("sends nothing in 1,000 syncs of objects in the desired state, which take two Store commands each", async () => {
    const system = await start([bundle], {
      // The applier also handles heartbeats, at its own times.
      functionStore: (store) => {
        const names = Object.keys(store).filter((name) => name !== "applyPack") as (keyof typeof store)[]; // keys of the Store itself
        return counting(store, names, () => counts.commands++);
      },
    });
    try {
      await open("resynced");
      await Promise.all(Array.from({ length: RESYNCED }, (_, n) => post("resynced", "bundles", "Bundle", `b-${n}`, { turn: n })));
      await eventually("all are created", async () => (await cluster.list(KINDS[4].path.replace("NS", "resynced"))).length === RESYNCED);
      await system.settled("bundle");
      const others = (await cluster.list(`/apis/${GROUP}/v1/bundles`)).length - RESYNCED;
      Object.assign(counts, { requests: 0, commands: 0 });
      for (let times = 0; times < RESYNCS; times++) {
        await system.resync("bundle");
        // the Store accepts every name of the controller's catalog
        await eventually("its end", async () => (await system.store.queued("bundle" as "replicaset")).length === 0);
      }
      expect(counts).toEqual({ requests: 0, commands: 2 * RESYNCS * (RESYNCED + others) });
    } finally {
      await system.stop();
    }
  });

  it("stops reverting and reports it when two hosts run two definitions of one controller", async () => {
    const versions = ["one", "two"].map((version) =>
      defineController({
        name: "rolling",
        for: ThirdParty,
        where: { labels: { rolls: "*" } },
        owns: [ConfigMap],
        sync: ({ object }) => ({ apply: [ConfigMap({ metadata: { name: object.metadata.name }, data: { version } })] }),
      }),
    );
    const systems = await Promise.all(versions.map((controller) => start([controller])));
    try {
      await open("rolling");
      await post("rolling", "widgets", "Widget", "w", { a: "1" }, { labels: { rolls: "yes" } });
      await eventOf("Contested", "w");
      for (const system of systems) await system.settled("rolling");
      const object = at(KINDS[2].path, "rolling", "w");
      const last = await get(object);
      await new Promise((resolve) => setTimeout(resolve, 2_000));
      expect((await get(object))?.metadata.resourceVersion).toBe(last?.metadata.resourceVersion);
      expect((await patchesOf("rolling")).length).toBeLessThanOrEqual(2 * (REVERTS_MAX + 2));
    } finally {
      for (const system of systems) await system.stop();
    }
  });

  it("stops reverting and reports it when the syncs of one controller alternate between two desired states", async () => {
    let syncs = 0;
    const turning = defineController({
      name: "turning",
      for: ThirdParty,
      where: { labels: { turns: "*" } },
      owns: [ConfigMap],
      sync: ({ object }) => ({ apply: [ConfigMap({ metadata: { name: object.metadata.name }, data: { version: String(syncs++ % 2) } })] }),
    });
    const system = await start([turning]);
    try {
      await open("turning");
      await post("turning", "widgets", "Widget", "w", { a: "1" }, { labels: { turns: "yes" } });
      await eventOf("Contested", "w");
      await system.settled("turning");
      const writes = await patchesOf("turning");
      expect(writes.length).toBeGreaterThan(REVERTS_MAX);
      expect(writes.length).toBeLessThanOrEqual(REVERTS_MAX + 3);
    } finally {
      await system.stop();
    }
  });

  it("keeps values of Secrets, ConfigMaps, env, annotations, hidden fields and third parties' specs out of messages, Store, Events and logs", async () => {
    const texts: string[] = [];
    const say =
      (level: string): Log["info"] =>
      (message, fields = {}) =>
        void texts.push(`${level} ${message} ${inspect(fields, { depth: 9 })}`);
    const controllers = [bundle, thirdParty];
    const data = createMemoryData(cacheOf(registryOf(ownControllers(controllers.map(({ definition }) => definition)))).catalog);
    const system = await start(controllers, {
      ...{ data, onMessage: (text) => void texts.push(text) },
      log: { debug: say("debug"), info: say("info"), warn: say("warn"), error: say("error") },
      report: (report) => void texts.push(inspect(report, { depth: 9 })),
    });
    const folder = await mkdtemp(join(tmpdir(), "deltaloop-own-"));
    const path = join(folder, "capture.jsonl");
    const capture = deltaloop(["capture", "-o", path, "--kubeconfig", cluster.plane.adminKubeconfig]);
    try {
      await capture.line("capturing");
      await open("canaries");
      const annotations = { "example.com/manifest": CANARY };
      await post("canaries", "bundles", "Bundle", "five", { turn: 1, password: CANARY }, { annotations });
      await eventually("all five", async () =>
        (await Promise.all(KINDS.map(({ path }) => get(at(path, "canaries", "five"))))).every(Boolean),
      );
      await system.settled("bundle");
      await system.settled("third-party");
      for (const { path, edit } of KINDS)
        await cluster.client.request("PATCH", at(path, "canaries", "five"), { metadata: { annotations }, ...edit }, MERGE);
      await eventually("the reverts", async () => valueAt(await get(at(KINDS[2].path, "canaries", "five")), "data.a") === CANARY);
      await system.settled("bundle");
      const stored = inspect(data, { depth: Infinity, maxArrayLength: null, maxStringLength: null });
      const events = JSON.stringify(await cluster.list("/api/v1/events"));
      const version = (await get(at(KINDS[0].path, "canaries", "five")))?.metadata.resourceVersion ?? "no Deployment";
      await eventually("the last change is captured", async () => (await readFile(path, "utf8")).includes(version));
      await capture.stop();
      const captured = await readFile(path, "utf8");
      expect(stored).toContain("canaries/five");
      expect(texts.join("\n")).toContain("canaries/five");
      for (const text of [stored, events, texts.join("\n"), captured, capture.output()])
        for (const secret of [CANARY, base64(CANARY)])
          expect(text.includes(secret) && text.slice(text.indexOf(secret) - 300, text.indexOf(secret))).toBe(false);
    } finally {
      await capture.stop();
      await system.stop();
      await rm(folder, { recursive: true });
    }
  });

  it("changes no object of another namespace because of owners, labels and managers that a tenant forges", async () => {
    hasExtra = true;
    const system = await start([bundle]);
    try {
      for (const namespace of ["shop", "tenant"]) await open(namespace);
      await post("shop", "bundles", "Bundle", "five", { turn: 1 });
      await eventually("all five", async () => (await Promise.all(KINDS.map(({ path }) => get(at(path, "shop", "five"))))).every(Boolean));
      await system.settled("bundle");
      const { uid } = (await get(`/apis/${GROUP}/v1/namespaces/shop/bundles/five`))?.metadata ?? expect.fail("no Bundle");
      const reference = { apiVersion: `${GROUP}/v1`, kind: "Bundle", name: "five", uid, controller: true };
      const versions = async (): Promise<unknown> =>
        await Promise.all(KINDS.map(async ({ path }) => (await get(at(path, "shop", "five")))?.metadata.resourceVersion));
      const before = await versions();
      counts.requests = 0;
      const forged = { name: "five", labels: { app: "five" }, ownerReferences: [reference] };
      const created = await cluster.client.request<Found>("POST", "/api/v1/namespaces/tenant/configmaps?fieldManager=deltaloop-bundle", {
        ...{ apiVersion: "v1", kind: "ConfigMap", metadata: forged, data: { a: "forged" } },
      });
      await system.resync("bundle");
      await system.settled("bundle");
      expect(await versions()).toEqual(before);
      expect(counts.requests).toBe(0);
      // The garbage collector may delete the object, because its owner is not in its namespace; deltaloop's controllers must not.
      const deletes = (await cluster.audit()).filter(
        ({ userAgent = "", verb, objectRef }) => userAgent.includes("sync-") && verb !== "get" && objectRef?.namespace === "tenant",
      );
      expect(deletes).toEqual([]);
      expect(created.metadata.name).toBe("five");
    } finally {
      await system.stop();
    }
  });
});
