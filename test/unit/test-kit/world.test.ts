/** `world` of the test kit. */
import { expect, it } from "vitest";
import { podJanitor } from "../../../examples/pod-janitor/pod-janitor.ts";
import { pullSecret } from "../../../examples/pull-secret/pull-secret.ts";
import { scheduledScaler } from "../../../examples/scheduled-scaler/scheduled-scaler.ts";
import { defineController, kind } from "../../../shared/sdk/index.ts";
import { ConfigMap, Deployment, Namespace, Pod, Secret } from "../../../shared/sdk/kinds.ts";
import { world } from "../../../shared/test-kit/index.ts";

const SOURCE = Secret({ metadata: { name: "pull", namespace: "registry" }, type: "Opaque", stringData: { password: "change" } });
const pulls = (name: string, value: string | undefined = "a") => Namespace({ metadata: { name, labels: { "example.com/pulls": value } } });
const copies = defineController({
  name: "copies",
  for: ConfigMap,
  where: { labels: { copy: "*" } },
  owns: [Secret],
  sync: ({ object: { metadata } }) => ({ apply: [Secret({ metadata: { name: metadata.name }, stringData: { a: "b" } })] }),
});
const source = (name = "a") => ConfigMap({ metadata: { name, namespace: "shop", labels: { copy: "" } } });

it("applies objects, settles, and lists the writes with their reasons", async () => {
  const w = await world({ controllers: [pullSecret] });
  await w.apply(SOURCE);
  await w.apply(pulls("shop"));
  await w.settle();
  expect(w.writes()).toEqual([
    { controller: "pull-secret", key: "/shop", what: "create Secret shop/pull", why: "missing", at: new Date("2026-01-01T00:00:00.021Z") },
  ]);
  expect(w.get(Secret, "shop", "pull")?.data).toEqual({ password: "Y2hhbmdl" });
  await w.edit(Secret, "shop", "pull", { stringData: { password: "other" } });
  await w.settle();
  expect(w.writes().at(-1)).toMatchObject({ what: "apply Secret shop/pull", why: "changed since the last write" });
  await w.edit(Namespace, "", "shop", { metadata: { labels: { "example.com/pulls": null } } });
  await w.settle();
  expect(w.writes().at(-1)).toMatchObject({ what: "prune Secret shop/pull", why: "no longer desired" });
  expect((await w.list(Secret)).map(({ metadata }) => metadata.namespace)).toEqual(["registry"]);
});

it("is reproducible with the same seed, and has other uids with another seed", async () => {
  const uidOf = async (seed: number) => {
    const w = await world({ controllers: [copies], seed });
    await w.apply(source());
    await w.settle();
    return w.get(Secret, "shop", "a")?.metadata.uid;
  };
  expect(await uidOf(3)).toBe(await uidOf(3));
  expect(await uidOf(3)).not.toBe(await uidOf(4));
});

it("runs built-in controllers, and pods become ready", async () => {
  const w = await world({ controllers: [scheduledScaler], now: new Date("2026-03-01T06:00:00Z") });
  const labels = { app: "a" };
  const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "i" }] } };
  const annotations = { "example.com/replicas": "07:00=3 20:00=1" };
  await w.apply(Deployment({ metadata: { name: "a", annotations }, spec: { selector: { matchLabels: labels }, template } }));
  await w.settle();
  expect(w.get(Deployment, "default", "a")?.status).toMatchObject({ readyReplicas: 1 });
  await w.advance("1h");
  await w.settle();
  expect(w.get(Deployment, "default", "a")?.status).toMatchObject({ readyReplicas: 3 });
  expect(w.now.toISOString()).toMatch(/^2026-03-01T07:00/);
});

it("skips idle time: keys are synced when they are due", async () => {
  const w = await world({ controllers: [podJanitor] });
  const spec = { containers: [{ name: "c", image: "i" }] };
  await w.apply(Pod({ metadata: { name: "done" }, spec }));
  await w.edit(Pod, "default", "done", { status: { phase: "Failed" } });
  await w.advance("59m");
  expect(w.get(Pod, "default", "done")).toBeDefined();
  await w.advance("2m");
  expect(w.get(Pod, "default", "done")).toBeUndefined();
  expect(w.writes().map(({ what, at }) => [what, at.toISOString().slice(0, -5)])).toEqual([["remove", "2026-01-01T01:00:00"]]);
  await w.advance("30d");
  expect(w.now.toISOString().slice(0, 16)).toBe("2026-01-31T01:01");
});

