// Would catch: room that a pod holds which will never use it, and room that is given away while its pod still runs.
import { expect, test } from "vitest";
import { NodeRig, startedNode as node } from "../../../harness/node/node.ts";

const SECONDS = 1_000;

/** The node has 64 CPUs. */
const asking = (cpu: number, image = "app:1") => ({ name: "app", image, resources: { requests: { cpu: String(cpu) } } });

test("[node-agent 133] a pod that was rejected takes no room from the one that comes with it", async () => {
  const rig = new NodeRig();
  await rig.create("a-big", { containers: [asking(70)] });
  await rig.create("b-small", { containers: [asking(1)] });
  rig.start();
  await rig.until("both are decided", () => rig.phase("a-big") === "Failed" && rig.phase("b-small") !== "Pending");
  expect(rig.pod("a-big")?.status?.reason).toBe("OutOfcpu");
  expect(rig.isReady("b-small")).toBe(true);
});

test("[node-agent 133] a static pod that has ended gives its room back", async () => {
  const rig = await node({ manifests: true, images: { "ends:1": { exitAfterMs: 2 * SECONDS } } });
  rig.setManifest("job.yaml", { name: "job", spec: { restartPolicy: "Never", containers: [asking(60, "ends:1")] } });
  await rig.until("it runs", () => rig.phase("job-n1") === "Running");
  await rig.create("early", { containers: [asking(60)] });
  await rig.until("no room yet", () => rig.phase("early") === "Failed");
  await rig.until("it ended", () => rig.phase("job-n1") === "Succeeded");
  await rig.advance(2 * SECONDS);
  await rig.create("late", { containers: [asking(60)] });
  await rig.until("it has the room", () => rig.isReady("late"));
});

test("[node-agent 133] a pod that failed keeps its room until what runs of it has ended", async () => {
  const rig = await node({ images: { "slow:1": { stopAfterMs: 10 * SECONDS } } });
  const uid = await rig.create("ends", { containers: [asking(60, "slow:1")] });
  await rig.until("it runs", () => rig.isReady("ends"));
  await rig.patch("ends", { status: { phase: "Failed" } }, "/status");
  await rig.advance(3 * SECONDS);
  expect(await rig.running(uid)).toEqual(["app"]);
  await rig.create("early", { containers: [asking(60)] });
  await rig.until("no room yet", () => rig.pod("early")?.status?.reason === "OutOfcpu", 3 * SECONDS);
  await rig.until("it has ended", async () => (await rig.running(uid)).length === 0);
  await rig.advance(2 * SECONDS);
  await rig.create("late", { containers: [asking(60)] });
  await rig.until("it has the room", () => rig.isReady("late"));
});

test("[node-agent 133] after a restart of the agent, what had ended before takes no room from what runs", async () => {
  const rig = await node({ images: { "ends:1": { exitAfterMs: SECONDS } } });
  await rig.create("a-ended", { restartPolicy: "Never", containers: [asking(60, "ends:1")] });
  await rig.until("it ended", () => rig.phase("a-ended") === "Succeeded");
  await rig.advance(2 * SECONDS);
  await rig.create("b-runs", { containers: [asking(60)] });
  await rig.until("it runs", () => rig.isReady("b-runs"));
  // The runtime takes longer to answer than the API server.
  rig.fateOf = ({ port, verb }) => (port === "cri" && verb === "listPodSandbox" ? { after: rig.clock.after(5 * SECONDS) } : "live");
  rig.start();
  await rig.advance(30 * SECONDS);
  expect(rig.isReady("b-runs")).toBe(true);
});

test("[node-agent 476] a pod that is rejected says which generation of it that was", async () => {
  const rig = await node();
  await rig.create("big", { containers: [asking(70)] });
  await rig.until("it is rejected", () => rig.pod("big")?.status?.reason === "OutOfcpu");
  expect(rig.pod("big")).toMatchObject({
    metadata: { generation: 1 },
    status: { phase: "Failed", observedGeneration: 1, qosClass: "Burstable" },
  });
});
