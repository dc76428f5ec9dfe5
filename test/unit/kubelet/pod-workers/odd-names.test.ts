// Would catch: a container or volume whose name equals a member of every JavaScript object and is therefore looked up as that member.
import { describe, expect, test } from "vitest";
import type { ContainerStatusEntry } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
/** A valid DNS label that is also a member of every object. */
const NAME = "constructor";

function status(node: NodeHarness): ContainerStatusEntry | undefined {
  return node.pod("p")?.status?.containerStatuses?.find(({ name }) => name === NAME);
}

describe("[node-agent 487] a container named constructor", () => {
  test("a container named constructor waits with a reason during creation", async () => {
    const node = await startedNode({ remoteImages: { "late:1": { pullMs: 30 * SECONDS } } });
    await node.create("p", { containers: [{ name: NAME, image: "late:1" }] });
    await node.advance(10 * SECONDS);
    expect(status(node)?.state).toEqual({ waiting: { reason: "ContainerCreating" } });
    await node.until("ready", () => node.isReady("p"));
    expect(await node.agent.ports.store.rows("reasons")).toEqual(new Map());
  });

  test("a container named constructor has its restarts counted and delayed like any other", async () => {
    const node = await startedNode({ images: { "fails:1": { exitAfterMs: SECONDS, exitCode: 1 } } });
    await node.create("p", { containers: [{ name: NAME, image: "fails:1" }] });
    await node.until("it waits", () => status(node)?.state?.waiting?.reason === "CrashLoopBackOff");
    await node.until("again", () => (status(node)?.restartCount ?? 0) >= 2);
  });

  test("a container named constructor is resized", async () => {
    const node = await startedNode();
    const resources = { requests: { cpu: "100m" } };
    await node.create("p", { containers: [{ name: NAME, image: "app:1", resources }] });
    await node.until("ready", () => node.isReady("p"));
    await node.patch("p", { spec: { containers: [{ name: NAME, resources: { requests: { cpu: "200m" } } }] } }, "/resize");
    await node.until("resized", () => status(node)?.resources?.requests?.["cpu"] === "200m");
  });
});

test("[node-agent 487] a volume named constructor that cannot be mounted prevents the start of its container", async () => {
  const node = await startedNode();
  const volumes = [{ name: NAME, configMap: { name: "none" } }];
  await node.create("p", { volumes, containers: [{ name: "app", image: "app:1", volumeMounts: [{ name: NAME, mountPath: "/x" }] }] });
  await node.advance(20 * SECONDS);
  expect(node.pod("p")?.status?.containerStatuses?.[0]?.state).toEqual({ waiting: { reason: "ContainerCreating" } });
});
