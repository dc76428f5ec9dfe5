// Would catch: two concurrent iterations, a pod that is started during its termination, an operation that never ends, and the loss of
// needed state.
import { expect, test } from "vitest";
import type { NodeStore, NodeTable } from "../../../../shared/node-agent/ports/node-store.ts";
import { CONFIG_ANNOTATIONS, LABELS } from "../../../../shared/node-agent/kubelet/types/labels.ts";
import { CriError } from "../../../../shared/node-agent/ports/cri-error.ts";
import { UnansweredError } from "../../../../shared/kube/client/errors.ts";
import { NODE, startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness } from "../../../harness/node/node.ts";

const APP = { name: "app", image: "app:1" };
const SECONDS = 1_000;
const TABLES: readonly NodeTable[] = ["workers", "staticPods", "statuses", "reasons", "restarts", "allocations", "backOffs", "probes"];

/** Returns the reasons of the Events that the agent sent. */
function reasons(node: NodeHarness): readonly string[] {
  return node.requests
    .filter(({ path }) => path.endsWith("/events"))
    .map(({ body }) => String((body as { readonly reason?: string } | undefined)?.reason)); // an Event
}

/** Returns the state of a pod without a record. */
async function orphan(node: NodeHarness, uid: string): Promise<string> {
  const sandbox = { metadata: { name: "lost", namespace: "default", uid, attempt: 0 }, labels: { [LABELS.podUid]: uid } };
  const sandboxId = await node.cri.runPodSandbox(sandbox);
  const labels = { [LABELS.podUid]: uid, [LABELS.podName]: "lost", [LABELS.podNamespace]: "default", [LABELS.containerName]: "app" };
  const id = await node.cri.createContainer(
    sandboxId,
    { metadata: { name: "app", attempt: 0 }, image: { image: "app:1" }, labels },
    sandbox,
  );
  await node.cri.startContainer(id);
  return id;
}

async function flush(store: NodeStore): Promise<void> {
  for (const table of TABLES) for (const key of (await store.rows(table)).keys()) await store.update(table, key, () => undefined);
  for (const agenda of ["pods", "probes"] as const)
    for (const key of (await store.agenda(agenda)).keys()) await store.unschedule(agenda, key);
}

test("[node-agent 39] does not report a failed sandbox of a terminating pod", async () => {
  const node = await startedNode();
  let held = false;
  node.fateOf = ({ verb }) => {
    if (verb !== "runPodSandbox") return "live";
    held = true;
    return { after: node.clock.after(3 * SECONDS).then(() => Promise.reject(new CriError("Unknown", "no network"))) };
  };
  await node.create("p", { containers: [APP] });
  await node.until("a sandbox is being made", () => held);
  await node.delete("p");
  await node.until("gone", () => node.pod("p") === undefined);
  expect(reasons(node).filter((reason) => reason.startsWith("Failed"))).toEqual([]);
});

test("[node-agent 46] kills running orphans with the minimum grace period of 2 s, and removes their records, containers and sandboxes", async () => {
  const node = await startedNode({ images: { "slow:1": { stopAfterMs: "never" } } });
  const id = await orphan(node, "nobody");
  await node.until("it ended", async () => (await node.cri.containerStatus(id)).state === "CONTAINER_EXITED", 10 * SECONDS);
  // the grace period is never below 2 s
  expect(node.calls.filter(({ verb }) => verb === "stopContainer").map(({ args }) => args)).toEqual([[id, 2]]);
  await node.advance(4 * SECONDS);
  expect(await node.agent.ports.store.rows("workers")).toEqual(new Map());
  await node.advance(130 * SECONDS);
  expect([...(await node.cri.listContainers()), ...(await node.cri.listPodSandbox())]).toEqual([]);
});

test("[node-agent 115] ignores a duplicate message, even after the worker has finished", async () => {
  const node = await startedNode();
  const uid = await node.create("p", { restartPolicy: "Never", containers: [APP] });
  await node.until("ready", () => node.isReady("p"));
  await node.advance(5 * SECONDS);
  const twice = async (): Promise<void> => {
    const before = node.calls.length;
    for (const _ of [1, 2]) node.agent.ports.send("pods", uid, "once more");
    await node.advance(5 * SECONDS);
    expect(node.calls.slice(before)).toEqual([]);
  };
  await twice();
  await node.delete("p");
  await node.until("gone", () => node.pod("p") === undefined);
  await node.advance(5 * SECONDS);
  await twice();
});

