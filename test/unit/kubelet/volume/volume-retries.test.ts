// Would catch: a pod that waits long for a repaired volume, unlimited retries, and concurrent changes of one volume.
import { expect, test } from "vitest";
import { NodeFilesError } from "../../../../shared/node-agent/ports/node-files.ts";
import { startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
const TROUBLE = new NodeFilesError("the disk says no");
const APP = { name: "app", image: "app:1" };
const DATA = { containers: [APP], volumes: [{ name: "data", emptyDir: {} }] };
const SETTINGS = { containers: [APP], volumes: [{ name: "settings", configMap: { name: "settings" } }] };

/** Returns the times of the calls of `verb` of NodeFiles, which fail while `fails` returns true. */
function watched(node: NodeHarness, verb: string, fails: (count: number) => boolean): readonly number[] {
  const times: number[] = [];
  node.fateOf = (call) => {
    if (call.port !== "files" || call.verb !== verb) return "live";
    times.push(node.clock.now());
    return fails(times.length) ? { fail: TROUBLE } : "live";
  };
  return times;
}

const gaps = (times: readonly number[]): readonly number[] => times.slice(1).map((atMs, index) => atMs - (times[index] ?? Number.NaN));

function mountEvents(node: NodeHarness): number {
  return node.requests.filter(({ body }) => (body as { readonly reason?: string } | undefined)?.reason === "FailedMount").length;
}

test("[node-agent 134] retries a failed volume after half a second, and then after a second", async () => {
  const node = await startedNode();
  const times = watched(node, "makeEmptyDir", (count) => count <= 2);
  await node.create("p", DATA);
  await node.until("ready", () => node.isReady("p"), 5 * SECONDS);
  expect(gaps(times.slice(0, 3))).toEqual([500, 1000]);
  expect(mountEvents(node)).toBeGreaterThan(0);
});

test("[node-agent 134] doubles the delay up to 122 s while the failure lasts, and resets it after a success", async () => {
  const node = await startedNode();
  let isBroken = true;
  const times = watched(node, "makeEmptyDir", () => isBroken);
  const uid = await node.create("p", DATA);
  await node.advance(900 * SECONDS);
  const wanted = [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122];
  for (const [index, gap] of gaps(times).slice(0, wanted.length).entries()) {
    const least = (wanted[index] ?? 0) * SECONDS;
    expect.soft(gap, `wait ${index}`).toBeGreaterThanOrEqual(least);
    expect.soft(gap, `wait ${index}`).toBeLessThanOrEqual(least + 1.1 * SECONDS); // plus the duration of a tick
  }
  expect(gaps(times).length).toBeGreaterThanOrEqual(9);
  isBroken = false;
  await node.until("ready", () => node.isReady("p"), 250 * SECONDS);
  const backOffs = [...(await node.agent.ports.store.rows("backOffs")).keys()];
  expect(backOffs.filter((key) => key.startsWith(uid))).toEqual([]);
});

test("[node-agent 134] a message during the delay starts no attempt and emits no Event", async () => {
  const node = await startedNode();
  const times = watched(node, "makeEmptyDir", () => true);
  const uid = await node.create("p", DATA);
  await node.until("the wait is long", () => times.length === 5);
  await node.advance(SECONDS);
  const [tried, said] = [times.length, mountEvents(node)];
  node.agent.ports.send("pods", uid, "once more");
  await node.patch("p", { metadata: { labels: { a: "b" } } });
  await node.advance(2 * SECONDS);
  expect([times.length, mountEvents(node)]).toEqual([tried, said]);
});

test("[node-agent 134] mounts a ConfigMap that is created a second after its pod within 2.5 s of its creation", async () => {
  const node = await startedNode();
  await node.create("p", SETTINGS);
  await node.advance(SECONDS);
  const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data: { a: "b" } };
  await node.server.request({ method: "POST", path: "/api/v1/namespaces/default/configmaps", body });
  await node.until("ready", () => node.isReady("p"), 2.5 * SECONDS);
});

test("[node-agent 134] stops waiting for a volume when the pod is deleted", async () => {
  const node = await startedNode();
  const times = watched(node, "makeEmptyDir", () => true);
  await node.create("p", DATA);
  await node.until("it waits", () => times.length >= 1);
  await node.delete("p");
  await node.until("gone", () => node.pod("p") === undefined, 3 * SECONDS);
});

test("[node-agent 135] retries a failed removal after half a second", async () => {
  const node = await startedNode();
  const times = watched(node, "removePodDirectory", (count) => count <= 2);
  await node.create("p", DATA);
  await node.until("ready", () => node.isReady("p"));
  await node.delete("p");
  await node.until("gone", () => node.pod("p") === undefined, 6 * SECONDS);
  expect(gaps(times)).toEqual([500, 1000]);
});

test("[node-agent 135] housekeeping does not remove volumes while the pod's worker does", async () => {
  const node = await startedNode();
  await node.create("p", DATA);
  await node.until("ready", () => node.isReady("p"));
  let removals = 0;
  node.fateOf = ({ port, verb }) => {
    if (port !== "files" || verb !== "removePodDirectory") return "live";
    removals++;
    return { after: node.clock.after(9 * SECONDS) };
  };
  await node.delete("p", 0); // the pod is undesired immediately
  await node.until("it is taken away", () => removals > 0);
  await node.advance(8 * SECONDS);
  expect(removals).toBe(1);
  await node.advance(30 * SECONDS);
  expect([removals, await node.files.podsWithDirectories()]).toEqual([1, []]);
});

test("[node-agent 494] volumes that take a minute to remove block no sync iteration, and their pod finishes afterwards", async () => {
  const node = await startedNode();
  await node.create("p", DATA);
  await node.until("ready", () => node.isReady("p"));
  let removals = 0;
  node.fateOf = ({ verb }) => {
    if (verb !== "removePodDirectory") return "live";
    removals++;
    return { after: node.clock.after(60 * SECONDS) };
  };
  await node.delete("p");
  await node.until("it is taken away", () => removals > 0);
  await node.until("no turn waits", () => node.agent.queues.pods.size === 0, 10 * SECONDS);
  await node.advance(45 * SECONDS);
  expect(node.pod("p")).toBeDefined();
  await node.until("gone", () => node.pod("p") === undefined, 12 * SECONDS);
  expect(removals).toBe(1);
});
