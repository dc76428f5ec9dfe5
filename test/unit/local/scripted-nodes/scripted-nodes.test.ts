// The scripted nodes: scheduling, pod states, deletion and node leases.
import { expect, test } from "vitest";
import { createInProcessKube } from "../../../../shared/api-server/in-process-client.ts";
import { runScriptedNodes, type ScriptedNodesOptions } from "../../../../shared/api-server/scripted-nodes/scripted-nodes.ts";
import { createSeededRandom } from "../../../../shared/base/memory/random.ts";
import { at, type Fixture, pod, PODS, setUp, START_MS } from "../api-server/fixture.ts";

interface Running extends Fixture {
  readonly stop: () => Promise<void>;
}

async function run(options: Partial<ScriptedNodesOptions> = {}): Promise<Running> {
  const fixture = setUp();
  const ends = new AbortController();
  const kube = createInProcessKube(fixture.server, { component: "nodes" });
  const running = runScriptedNodes(
    kube,
    { count: 3, clock: fixture.clock, random: createSeededRandom(3), bindPods: true, ...options },
    ends.signal,
  );
  await fixture.clock.advance(10);
  return {
    ...fixture,
    stop: async () => {
      ends.abort(new Error("stopped"));
      await running;
      fixture.server.close();
    },
  };
}

async function phases({ get }: Fixture): Promise<string[]> {
  const items = (await get(PODS)).body["items"];
  return Array.isArray(items)
    ? items.map((item) => `${String(at(item, "metadata.name"))} ${String(at(item, "spec.nodeName"))} ${String(at(item, "status.phase"))}`)
    : [];
}

test("nodes are Ready, schedulable, and renew their leases every 10 s", async () => {
  const nodes = await run();
  const { body } = await nodes.get("/api/v1/nodes/scripted-0");
  expect(at(body, "status.allocatable.cpu")).toBe("64");
  expect(at(body, "status.conditions.3")).toMatchObject({ type: "Ready", status: "True" });
  await nodes.clock.advance(25_000);
  const lease = await nodes.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/scripted-0");
  expect(Date.parse(String(at(lease.body, "spec.renewTime")))).toBeGreaterThanOrEqual(START_MS + 20_000);
  await nodes.stop();
});

test("binds neither a pod that is deleted nor a pod that is bound elsewhere during a streamed list", async () => {
  const { server, clock, post, get } = setUp();
  for (const name of ["a", "b"]) await post(PODS, pod(name));
  const [a, b] = [(await get(`${PODS}/a`)).body, (await get(`${PODS}/b`)).body];
  const elsewhere = { ...a, spec: { ...(at(a, "spec") as object), nodeName: "not-ours" } };
  const end = { metadata: { resourceVersion: "9", annotations: { "k8s.io/initial-events-end": "true" } } };
  const lines = [
    ["ADDED", a],
    ["ADDED", b],
    ["DELETED", b],
    ["MODIFIED", elsewhere],
    ["BOOKMARK", end],
  ].map(([type, object]) => JSON.stringify({ type, object }));
  const kube = createInProcessKube(server, { component: "nodes" });
  const ends = new AbortController();
  const streaming: typeof kube = {
    ...kube,
    async *watch(_resource, _query, signal) {
      yield lines;
      await clock.after(1_000_000, signal);
    },
  };
  const options = { count: 3, clock, random: createSeededRandom(3), bindPods: true };
  const running = runScriptedNodes(streaming, options, ends.signal);
  await clock.advance(5_000);
  for (const name of ["a", "b"]) expect(at((await get(`${PODS}/${name}`)).body, "spec.nodeName")).toBeUndefined();
  ends.abort(new Error("stopped"));
  await running;
  server.close();
});

test("spreads pods over the nodes; pods become Running and Ready within a second, with a kubelet's status", async () => {
  const nodes = await run();
  for (const name of ["a", "b", "c"]) await nodes.post(PODS, pod(name));
  await nodes.clock.advance(1_000);
  const seen = await phases(nodes);
  expect(new Set(seen.map((one) => one.split(" ")[1])).size).toBe(3);
  expect(seen.every((one) => one.endsWith("Running"))).toBe(true);
  const { body } = await nodes.get(`${PODS}/a`);
  const conditions = at(body, "status.conditions") as { type: string; status: string; reason?: string }[];
  expect(Object.fromEntries(conditions.map(({ type, status }) => [type, status]))).toEqual({
    PodScheduled: "True",
    PodReadyToStartContainers: "True",
    Initialized: "True",
    Ready: "True",
    ContainersReady: "True",
  });
  expect(conditions.some(({ reason }) => reason !== undefined)).toBe(false);
  expect(at(body, "status.containerStatuses.0")).toMatchObject({
    name: "app",
    image: "app:v1",
    ready: true,
    started: true,
    state: { running: {} },
  });
  expect(at(body, "status.podIP")).toMatch(/^10\./u);
  await nodes.stop();
});

