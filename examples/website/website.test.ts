import assert from "node:assert/strict";
import { test } from "node:test";
import { Deployment } from "deltaloop/kinds";
import { decide, world } from "deltaloop/test";
import { Website, website } from "./website.ts";

const site = (replicas: number) => Website({ metadata: { name: "a", namespace: "shop" }, spec: { image: "nginx", replicas } });

test("a Website is not ready before its Deployment is", async () => {
  const result = await decide(website, { object: site(2) });
  assert.equal(result?.status?.ready, 0);
});

test("a Website becomes ready, and an edit of its Deployment is reverted", async () => {
  const w = await world({ controllers: [website] });
  await w.apply(site(2));
  await w.settle();
  assert.equal(w.get(Website, "shop", "a")?.status?.ready, 2);
  await w.edit(Deployment, "shop", "a", { spec: { replicas: 9 } });
  await w.settle();
  assert.equal(w.get(Deployment, "shop", "a")?.spec?.replicas, 2);
});

test("a crash at any call leads to the same objects", async () => {
  const w = await world({ controllers: [website] });
  await w.everyCrash(async (each) => void (await each.apply(site(0))));
});