test.each(["createContainer", "runPodSandbox", "startContainer"])(
  "[node-agent 116] a sync iteration abandoned in %s leaves one running container, one ready sandbox and no failure reason",
  async (verb) => {
    const node = await startedNode();
    const lost: { token?: number } = {};
    node.fateOf = (call) => {
      if (call.verb !== verb || lost.token !== undefined) return "live";
      lost.token = 1;
      return { after: node.clock.after(150 * SECONDS) };
    };
    const uid = await node.create("p", { containers: [APP] });
    await node.advance(149 * SECONDS);
    const before = await node.agent.ports.store.read("workers", uid);
    await node.advance(60 * SECONDS);
    await node.until("ready", () => node.isReady("p"));
    if (verb !== "runPodSandbox") expect(before?.token).toBeGreaterThan(1); // otherwise the iteration itself did not wait
    expect(await node.running(uid)).toEqual(["app"]);
    expect(await node.cri.listPodSandbox({ state: "SANDBOX_READY" })).toHaveLength(1);
    expect(await node.agent.ports.store.read("reasons", uid)).toBeUndefined();
  },
);

test.each([5, 40])("[node-agent 118] a grace period shortened %i s after the deletion takes effect immediately", async (later) => {
  const node = await startedNode({ images: { "deaf:1": { stopAfterMs: "never" } } });
  const uid = await node.create("p", { terminationGracePeriodSeconds: 300, containers: [{ ...APP, image: "deaf:1" }] });
  await node.until("ready", () => node.isReady("p"));
  await node.delete("p");
  await node.advance(later * SECONDS);
  expect(await node.running(uid)).toEqual(["app"]);
  await node.delete("p", 5);
  await node.until("its container is gone", async () => (await node.running(uid)).length === 0, 7 * SECONDS);
  await node.until("gone", () => node.pod("p") === undefined, 5 * SECONDS);
});

test("[node-agent 119] a pod deleted during its pull never gets a container", async () => {
  const node = await startedNode({ remoteImages: { "big:1": { pullMs: 90 * SECONDS } } });
  const uid = await node.create("p", { containers: [{ ...APP, image: "big:1" }] });
  await node.until("it is pulled", () => node.calls.some(({ verb }) => verb === "pullImage"));
  await node.advance(30 * SECONDS);
  await node.delete("p");
  await node.until("gone", () => node.pod("p") === undefined, 10 * SECONDS);
  await node.advance(120 * SECONDS);
  expect(node.calls.filter(({ verb }) => verb === "createContainer")).toEqual([]);
  expect(await node.containers(uid)).toEqual([]);
  expect(await node.cri.imageStatus({ image: "big:1" })).toBeUndefined(); // the pull was aborted, too
});

test.each(["imageStatus", "createContainer"] as const)(
  "[node-agent 119] starts no container of a pod that is deleted during %s",
  async (verb) => {
    const node = await startedNode();
    let held = false;
    node.fateOf = (call) => {
      if (call.verb !== verb || held) return "live";
      held = true;
      return { after: node.clock.after(3 * SECONDS) };
    };
    await node.create("p", { containers: [APP] });
    await node.until("it is held", () => held);
    await node.delete("p");
    await node.until("gone", () => node.pod("p") === undefined);
    const made = node.calls.filter(({ verb: one }) => one === "createContainer" || one === "startContainer");
    expect(made.map(({ verb: one }) => one)).toEqual(verb === "imageStatus" ? [] : ["createContainer"]);
  },
);