test.each(["bad", "404", "nonexistent"])("an image that cannot be pulled keeps its pod pending: %s", async (tag) => {
  const nodes = await run();
  await nodes.post(PODS, pod("a", {}, { containers: [{ name: "app", image: `app:${tag}` }] }));
  await nodes.clock.advance(60_000);
  const { body } = await nodes.get(`${PODS}/a`);
  expect([at(body, "status.phase"), at(body, "status.containerStatuses.0.state.waiting.reason")]).toEqual(["Pending", "ImagePullBackOff"]);
  await nodes.stop();
});

test("a deleted pod becomes Succeeded after the configured delay, and is removed after the same delay again", async () => {
  const nodes = await run({ deleteAfterMs: [400, 400] });
  await nodes.post(PODS, pod("a"));
  await nodes.clock.advance(1_000);
  await nodes.remove(`${PODS}/a`);
  await nodes.clock.advance(500);
  expect(at((await nodes.get(`${PODS}/a`)).body, "status.phase")).toBe("Succeeded");
  await nodes.clock.advance(500);
  expect((await nodes.get(`${PODS}/a`)).status).toBe(404);
  await nodes.stop();
});

test("a pod deleted before it is ready never becomes ready", async () => {
  const nodes = await run({ readyAfterMs: [500, 500], deleteAfterMs: [100, 100] });
  await nodes.post(PODS, pod("a"));
  await nodes.clock.advance(100);
  const stream = await nodes.watch(PODS, { resourceVersion: nodes.server.resourceVersion });
  await nodes.remove(`${PODS}/a`);
  await nodes.clock.advance(2_000);
  expect(stream.take().map(({ type, object }) => `${type} ${String(at(object, "status.phase"))}`)).not.toContain("MODIFIED Running");
  expect((await nodes.get(`${PODS}/a`)).status).toBe(404);
  await nodes.stop();
});

test("without bindPods, leaves pods to a scheduler, and ignores other nodes' pods", async () => {
  const nodes = await run({ bindPods: false });
  await nodes.post(PODS, pod("a"));
  await nodes.post(PODS, pod("b", {}, { nodeName: "elsewhere" }));
  await nodes.post(PODS, pod("c", {}, { nodeName: "scripted-1" }));
  await nodes.clock.advance(5_000);
  expect(await phases(nodes)).toEqual(["a undefined Pending", "b elsewhere Pending", "c scripted-1 Running"]);
  await nodes.stop();
});

test.each(["closeWatches", "expireWatches"] as const)("the nodes continue after a watch fault: %s", async (fault) => {
  const nodes = await run();
  await nodes.post(PODS, pod("a"));
  await nodes.clock.advance(1_000);
  nodes.server[fault]();
  nodes.server.compact();
  await nodes.post(PODS, pod("b"));
  await nodes.remove(`${PODS}/a`);
  await nodes.clock.advance(15_000);
  expect((await phases(nodes)).map((one) => one.replace(/scripted-\d/u, "n"))).toEqual(["b n Running"]);
  await nodes.stop();
});

test("a second run continues where the first run stopped", async () => {
  const first = await run({ readyAfterMs: [5_000, 5_000] });
  await first.post(PODS, pod("a"));
  await first.clock.advance(1_000);
  expect(at((await first.get(`${PODS}/a`)).body, "status.startTime")).toBeDefined();
  const ends = new AbortController();
  const kube = createInProcessKube(first.server, { component: "nodes" });
  const second = runScriptedNodes(
    kube,
    { count: 3, clock: first.clock, random: createSeededRandom(4), bindPods: true, readyAfterMs: [100, 100] },
    ends.signal,
  );
  await first.clock.advance(1_000);
  expect((await phases(first)).every((one) => one.endsWith("Running"))).toBe(true);
  ends.abort(new Error("stopped"));
  await second;
  await first.stop();
});
