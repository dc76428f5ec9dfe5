// Watches of the in-memory API server: events, selectors, history and bookmarks.
import { expect, test } from "vitest";
import { at, CONFIGMAPS, events, MERGE, metaText, pod, PODS, setUp } from "./fixture.ts";

test("a watch from a resourceVersion contains exactly the later changes", async () => {
  const { post, patch, remove, watch } = setUp();
  const first = await post(CONFIGMAPS, { metadata: { name: "a" } });
  await post(CONFIGMAPS, { metadata: { name: "b" } });
  const stream = await watch(CONFIGMAPS, { resourceVersion: metaText(first.body, "resourceVersion") });
  await patch(`${CONFIGMAPS}/a`, MERGE, { data: { x: "1" } });
  const gone = await remove(`${CONFIGMAPS}/b`);
  expect(gone.body).toMatchObject({ kind: "Status", status: "Success" });
  expect(events(stream)).toEqual(["ADDED b", "MODIFIED a", "DELETED b"]);
});

test("the resourceVersion of a DELETED event is that of the deletion", async () => {
  const { post, remove, watch, server } = setUp();
  await post(CONFIGMAPS, { metadata: { name: "a" } });
  const stream = await watch(CONFIGMAPS, { resourceVersion: server.resourceVersion });
  await remove(`${CONFIGMAPS}/a`);
  expect(stream.take().map(({ object }) => metaText(object, "resourceVersion"))).toEqual([server.resourceVersion]);
});

test.each([{ query: {} }, { query: { resourceVersion: "0" } }])(
  "a watch with resourceVersion unset or 0 starts with synthetic ADDED events: $query",
  async ({ query }) => {
    const { post, watch } = setUp();
    await post(CONFIGMAPS, { metadata: { name: "a" } });
    const stream = await watch(CONFIGMAPS, query);
    await post(CONFIGMAPS, { metadata: { name: "b" } });
    expect(events(stream)).toEqual(["ADDED a", "ADDED b"]);
  },
);

test("WatchList ends its initial events with a marked bookmark", async () => {
  const { post, watch } = setUp();
  await post(CONFIGMAPS, { metadata: { name: "a" } });
  const stream = await watch(CONFIGMAPS, { sendInitialEvents: "true", resourceVersionMatch: "NotOlderThan", allowWatchBookmarks: "true" });
  const [added, bookmark] = stream.take();
  expect(added?.type).toBe("ADDED");
  expect(bookmark).toMatchObject({
    type: "BOOKMARK",
    object: { kind: "ConfigMap", apiVersion: "v1", metadata: { annotations: { "k8s.io/initial-events-end": "true" } } },
  });
});

test("sends DELETED for an object that stops matching a selector, and ADDED for one that starts to match", async () => {
  const { post, patch, watch, server } = setUp();
  await post(PODS, pod("p", { labels: { app: "a" } }));
  const stream = await watch(PODS, { labelSelector: "app=a", resourceVersion: server.resourceVersion });
  await patch(`${PODS}/p`, MERGE, { metadata: { labels: { app: "b" } } });
  const [gone] = stream.take();
  expect(gone?.type).toBe("DELETED");
  expect(at(gone, "object.metadata.labels")).toEqual({ app: "a" });
  expect(at(gone, "object.metadata.resourceVersion")).toBe(server.resourceVersion);
  await patch(`${PODS}/p`, MERGE, { metadata: { labels: { app: "b", x: "y" } } });
  await patch(`${PODS}/p`, MERGE, { metadata: { labels: { app: "a" } } });
  expect(events(stream)).toEqual(["ADDED p"]);
});

test.each([
  { selector: "metadata.name=p", want: ["p"] },
  { selector: "spec.nodeName=", want: ["p", "q"] },
  { selector: "spec.nodeName!=", want: ["r"] },
  { selector: "status.phase=Pending,metadata.namespace=default", want: ["p", "q", "r"] },
])("a watch selects objects by field selector $selector", async ({ selector, want }) => {
  const { post, watch } = setUp();
  for (const name of ["p", "q"]) await post(PODS, pod(name));
  await post(PODS, pod("r", {}, { nodeName: "n1" }));
  expect(events(await watch(PODS, { fieldSelector: selector }))).toEqual(want.map((name) => `ADDED ${name}`));
});

test("sends an ERROR event with 410 for a compacted resourceVersion, and ends the stream", async () => {
  const { post, watch, server } = setUp();
  const { body } = await post(CONFIGMAPS, { metadata: { name: "a" } });
  await post(CONFIGMAPS, { metadata: { name: "b" } });
  server.compact();
  const stream = await watch(CONFIGMAPS, { resourceVersion: metaText(body, "resourceVersion") });
  expect(stream.take()).toMatchObject([
    {
      type: "ERROR",
      object: { kind: "Status", code: 410, reason: "Expired", message: expect.stringContaining("too old resource version: ") },
    },
  ]);
  expect(stream.ended.aborted).toBe(true);
});

test("compacts old events when newer ones arrive", async () => {
  const { post, patch, watch } = setUp({ historyEvents: 10 });
  const { body } = await post(CONFIGMAPS, { metadata: { name: "a" } });
  for (let i = 0; i < 30; i += 1) await patch(`${CONFIGMAPS}/a`, MERGE, { data: { i: String(i) } });
  expect(events(await watch(CONFIGMAPS, { resourceVersion: metaText(body, "resourceVersion") }))).toEqual(["ERROR 410"]);
});

test("sends bookmarks each minute and before the deadline, and then ends the watch", async () => {
  const { watch, clock, server } = setUp();
  const stream = await watch(CONFIGMAPS, { resourceVersion: server.resourceVersion, allowWatchBookmarks: "true", timeoutSeconds: "150" });
  const seen: string[] = [];
  for (const until of [60, 120, 148, 150]) {
    await clock.advance(until * 1000 - (clock.now() - Date.UTC(2026, 0, 2, 3, 4, 5)));
    seen.push(`${until}: ${events(stream).join()}${stream.ended.aborted ? " end" : ""}`);
  }
  expect(seen).toEqual(["60: BOOKMARK", "120: BOOKMARK", "148: BOOKMARK", "150:  end"]);
});

test("ends the watch of a slow reader", async () => {
  const { post, watch } = setUp({ watchBufferEvents: 3 });
  const stream = await watch(CONFIGMAPS);
  for (const name of ["a", "b", "c", "d"]) await post(CONFIGMAPS, { metadata: { name } });
  expect(stream.ended.aborted).toBe(true);
});

test("a stream can be read with for await, and ends with the server", async () => {
  const { post, watch, server } = setUp();
  const stream = await watch(CONFIGMAPS);
  await post(CONFIGMAPS, { metadata: { name: "a" } });
  const seen: string[] = [];
  const reading = (async () => {
    for await (const { object } of stream) seen.push(metaText(object, "name"));
  })();
  await post(CONFIGMAPS, { metadata: { name: "b" } });
  server.close();
  await reading;
  expect(seen).toEqual(["a", "b"]);
});