test.each(["while the agent keeps running", "together with the agent"])(
  "[node-agent 120] keeps pods running, finishes terminating ones and resets the back-off when the NodeStore is lost %s",
  async (how) => {
    const node = await startedNode({
      images: { "fails:1": { exitAfterMs: SECONDS, exitCode: 1 }, "slow:1": { stopAfterMs: 20 * SECONDS } },
    });
    const runs = await node.create("runs", { containers: [APP] });
    const loops = await node.create("loops", { containers: [{ ...APP, image: "fails:1" }] });
    const ends = await node.create("ends", { containers: [{ ...APP, image: "slow:1" }] });
    await node.until(
      "the back-off is long",
      () => (node.pod("loops")?.status?.containerStatuses?.[0]?.restartCount ?? 0) >= 4,
      300 * SECONDS,
    );
    await node.advance(5 * SECONDS);
    await node.delete("ends");
    await node.advance(5 * SECONDS);
    expect(await node.running(ends)).toEqual(["app"]);
    const [kept] = await node.containers(runs);
    const counted = node.pod("loops")?.status?.containerStatuses?.[0]?.restartCount ?? 0;

    const before = node.calls.length;
    if (how === "together with the agent") node.start();
    else await flush(node.agent.ports.store);
    // Without the loss of the back-off, the wait would be at least 80 s.
    await node.until(
      "it is started again",
      () => (node.pod("loops")?.status?.containerStatuses?.[0]?.restartCount ?? 0) > counted,
      20 * SECONDS,
    );
    await node.until("the one is gone", () => node.pod("ends") === undefined, 60 * SECONDS);
    await node.advance(100 * SECONDS);
    expect(await node.containers(runs)).toEqual([kept]);
    expect(node.isReady("runs")).toBe(true);
    const touched = node.calls.slice(before).filter(({ args }) => args[0] === kept?.id);
    expect(touched).toEqual([]);
    expect(await node.running(ends)).toEqual([]);
    expect((await node.containers(loops)).length).toBeGreaterThan(0);
  },
);

test("[node-agent 121] kills nothing while a source is not ready", async () => {
  const node = await startedNode();
  const uid = await node.create("p", { containers: [APP] });
  await node.until("ready", () => node.isReady("p"));
  const lost = await orphan(node, "nobody-knows");
  node.fateOf = ({ port }) => (port === "kube" ? { fail: new UnansweredError("away") } : "live");
  node.start();
  const before = node.calls.length;
  await node.advance(180 * SECONDS);
  expect(node.calls.slice(before)).toEqual([]);
  node.fateOf = () => "live";
  await node.until("what is nobody's ended", async () => (await node.cri.containerStatus(lost)).state === "CONTAINER_EXITED");
  expect(await node.running(uid)).toEqual(["app"]);
});

test("[node-agent 122] restarts no running container after the agent was down for 60 s, and reports containers that exited in the meantime with their exit codes", async () => {
  const node = await startedNode({ images: { "ends:1": { exitAfterMs: 50 * SECONDS, exitCode: 3 } } });
  const uid = await node.create("runs", { containers: [{ ...APP, readinessProbe: { exec: { command: ["true"] }, periodSeconds: 5 } }] });
  await node.create("ends", { restartPolicy: "Never", containers: [{ ...APP, image: "ends:1" }] });
  await node.until("both run", () => node.isReady("runs") && node.phase("ends") === "Running");
  await node.advance(20 * SECONDS);
  const lease = () =>
    (
      node.server.peek("leases.coordination.k8s.io", "kube-node-lease", NODE) as
        | { readonly spec: { readonly renewTime: string } }
        | undefined
    )?.spec.renewTime; // a Lease
  const [kept] = await node.containers(uid);
  node.kill();
  const stale = lease();
  expect(stale).toBeDefined();
  await node.advance(60 * SECONDS);
  expect(lease()).toBe(stale);
  node.start();
  await node.until("the exit is known", () => node.phase("ends") === "Failed", 10 * SECONDS);
  expect(node.pod("ends")?.status?.containerStatuses?.[0]?.state?.terminated?.exitCode).toBe(3);
  await node.advance(60 * SECONDS);
  expect(lease()).not.toBe(stale);
  expect(await node.containers(uid)).toEqual([kept]);
  expect(node.isReady("runs")).toBe(true);
});

test("[node-agent 122] keeps ready containers ready across an agent restart", async () => {
  const node = await startedNode();
  await node.create("p", { containers: [{ ...APP, readinessProbe: { exec: { command: ["true"] }, periodSeconds: 10 } }] });
  await node.until("ready", () => node.isReady("p"));
  node.start();
  for (let step = 0; step < 240; step++) {
    await node.advance(SECONDS / 4);
    expect(node.isReady("p")).toBe(true);
  }
});

