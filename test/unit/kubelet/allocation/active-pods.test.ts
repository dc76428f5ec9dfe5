// Would catch: resources that stay reserved for a pod that will never use them, and resources that are given to another pod while their pod
// still runs.
import { expect, test } from "vitest";
import { NodeHarness, startedNode } from "../../../harness/node/node.ts";

const SECONDS = 1_000;

/** A container that requests this many of the node's 64 CPUs. */
const asking = (cpu: number, image = "app:1") => ({ name: "app", image, resources: { requests: { cpu: String(cpu) } } });

test("[node-agent 133] a rejected pod takes no resources away from another pod in the same list", async () => {
  const node = new NodeHarness();
  await node.create("a-big", { containers: [asking(70)] });
  await node.create("b-small", { containers: [asking(1)] });
  node.start();
  await node.until("both are decided", () => node.phase("a-big") === "Failed" && node.phase("b-small") !== "Pending");
  expect(node.pod("a-big")?.status?.reason).toBe("OutOfcpu");
  expect(node.isReady("b-small")).toBe(true);
});

test("[node-agent 133] a static pod that has ended releases its resources", async () => {
  const node = await startedNode({ manifests: true, images: { "ends:1": { exitAfterMs: 2 * SECONDS } } });
  node.setManifest("job.yaml", { name: "job", spec: { restartPolicy: "Never", containers: [asking(60, "ends:1")] } });
  await node.until("it runs", () => node.phase("job-n1") === "Running");
  await node.create("early", { containers: [asking(60)] });
  await node.until("no room yet", () => node.phase("early") === "Failed");
  await node.until("it ended", () => node.phase("job-n1") === "Succeeded");
  await node.advance(2 * SECONDS);
  await node.create("late", { containers: [asking(60)] });
  await node.until("it has the room", () => node.isReady("late"));
});

test("[node-agent 133] a failed pod keeps its resources until its containers have stopped", async () => {
  const node = await startedNode({ images: { "slow:1": { stopAfterMs: 10 * SECONDS } } });
  const uid = await node.create("ends", { containers: [asking(60, "slow:1")] });
  await node.until("it runs", () => node.isReady("ends"));
  await node.patch("ends", { status: { phase: "Failed" } }, "/status");
  await node.advance(3 * SECONDS);
  expect(await node.running(uid)).toEqual(["app"]);
  await node.create("early", { containers: [asking(60)] });
  await node.until("no room yet", () => node.pod("early")?.status?.reason === "OutOfcpu", 3 * SECONDS);
  await node.until("it has ended", async () => (await node.running(uid)).length === 0);
  await node.advance(2 * SECONDS);
  await node.create("late", { containers: [asking(60)] });
  await node.until("it has the room", () => node.isReady("late"));
});

test("[node-agent 133] pods that ended earlier use no resources after an agent restart", async () => {
  const node = await startedNode({ images: { "ends:1": { exitAfterMs: SECONDS } } });
  await node.create("a-ended", { restartPolicy: "Never", containers: [asking(60, "ends:1")] });
  await node.until("it ended", () => node.phase("a-ended") === "Succeeded");
  await node.advance(2 * SECONDS);
  await node.create("b-runs", { containers: [asking(60)] });
  await node.until("it runs", () => node.isReady("b-runs"));
  // The runtime takes longer to respond than the API server.
  node.fateOf = ({ port, verb }) => (port === "cri" && verb === "listPodSandbox" ? { after: node.clock.after(5 * SECONDS) } : "live");
  node.start();
  await node.advance(30 * SECONDS);
  expect(node.isReady("b-runs")).toBe(true);
});

test("[node-agent 476] a rejected pod reports its observedGeneration", async () => {
  const node = await startedNode();
  await node.create("big", { containers: [asking(70)] });
  await node.until("it is rejected", () => node.pod("big")?.status?.reason === "OutOfcpu");
  expect(node.pod("big")).toMatchObject({
    metadata: { generation: 1 },
    status: { phase: "Failed", observedGeneration: 1, qosClass: "Burstable" },
  });
});
