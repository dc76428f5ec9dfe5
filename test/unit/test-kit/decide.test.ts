/** `decide` of the test kit. */
import { expect, it } from "vitest";
import { podJanitor } from "../../../examples/pod-janitor/pod-janitor.ts";
import { pullSecret } from "../../../examples/pull-secret/pull-secret.ts";
import { teamGuard } from "../../../examples/team-guard/team-guard.ts";
import { Website, website } from "../../../examples/website/website.ts";
import { customResource, defineController, s } from "../../../shared/sdk/index.ts";
import { ConfigMap, Deployment, Ingress, Namespace, Pod, Secret } from "../../../shared/sdk/kinds.ts";
import { decide } from "../../../shared/test-kit/index.ts";

const GUARDED = { metadata: { name: "shop", labels: { "example.com/team": "a" } } };

it("returns sync's result for objects created with the kinds' functions", async () => {
  const deployment = Deployment({ metadata: { name: "a" }, status: { readyReplicas: 1 } });
  const result = await decide(website, { object: Website({ metadata: { name: "a" }, spec: { image: "nginx" } }), owned: [deployment] });
  expect(result?.status).toMatchObject({ ready: 1, conditions: [{ status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" }] });
  // The default in the schema.
  expect(result?.apply?.[0]).toMatchObject({ kind: "Deployment", spec: { replicas: 1 } });
});

it("shows a sync only the visible fields", async () => {
  const seen: unknown[] = [];
  const looks = defineController({ name: "looks", for: Deployment, sync: ({ object }) => void seen.push(object) });
  const template = { spec: { containers: [{ name: "c", image: "i", env: [{ name: "TOKEN", value: "secret" }] }] } };
  await decide(looks, { object: { metadata: { name: "a", annotations: { x: "y" } }, spec: { template }, status: { replicas: 1 } } });
  expect(seen[0]).toMatchObject({ metadata: { name: "a", annotations: {} }, status: { replicas: 1 } });
  expect(JSON.stringify(seen[0])).not.toMatch(/secret|TOKEN|"y"/);
});

it("serves live reads from the given objects", async () => {
  const object = { metadata: { name: "shop", labels: { "example.com/pulls": "a" } } };
  expect(await decide(pullSecret, { object })).toEqual({ again: "5m" });
  const live = [Secret({ metadata: { name: "pull", namespace: "registry" }, type: "Opaque", data: { a: "eA==" } })];
  expect((await decide(pullSecret, { object, live }))?.apply).toMatchObject([{ kind: "Secret", data: { a: "eA==" } }]);
});

it("throws what sync throws", async () => {
  const fails = defineController({ name: "fails", for: Pod, sync: () => Promise.reject(new RangeError("no")) });
  await expect(decide(fails, { object: { metadata: { name: "a" } } })).rejects.toThrow(new RangeError("no"));
});

it("reports the path at which two runs on the same snapshot differ", async () => {
  let times = 0;
  const counts = defineController({
    name: "counts",
    for: Namespace,
    owns: [ConfigMap],
    sync: ({ object }) => ({
      apply: [ConfigMap({ metadata: { name: "c", namespace: object.metadata.name }, data: { times: String(++times) } })],
    }),
  });
  await expect(decide(counts, { object: { metadata: { name: "shop" } } })).rejects.toThrow(
    'counts: two syncs of Namespace shop on one snapshot differ: apply[0].data.times is "1", then "2"; use `now` and the snapshot',
  );
  const throws = defineController({
    name: "throws",
    for: Namespace,
    sync() {
      if (times++ % 2 === 0) throw new Error("even");
      return {};
    },
  });
  times = 0;
  await expect(decide(throws, { object: { metadata: { name: "shop" } } })).rejects.toThrow("the first throws even, the second returns");
});

it("a sync may modify its snapshot without affecting later syncs", async () => {
  const mutates = defineController({
    name: "mutates",
    for: Namespace,
    sync({ object }) {
      const labels = object.metadata.labels as Record<string, string>; // a mistake that the types cannot detect
      const before = labels["n"] ?? "0";
      labels["n"] = String(Number(before) + 1);
      return { self: { metadata: { labels: { seen: before } } } };
    },
  });
  expect(await decide(mutates, { object: { metadata: { name: "shop" } } })).toMatchObject({
    self: { metadata: { labels: { seen: "0" } } },
  });
});

it("rejects an object outside of `where`, and an object of a kind that the controller does not use", async () => {
  await expect(decide(teamGuard, { object: { metadata: { name: "shop" } } })).rejects.toThrow(
    "team-guard does not sync Namespace shop: it does not match `where`",
  );
  const ingress = Ingress({ metadata: { name: "a" } });
  // @ts-expect-error -- a kind that is not in `owns`
  await expect(decide(teamGuard, { object: GUARDED, owned: [ingress] })).rejects.toThrow("`owned` has Ingress, which is not in `owns`");
  // @ts-expect-error -- nothing is watched
  await expect(decide(teamGuard, { object: GUARDED, watched: [ingress] })).rejects.toThrow("`watched` has Ingress");
  // @ts-expect-error -- nothing is read
  await expect(decide(teamGuard, { object: GUARDED, live: [ingress] })).rejects.toThrow("`live` has Ingress");
  const other = { ...{ apiVersion: "v1", kind: "Secret" as const }, metadata: { name: "a", ownerReferences: [] } };
  await expect(
    decide(pullSecret, { object: { metadata: { name: "shop", labels: { "example.com/pulls": "" } } }, owned: [other] }),
  ).rejects.toThrow("pull-secret does not see Secret a: its controller reference names another kind");
});

it("rejects a result that deltaloop rejects", async () => {
  const nameless = defineController({
    name: "nameless",
    for: Namespace,
    owns: [ConfigMap],
    sync: () => ({ apply: [ConfigMap({ metadata: { name: "c" } })] }),
  });
  await expect(decide(nameless, { object: { metadata: { name: "shop" } } })).rejects.toThrow("without metadata.namespace");
});

it("fills in defaults in lists and maps of a schema", async () => {
  const item = s.object({ name: s.string(), weight: s.integer({ default: 7 }) });
  const Deep = customResource({
    group: "x.example.com",
    version: "v1",
    kind: "Deep",
    spec: s.object({ list: s.array(item), map: s.map(item) }),
  });
  const deep = defineController({ name: "deep", for: Deep, sync: ({ object: { spec } }) => ({ self: { spec } }) });
  const spec = { list: [{ name: "a" }, { name: "b", weight: 1 }], map: { c: { name: "c" } } };
  expect(await decide(deep, { object: { metadata: { name: "a" }, spec } })).toEqual({
    self: {
      spec: {
        list: [
          { name: "a", weight: 7 },
          { name: "b", weight: 1 },
        ],
        map: { c: { name: "c", weight: 7 } },
      },
    },
  });
});

it("passes the given time to the sync", async () => {
  const metadata = { name: "a", creationTimestamp: "2026-03-01T09:00:00Z" };
  const object = { metadata, status: { phase: "Failed" } };
  expect(await decide(podJanitor, { object, now: new Date("2026-03-01T10:00:00Z") })).toEqual({ remove: true });
  expect(await decide(podJanitor, { object, now: new Date("2026-03-01T09:59:59Z") })).toEqual({ again: new Date("2026-03-01T10:00:00Z") });
});
