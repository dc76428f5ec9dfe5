// Would catch: an idle node that lists all running pods two additional times every two seconds, and an unknown pod that keeps running.
import { expect, test } from "vitest";
import { startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness } from "../../../harness/node/node.ts";

/** Creates a running pod that the agent does not know. */
async function strayPod(node: NodeHarness): Promise<string> {
  return await node.cri.runPodSandbox({
    metadata: { name: "stray", namespace: "default", uid: "stray", attempt: 0 },
    labels: { "io.kubernetes.pod.uid": "stray", "io.kubernetes.pod.name": "stray", "io.kubernetes.pod.namespace": "default" },
  });
}

test("[node-agent 480] lists running pods only if pods start, end or are unknown", async () => {
  const node = await startedNode();
  let asked = 0;
  node.fateOf = ({ verb, args: [filter] }) => {
    if (verb === "listPodSandbox" && JSON.stringify(filter)?.includes("SANDBOX_READY")) asked++;
    return "live";
  };
  await node.create("web", { containers: [{ name: "app", image: "app:1" }] });
  await node.until("it runs", () => node.isReady("web"));
  await node.advance(4_000);
  asked = 0;
  await node.advance(60_000);
  expect(asked).toBe(0);

  const id = await strayPod(node);
  await node.until("nobody knows it", async () => (await node.cri.podSandboxStatus(id)).state === "SANDBOX_NOTREADY", 10_000);
  expect(asked).toBeGreaterThan(0);
});

test("[node-agent 494] removes a leftover directory once, in parallel with its other work", async () => {
  const node = await startedNode();
  let removals = 0;
  node.fateOf = ({ verb }) => {
    if (verb !== "removePodDirectory") return "live";
    removals++;
    return { after: node.clock.after(60_000) };
  };
  await node.files.makePodDirectories("left-over");
  await node.until("it is being removed", () => removals > 0, 10_000);
  const id = await strayPod(node);
  await node.until("nobody knows it", async () => (await node.cri.podSandboxStatus(id)).state === "SANDBOX_NOTREADY", 10_000);
  await node.advance(60_000);
  expect([removals, await node.files.podsWithDirectories()]).toEqual([1, []]);
});
