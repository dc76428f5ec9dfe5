// Would catch: a container or volume whose name is that of a member of every object, and that is taken for something which is there.
import { describe, expect, test } from "vitest";
import type { ContainerStatusEntry } from "../../../../shared/kubelet/pod.ts";
import { startedNode as node } from "../../../harness/node/node.ts";
import type { NodeRig } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
/** A DNS label, and a member of every object. */
const NAME = "constructor";

function status(rig: NodeRig): ContainerStatusEntry | undefined {
  return rig.pod("p")?.status?.containerStatuses?.find(({ name }) => name === NAME);
}

describe("[node-agent 487] a container named constructor", () => {
  test("waits with a reason while it is made", async () => {
    const rig = await node({ remoteImages: { "late:1": { pullMs: 30 * SECONDS } } });
    await rig.create("p", { containers: [{ name: NAME, image: "late:1" }] });
    await rig.advance(10 * SECONDS);
    expect(status(rig)?.state).toEqual({ waiting: { reason: "ContainerCreating" } });
    await rig.until("ready", () => rig.isReady("p"));
    expect(await rig.agent.ports.store.rows("reasons")).toEqual(new Map());
  });

  test("is restarted at the first try, and then with back-off", async () => {
    const rig = await node({ images: { "fails:1": { exitAfterMs: SECONDS, exitCode: 1 } } });
    await rig.create("p", { containers: [{ name: NAME, image: "fails:1" }] });
    await rig.until("it waits", () => status(rig)?.state?.waiting?.reason === "CrashLoopBackOff");
    await rig.until("again", () => (status(rig)?.restartCount ?? 0) >= 2);
  });

  test("is resized", async () => {
    const rig = await node();
    const resources = { requests: { cpu: "100m" } };
    await rig.create("p", { containers: [{ name: NAME, image: "app:1", resources }] });
    await rig.until("ready", () => rig.isReady("p"));
    await rig.patch("p", { spec: { containers: [{ name: NAME, resources: { requests: { cpu: "200m" } } }] } }, "/resize");
    await rig.until("resized", () => status(rig)?.resources?.requests?.["cpu"] === "200m");
  });
});

test("[node-agent 487] a volume named constructor that cannot be mounted keeps its container from being started", async () => {
  const rig = await node();
  const volumes = [{ name: NAME, configMap: { name: "none" } }];
  await rig.create("p", { volumes, containers: [{ name: "app", image: "app:1", volumeMounts: [{ name: NAME, mountPath: "/x" }] }] });
  await rig.advance(20 * SECONDS);
  expect(rig.pod("p")?.status?.containerStatuses?.[0]?.state).toEqual({ waiting: { reason: "ContainerCreating" } });
});
