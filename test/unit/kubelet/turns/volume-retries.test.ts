// Would catch: a pod that waits long for a volume whose trouble has passed, a trouble asked after without end, two hands at one volume.
import { expect, test } from "vitest";
import { NodeFilesError } from "../../../../shared/ports/node-files.ts";
import { startedNode as node } from "../../../harness/node/node.ts";
import type { NodeRig } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
const TROUBLE = new NodeFilesError("the disk says no");
const APP = { name: "app", image: "app:1" };
const DATA = { containers: [APP], volumes: [{ name: "data", emptyDir: {} }] };
const SETTINGS = { containers: [APP], volumes: [{ name: "settings", configMap: { name: "settings" } }] };

/** When the agent called `verb` of NodeFiles; as long as `fails` says so, in vain. */
function watched(rig: NodeRig, verb: string, fails: (count: number) => boolean): readonly number[] {
  const times: number[] = [];
  rig.fateOf = (call) => {
    if (call.port !== "files" || call.verb !== verb) return "live";
    times.push(rig.clock.now());
    return fails(times.length) ? { fail: TROUBLE } : "live";
  };
  return times;
}

const gaps = (times: readonly number[]): readonly number[] => times.slice(1).map((atMs, index) => atMs - (times[index] ?? Number.NaN));

function mountEvents(rig: NodeRig): number {
  return rig.requests.filter(({ body }) => (body as { readonly reason?: string } | undefined)?.reason === "FailedMount").length;
}

test("[node-agent 134] a volume whose trouble passes is tried again after half a second, and then after a second", async () => {
  const rig = await node();
  const times = watched(rig, "makeEmptyDir", (count) => count <= 2);
  await rig.create("p", DATA);
  await rig.until("ready", () => rig.isReady("p"), 5 * SECONDS);
  expect(gaps(times.slice(0, 3))).toEqual([500, 1000]);
  expect(mountEvents(rig)).toBeGreaterThan(0);
});

test("[node-agent 134] while the trouble lasts the wait doubles, up to 122 s; once it has passed the next one begins anew", async () => {
  const rig = await node();
  let isBroken = true;
  const times = watched(rig, "makeEmptyDir", () => isBroken);
  const uid = await rig.create("p", DATA);
  await rig.advance(900 * SECONDS);
  const wanted = [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122];
  for (const [index, gap] of gaps(times).slice(0, wanted.length).entries()) {
    const least = (wanted[index] ?? 0) * SECONDS;
    expect.soft(gap, `wait ${index}`).toBeGreaterThanOrEqual(least);
    expect.soft(gap, `wait ${index}`).toBeLessThanOrEqual(least + 1.1 * SECONDS); // the tick's
  }
  expect(gaps(times).length).toBeGreaterThanOrEqual(9);
  isBroken = false;
  await rig.until("ready", () => rig.isReady("p"), 250 * SECONDS);
  const backOffs = [...(await rig.agent.ports.store.rows("backOffs")).keys()];
  expect(backOffs.filter((key) => key.startsWith(uid))).toEqual([]);
});

test("[node-agent 134] a message that comes during the wait tries nothing, and says nothing", async () => {
  const rig = await node();
  const times = watched(rig, "makeEmptyDir", () => true);
  const uid = await rig.create("p", DATA);
  await rig.until("the wait is long", () => times.length === 5);
  await rig.advance(SECONDS);
  const [tried, said] = [times.length, mountEvents(rig)];
  rig.agent.ports.send("pods", uid, "once more");
  await rig.patch("p", { metadata: { labels: { a: "b" } } });
  await rig.advance(2 * SECONDS);
  expect([times.length, mountEvents(rig)]).toEqual([tried, said]);
});

test("[node-agent 134] a ConfigMap that comes a second after its pod is seen within a second more", async () => {
  const rig = await node();
  await rig.create("p", SETTINGS);
  await rig.advance(SECONDS);
  const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data: { a: "b" } };
  await rig.server.request({ method: "POST", path: "/api/v1/namespaces/default/configmaps", body });
  await rig.until("ready", () => rig.isReady("p"), 2.5 * SECONDS);
});

test("[node-agent 134] a pod that is deleted while it waits for a volume waits no more", async () => {
  const rig = await node();
  const times = watched(rig, "makeEmptyDir", () => true);
  await rig.create("p", DATA);
  await rig.until("it waits", () => times.length >= 1);
  await rig.delete("p");
  await rig.until("gone", () => rig.pod("p") === undefined, 3 * SECONDS);
});

test("[node-agent 135] a volume that cannot be taken away is tried again after half a second", async () => {
  const rig = await node();
  const times = watched(rig, "removePodDirectory", (count) => count <= 2);
  await rig.create("p", DATA);
  await rig.until("ready", () => rig.isReady("p"));
  await rig.delete("p");
  await rig.until("gone", () => rig.pod("p") === undefined, 6 * SECONDS);
  expect(gaps(times)).toEqual([500, 1000]);
});

test("[node-agent 135] as long as a pod's worker takes its volumes away, housekeeping does not", async () => {
  const rig = await node();
  await rig.create("p", DATA);
  await rig.until("ready", () => rig.isReady("p"));
  let removals = 0;
  rig.fateOf = ({ port, verb }) => {
    if (port !== "files" || verb !== "removePodDirectory") return "live";
    removals++;
    return { after: rig.clock.after(9 * SECONDS) };
  };
  await rig.delete("p", 0); // it is desired no longer at once
  await rig.until("it is taken away", () => removals > 0);
  await rig.advance(8 * SECONDS);
  expect(removals).toBe(1);
  await rig.advance(30 * SECONDS);
  expect([removals, await rig.files.podsWithDirectories()]).toEqual([1, []]);
});

test("[node-agent 494] volumes that take a minute to remove hold no turn, and their pod goes when they are gone", async () => {
  const rig = await node();
  await rig.create("p", DATA);
  await rig.until("ready", () => rig.isReady("p"));
  let removals = 0;
  rig.fateOf = ({ verb }) => {
    if (verb !== "removePodDirectory") return "live";
    removals++;
    return { after: rig.clock.after(60 * SECONDS) };
  };
  await rig.delete("p");
  await rig.until("it is taken away", () => removals > 0);
  await rig.until("no turn waits", () => rig.agent.queues.pods.size === 0, 10 * SECONDS);
  await rig.advance(45 * SECONDS);
  expect(rig.pod("p")).toBeDefined();
  await rig.until("gone", () => rig.pod("p") === undefined, 12 * SECONDS);
  expect(removals).toBe(1);
});