test("[node-agent 124] restores the lost due times of pods within 2 s", async () => {
  const node = await startedNode();
  const uids = [await node.create("a", { containers: [APP] }), await node.create("b", { containers: [APP] })];
  await node.until("ready", () => node.isReady("a") && node.isReady("b"));
  await node.advance(3 * SECONDS);
  const { store } = node.agent.ports;
  for (const uid of uids) await store.unschedule("pods", uid);
  await node.advance(2 * SECONDS + 50);
  expect([...(await store.agenda("pods")).keys()].toSorted()).toEqual(uids.toSorted());
});

test("[node-agent 126] terminates the old pod completely before the new one starts after a manifest change, and keeps only one mirror pod", async () => {
  const node = await startedNode({ manifests: true, images: { "slow:1": { stopAfterMs: 8 * SECONDS } } });
  node.setManifest("web.yaml", { name: "web", spec: { containers: [{ ...APP, image: "slow:1" }] } });
  await node.until("ready", () => node.isReady("web-n1"));
  const before = node.manifestUid("web.yaml");
  node.setManifest("web.yaml", { name: "web", spec: { containers: [{ ...APP, image: "slow:1", args: ["other"] }] } });
  const after = node.manifestUid("web.yaml");
  expect(after).not.toBe(before);
  await node.until("the new one runs", async () => (await node.running(after)).length > 0);
  const record = await node.agent.ports.store.read("workers", before);
  const [old] = await node.containers(before);
  const [fresh] = await node.containers(after);
  expect(old?.state).toBe("CONTAINER_EXITED");
  expect(fresh?.createdAtMs).toBeGreaterThan(old?.finishedAtMs ?? Infinity);
  expect(record === undefined || record.finished === true).toBe(true);
  await node.until(
    "one mirror, of the new hash, and ready",
    () => node.isReady("web-n1") && node.pod("web-n1")?.metadata.annotations?.[CONFIG_ANNOTATIONS.mirror] === after,
  );
  expect(node.pods()).toHaveLength(1);
});

test("[node-agent 126] the new pod does not inherit restarts or status of the old one", async () => {
  const node = await startedNode({ manifests: true, images: { "fails:1": { exitAfterMs: SECONDS, exitCode: 1 } } });
  const manifest = (restartPolicy: string, image: string) => ({ name: "web", spec: { restartPolicy, containers: [{ ...APP, image }] } });
  node.setManifest("web.yaml", manifest("Always", "fails:1"));
  await node.until("it was restarted", () => (node.pod("web-n1")?.status?.containerStatuses?.[0]?.restartCount ?? 0) >= 2);
  node.setManifest("web.yaml", manifest("Never", "fails:1"));
  await node.until("the second failed", () => node.phase("web-n1") === "Failed");
  node.setManifest("web.yaml", manifest("Always", "app:1"));
  await node.until("the third is ready", () => node.isReady("web-n1"));
  expect(node.phase("web-n1")).toBe("Running");
  expect(node.pod("web-n1")?.status?.containerStatuses?.[0]?.restartCount).toBe(0);
});

test("[node-agent 117] counts the replacement of a container that never started as a restart, and removes the old one once its successor exists", async () => {
  const node = await startedNode();
  let failures = 0;
  node.fateOf = ({ verb }) => (verb === "startContainer" && ++failures <= 3 ? { fail: new CriError("Unavailable", "no answer") } : "live");
  const uid = await node.create("p", { containers: [APP] });
  await node.until("ready", () => node.isReady("p"));
  expect((await node.containers(uid)).map(({ metadata, state }) => [metadata.attempt, state])).toEqual([[3, "CONTAINER_RUNNING"]]);
  expect(node.pod("p")?.status?.containerStatuses?.[0]?.restartCount).toBe(3);
});

test("terminates the pod and deletes its mirror pod when its manifest is removed", async () => {
  const node = await startedNode({ manifests: true });
  node.setManifest("web.yaml", { name: "web", spec: { containers: [APP] } });
  await node.until("ready", () => node.isReady("web-n1"));
  const uid = node.manifestUid("web.yaml");
  node.setManifest("web.yaml", undefined);
  await node.until("both are gone", async () => node.pod("web-n1") === undefined && (await node.running(uid)).length === 0);
});
