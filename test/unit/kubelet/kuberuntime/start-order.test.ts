// Would catch: a container that starts before an earlier container of its pod, or that waits for one that cannot start.
import { expect, test } from "vitest";
import { startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
const APP = { name: "app", image: "app:1" };

/** Returns the time at which each container was first requested, in order. */
function created(node: NodeHarness): readonly (readonly [string, number])[] {
  return node.calls.flatMap(({ verb, args, atMs }) =>
    verb === "createContainer" ? [[(args[1] as { readonly metadata: { readonly name: string } }).metadata.name, atMs] as const] : [],
  );
}

function pulls(node: NodeHarness): readonly (readonly [string, number])[] {
  return node.calls.flatMap(({ verb, args, atMs }) =>
    verb === "pullImage" ? [[(args[0] as { readonly image: string }).image, atMs] as const] : [],
  );
}

test("[node-agent 131] starts an app container only after the preceding proxy's image was pulled and its postStart hook has ended", async () => {
  let hookEndedMs = Number.NaN;
  const exec = () => {
    hookEndedMs = node.clock.now() + 5 * SECONDS;
    return { afterMs: 5 * SECONDS };
  };
  const node: NodeHarness = await startedNode({ remoteImages: { "proxy:1": { pullMs: 8 * SECONDS, exec } } });
  const lifecycle = { postStart: { exec: { command: ["wait"] } } };
  await node.create("p", { containers: [{ name: "proxy", image: "proxy:1", lifecycle }, APP] });
  await node.until("ready", () => node.isReady("p"));
  expect(created(node).map(([name]) => name)).toEqual(["proxy", "app"]);
  expect(created(node)[1]?.[1]).toBeGreaterThanOrEqual(hookEndedMs);
});

test("[node-agent 131] pulls the images of one pod one at a time, in spec order", async () => {
  const node = await startedNode({
    remoteImages: { "a:1": { pullMs: 8 * SECONDS }, "b:1": { pullMs: SECONDS }, "c:1": { pullMs: SECONDS } },
  });
  await node.create("p", { containers: ["a", "b", "c"].map((name) => ({ name, image: `${name}:1` })) });
  await node.until("ready", () => node.isReady("p"));
  expect(pulls(node).map(([image]) => image)).toEqual(["a:1", "b:1", "c:1"]);
  const [first = 0, second = 0, third = 0] = pulls(node).map(([, atMs]) => atMs);
  expect(second - first).toBeGreaterThanOrEqual(8 * SECONDS);
  expect(third - second).toBeGreaterThanOrEqual(SECONDS);
});

test("[node-agent 131] a failing pull does not block other containers, even during its back-off", async () => {
  const node = await startedNode({
    remoteImages: { "bad:1": { pullMs: 4 * SECONDS, pullError: "no such image" }, "b:1": { pullMs: SECONDS } },
  });
  const uid = await node.create("p", { containers: [{ name: "bad", image: "bad:1" }, { name: "b", image: "b:1" }, APP] });
  await node.until("the others run", async () => (await node.running(uid)).length === 2, 10 * SECONDS);
  expect(created(node).map(([name]) => name)).toEqual(["b", "app"]);
  const bad = node.pod("p")?.status?.containerStatuses?.find(({ name }) => name === "bad");
  expect(bad?.state?.waiting?.reason).toBe("ErrImagePull");
});

test("[node-agent 132] restarts containers with present images during a pull, while another pull waits", async () => {
  const node = await startedNode({
    images: { "ends:1": { exitAfterMs: 5 * SECONDS } },
    remoteImages: { "slow:1": { pullMs: 30 * SECONDS }, "always:1": { exitAfterMs: 5 * SECONDS } },
  });
  const always = { name: "always", image: "always:1", imagePullPolicy: "Always" };
  await node.create("p", { containers: [{ name: "first", image: "ends:1" }, always, { name: "slow", image: "slow:1" }] });
  await node.until("the slow one is made", () => created(node).some(([name]) => name === "slow"));
  const slowPullMs = pulls(node).find(([image]) => image === "slow:1")?.[1] ?? Number.NaN;
  const between = (list: readonly (readonly [string, number])[]): readonly string[] =>
    list.flatMap(([what, atMs]) => (atMs > slowPullMs && atMs < slowPullMs + 30 * SECONDS ? [what] : []));
  expect(between(created(node))).toContain("first");
  expect(between(pulls(node))).toEqual([]);
});