it("reports a sync that keeps failing, or activity that does not end", async () => {
  const fails = defineController({ name: "fails", for: ConfigMap, sync: () => Promise.reject(new Error("no such zone")) });
  const w = await world({ controllers: [fails] });
  await w.apply(source());
  await expect(w.settle()).rejects.toThrow("fails shop/a failed 8 times in a row: sync failed: no such zone");
  const restless = defineController({ name: "restless", for: ConfigMap, sync: () => ({ again: "500ms" }) });
  const r = await world({ controllers: [restless] });
  await r.apply(source());
  await expect(r.settle()).rejects.toThrow("the world does not settle: restless shop/a is due, last: no write");
  const waits = defineController({ name: "waits", for: ConfigMap, sync: () => ({ again: "5m" }) });
  const s = await world({ controllers: [waits] });
  await s.apply(source());
  await s.settle();
});

it("fails when two syncs on the same snapshot differ", async () => {
  let times = 0;
  const counts = defineController({
    name: "counts",
    for: ConfigMap,
    where: { labels: { copy: "*" } },
    owns: [Secret],
    sync: () => ({ apply: [Secret({ metadata: { name: "s" }, stringData: { times: String(times++) } })] }),
  });
  const w = await world({ controllers: [counts] });
  await w.apply(source());
  await expect(w.settle()).rejects.toThrow(
    'counts: two syncs of ConfigMap a on one snapshot differ: apply[0].stringData.times is "0", then "1"',
  );
});

it("serves kinds of other projects, whose schema is unknown", async () => {
  const Bucket = kind<{ readonly spec?: { readonly region?: string }; readonly status?: { readonly seen?: string } }>()({
    ...{ group: "other.example.com", version: "v1", kind: "Bucket", plural: "buckets", scope: "Namespaced" },
  });
  const regions = defineController({
    name: "regions",
    for: Bucket,
    see: { spec: { region: true } },
    owns: [ConfigMap],
    sync: ({ object: { metadata, spec } }) => ({
      apply: [ConfigMap({ metadata: { name: metadata.name }, data: { region: spec?.region ?? "" } })],
      status: { seen: spec?.region ?? "" },
    }),
  });
  const w = await world({ controllers: [regions] });
  await w.everyCrash(async (each) => {
    await each.apply({
      apiVersion: "other.example.com/v1",
      kind: "Bucket",
      metadata: { name: "a", namespace: "shop" },
      spec: { region: "x" },
    });
  });
  await w.apply({ apiVersion: "other.example.com/v1", kind: "Bucket", metadata: { name: "a", namespace: "shop" }, spec: { region: "y" } });
  await w.settle();
  expect(w.get(ConfigMap, "shop", "a")?.data).toEqual({ region: "y" });
  expect(w.get(Bucket, "shop", "a")?.status).toEqual({ seen: "y" });
});

it("rejects a definition with a mistake, and objects of unknown kinds", async () => {
  const bad = defineController({ name: "Bad", for: ConfigMap, sync: () => undefined });
  await expect(world({ controllers: [bad] })).rejects.toThrow("DNS label");
  const w = await world({ controllers: [copies] });
  await expect(w.apply({ apiVersion: "x/v1", kind: "Y", metadata: { name: "a" } })).rejects.toThrow("x/v1 Y is neither a kind");
  await expect(w.delete(Secret, "shop", "none")).rejects.toThrow('secrets "none" not found');
});

it("everyCrash passes for a crash-safe controller, and otherwise reports a crash that changes the final state", async () => {
  const w = await world({ controllers: [copies] });
  await w.everyCrash(async (each) => void (await each.apply(source())));
  let lives = 0;
  const forgetful = defineController({
    name: "forgetful",
    for: ConfigMap,
    where: { labels: { copy: "*" } },
    owns: [Secret],
    // The first World has another Secret than the others.
    sync: ({ object }) => ({ apply: [Secret({ metadata: { name: `${object.metadata.name}-${Math.min(lives, 2)}` } })] }),
  });
  const f = await world({ controllers: [forgetful] });
  const scenario: Parameters<typeof f.everyCrash>[0] = async (each) => {
    lives++;
    await each.apply(source());
  };
  await expect(f.everyCrash(scenario)).rejects.toThrow(
    [
      "a crash before call 1 of 4 (forgetful shop/a: get configmaps) changes the final state",
      "  forgetful Secret shop/a-2 was created 1 times, without the crash 0 times",
      '  to reproduce: everyCrash(scenario, { at: "before 1" })',
    ].join("\n"),
  );
  await expect(f.everyCrash(scenario, { at: "after 99" })).rejects.toThrow('there is no crash "after 99"');
  await expect(f.everyCrash(() => Promise.resolve())).rejects.toThrow("the scenario causes no call");
});
