// Would catch: a node at rest that goes through all that it runs twice more each two seconds; what nobody knows that runs on.
import { expect, test } from "vitest";
import { startedNode as node } from "../../../harness/node/node.ts";
import type { NodeRig } from "../../../harness/node/node.ts";

/** One whose pod nobody knows. */
async function strayPod(rig: NodeRig): Promise<string> {
  return await rig.cri.runPodSandbox({
    metadata: { name: "stray", namespace: "default", uid: "stray", attempt: 0 },
    labels: { "io.kubernetes.pod.uid": "stray", "io.kubernetes.pod.name": "stray", "io.kubernetes.pod.namespace": "default" },
  });
}

test("[node-agent 480] asks what runs only where something comes, goes or is foreign", async () => {
  const rig = await node();
  let asked = 0;
  rig.fateOf = ({ verb, args: [filter] }) => {
    if (verb === "listPodSandbox" && JSON.stringify(filter)?.includes("SANDBOX_READY")) asked++;
    return "live";
  };
  await rig.create("web", { containers: [{ name: "app", image: "app:1" }] });
  await rig.until("it runs", () => rig.isReady("web"));
  await rig.advance(4_000);
  asked = 0;
  await rig.advance(60_000);
  expect(asked).toBe(0);

  const id = await strayPod(rig);
  await rig.until("nobody knows it", async () => (await rig.cri.podSandboxStatus(id)).state === "SANDBOX_NOTREADY", 10_000);
  expect(asked).toBeGreaterThan(0);
});

test("[node-agent 494] a left over directory that takes long to remove is removed once, and keeps nothing else from being done", async () => {
  const rig = await node();
  let removals = 0;
  rig.fateOf = ({ verb }) => {
    if (verb !== "removePodDirectory") return "live";
    removals++;
    return { after: rig.clock.after(60_000) };
  };
  await rig.files.makePodDirectories("left-over");
  await rig.until("it is being removed", () => removals > 0, 10_000);
  const id = await strayPod(rig);
  await rig.until("nobody knows it", async () => (await rig.cri.podSandboxStatus(id)).state === "SANDBOX_NOTREADY", 10_000);
  await rig.advance(60_000);
  expect([removals, await rig.files.podsWithDirectories()]).toEqual([1, []]);
});
