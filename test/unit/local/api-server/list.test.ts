// Lists of the in-memory API server: pages, resourceVersions and selectors.
import { expect, test } from "vitest";
import { at, CONFIGMAPS, metaText, PODS, pod, setUp, type Answer } from "./fixture.ts";

function names({ body }: Answer): string[] {
  const items = body["items"];
  return Array.isArray(items) ? items.map((item) => String(at(item, "metadata.name"))) : [];
}

test("returns the same snapshot in all pages, whatever changes in the meantime", async () => {
  const { get, post, remove } = setUp();
  for (const name of ["a", "c", "e"]) await post(CONFIGMAPS, { metadata: { name } });
  const first = await get(CONFIGMAPS, { limit: "1" });
  expect([names(first), at(first.body, "metadata.remainingItemCount")]).toEqual([["a"], 2]);
  await post(CONFIGMAPS, { metadata: { name: "d" } });
  await remove(`${CONFIGMAPS}/e`);
  const second = await get(CONFIGMAPS, { limit: "500", continue: metaText(first.body, "continue") });
  expect(names(second)).toEqual(["c", "e"]);
  expect(metaText(second.body, "resourceVersion")).toBe(metaText(first.body, "resourceVersion"));
});

test("returns 410 for an expired continue token, with a token that continues at the current resourceVersion", async () => {
  const { get, post, server } = setUp();
  for (const name of ["a", "b"]) await post(CONFIGMAPS, { metadata: { name } });
  const first = await get(CONFIGMAPS, { limit: "1" });
  await post(CONFIGMAPS, { metadata: { name: "c" } });
  server.compact();
  const second = await get(CONFIGMAPS, { limit: "1", continue: metaText(first.body, "continue") });
  expect([second.status, second.body["reason"]]).toEqual([410, "Expired"]);
  const rest = await get(CONFIGMAPS, { continue: metaText(second.body, "continue") });
  expect([names(rest), metaText(rest.body, "resourceVersion")]).toEqual([["b", "c"], server.resourceVersion]);
});

test("returns the state at exactly the requested resourceVersion for resourceVersionMatch=Exact, or 410", async () => {
  const { get, post, server } = setUp();
  const { body } = await post(CONFIGMAPS, { metadata: { name: "a" } });
  await post(CONFIGMAPS, { metadata: { name: "b" } });
  const query = { resourceVersion: metaText(body, "resourceVersion"), resourceVersionMatch: "Exact" };
  expect(names(await get(CONFIGMAPS, query))).toEqual(["a"]);
  expect(names(await get(CONFIGMAPS, { ...query, resourceVersionMatch: "NotOlderThan" }))).toEqual(["a", "b"]);
  server.compact();
  expect((await get(CONFIGMAPS, query)).status).toBe(410);
});

test("waits three seconds for a future resourceVersion, then returns 504 with the cause", async () => {
  const { get, clock, server } = setUp();
  const asked = String(BigInt(server.resourceVersion) + 5n);
  const answer = get(CONFIGMAPS, { resourceVersion: asked, resourceVersionMatch: "NotOlderThan" });
  await clock.advance(3_000);
  expect(await answer).toMatchObject({
    status: 504,
    body: {
      reason: "Timeout",
      message: `Timeout: Too large resource version: ${asked}, current: ${server.resourceVersion}`,
      details: { causes: [{ reason: "ResourceVersionTooLarge" }] },
    },
  });
});

test("responds immediately when the resourceVersion is reached", async () => {
  const { get, post, server } = setUp();
  const answer = get(CONFIGMAPS, { resourceVersion: String(BigInt(server.resourceVersion) + 1n) });
  await post(CONFIGMAPS, { metadata: { name: "a" } });
  expect(names(await answer)).toEqual(["a"]);
});

test.each([
  ["app=web", ["p1", "p2"]],
  ["app==web,tier!=db", ["p1"]],
  ["tier", ["p2"]],
  ["!tier", ["p1", "p3"]],
  ["app in (web, api)", ["p1", "p2", "p3"]],
  ["app notin (web),!tier", ["p3"]],
  ["constructor", []],
  ["!constructor,app=api", ["p3"]],
])("selects by labels: %s", async (labelSelector, want) => {
  const { get, post } = setUp();
  await post(PODS, pod("p1", { labels: { app: "web" } }));
  await post(PODS, pod("p2", { labels: { app: "web", tier: "db" } }));
  await post(PODS, pod("p3", { labels: { app: "api" } }));
  expect(names(await get(PODS, { labelSelector }))).toEqual(want);
});

test.each([
  { query: { labelSelector: "a b" }, code: 400 },
  { query: { fieldSelector: "spec.foo=1" }, code: 400 },
  { query: { resourceVersion: "abc" }, code: 400 },
  { query: { continue: "zzz" }, code: 400 },
  { query: { resourceVersionMatch: "Exact" }, code: 422 },
])("rejects $query with $code", async ({ query, code }) => {
  const { get } = setUp();
  expect((await get(PODS, query as unknown as Record<string, string>)).status).toBe(code);
});

test("keeps resourceVersions beyond 2^53 exact", async () => {
  const { post, get } = setUp({ firstRevision: 9_007_199_254_740_993n });
  const a = await post(CONFIGMAPS, { metadata: { name: "a" } });
  await post(CONFIGMAPS, { metadata: { name: "b" } });
  const query = { resourceVersion: metaText(a.body, "resourceVersion"), resourceVersionMatch: "Exact" };
  expect(names(await get(CONFIGMAPS, query))).toEqual(["a"]);
});
