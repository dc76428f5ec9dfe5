// Would catch: two turns that act at once, a pod started while it ends, an operation that nobody ends, state that is lost and missed.
import { expect, test } from "vitest";
import type { NodeStore, NodeTable } from "../../../../shared/ports/node-store.ts";
import { CONFIG_ANNOTATIONS, LABELS } from "../../../../shared/kubelet/labels.ts";
import { CriError } from "../../../../shared/ports/cri-error.ts";
import { UnansweredError } from "../../../../shared/ports/errors.ts";
import { NODE, startedNode as node } from "../../../harness/node/node.ts";
import type { NodeRig } from "../../../harness/node/node.ts";

const APP = { name: "app", image: "app:1" };
const SECONDS = 1_000;
const TABLES: readonly NodeTable[] = ["workers", "staticPods", "statuses", "reasons", "restarts", "allocations", "backOffs", "probes"];

/** Of the Events that the agent sent. */
function reasons(rig: NodeRig): readonly string[] {
  return rig.requests
    .filter(({ path }) => path.endsWith("/events"))
    .map(({ body }) => String((body as { readonly reason?: string } | undefined)?.reason)); // an Event
}

/** What a pod whose record nobody kept looks like. */
async function orphan(rig: NodeRig, uid: string): Promise<string> {
  const sandbox = { metadata: { name: "lost", namespace: "default", uid, attempt: 0 }, labels: { [LABELS.podUid]: uid } };
  const sandboxId = await rig.cri.runPodSandbox(sandbox);
  const labels = { [LABELS.podUid]: uid, [LABELS.podName]: "lost", [LABELS.podNamespace]: "default", [LABELS.containerName]: "app" };
  const id = await rig.cri.createContainer(
    sandboxId,
    { metadata: { name: "app", attempt: 0 }, image: { image: "app:1" }, labels },
    sandbox,
  );
  await rig.cri.startContainer(id);
  return id;
}

async function flush(store: NodeStore): Promise<void> {
  for (const table of TABLES) for (const key of (await store.rows(table)).keys()) await store.update(table, key, () => undefined);
  for (const agenda of ["pods", "probes"] as const)
    for (const key of (await store.agenda(agenda)).keys()) await store.unschedule(agenda, key);
}

test("[node-agent 39] a sandbox that cannot be made for a pod that is to end is nobody's business", async () => {
  const rig = await node();
  let held = false;
  rig.fateOf = ({ verb }) => {
    if (verb !== "runPodSandbox") return "live";
    held = true;
    return { after: rig.clock.after(3 * SECONDS).then(() => Promise.reject(new CriError("Unknown", "no network"))) };
  };
  await rig.create("p", { containers: [APP] });
  await rig.until("a sandbox is being made", () => held);
  await rig.delete("p");
  await rig.until("gone", () => rig.pod("p") === undefined);
  expect(reasons(rig).filter((reason) => reason.startsWith("Failed"))).toEqual([]);
});

test("[node-agent 46] what runs and belongs to nobody is ended with a grace of 1 s, and its record goes", async () => {
  const rig = await node({ images: { "slow:1": { stopAfterMs: "never" } } });
  const id = await orphan(rig, "nobody");
  await rig.until("it ended", async () => (await rig.cri.containerStatus(id)).state === "CONTAINER_EXITED", 10 * SECONDS);
  expect(rig.calls.filter(({ verb }) => verb === "stopContainer").map(({ args }) => args)).toEqual([[id, 2]]); // never below 2 s
  await rig.advance(4 * SECONDS);
  expect(await rig.agent.ports.store.rows("workers")).toEqual(new Map());
  await rig.advance(130 * SECONDS);
  expect([...(await rig.cri.listContainers()), ...(await rig.cri.listPodSandbox())]).toEqual([]);
});

test("[node-agent 115] a message that comes twice does nothing the second time, also when all is over", async () => {
  const rig = await node();
  const uid = await rig.create("p", { restartPolicy: "Never", containers: [APP] });
  await rig.until("ready", () => rig.isReady("p"));
  await rig.advance(5 * SECONDS);
  const twice = async (): Promise<void> => {
    const before = rig.calls.length;
    for (const _ of [1, 2]) rig.agent.ports.send("pods", uid, "once more");
    await rig.advance(5 * SECONDS);
    expect(rig.calls.slice(before)).toEqual([]);
  };
  await twice();
  await rig.delete("p");
  await rig.until("gone", () => rig.pod("p") === undefined);
  await rig.advance(5 * SECONDS);
  await twice();
});

test.each(["createContainer", "runPodSandbox", "startContainer"])(
  "[node-agent 116] a turn that stands still in %s and is given up for lost leaves one sandbox, one container and no word behind",
  async (verb) => {
    const rig = await node();
    const lost: { token?: number } = {};
    rig.fateOf = (call) => {
      if (call.verb !== verb || lost.token !== undefined) return "live";
      lost.token = 1;
      return { after: rig.clock.after(150 * SECONDS) };
    };
    const uid = await rig.create("p", { containers: [APP] });
    await rig.advance(149 * SECONDS);
    const before = await rig.agent.ports.store.read("workers", uid);
    await rig.advance(60 * SECONDS);
    await rig.until("ready", () => rig.isReady("p"));
    if (verb !== "runPodSandbox") expect(before?.token).toBeGreaterThan(1); // else the turn itself did not wait
    expect(await rig.running(uid)).toEqual(["app"]);
    expect(await rig.cri.listPodSandbox({ state: "SANDBOX_READY" })).toHaveLength(1);
    expect(await rig.agent.ports.store.read("reasons", uid)).toBeUndefined();
  },
);

test.each([5, 40])("[node-agent 118] a grace that gets shorter %i s after the deletion counts at once", async (later) => {
  const rig = await node({ images: { "deaf:1": { stopAfterMs: "never" } } });
  const uid = await rig.create("p", { terminationGracePeriodSeconds: 300, containers: [{ ...APP, image: "deaf:1" }] });
  await rig.until("ready", () => rig.isReady("p"));
  await rig.delete("p");
  await rig.advance(later * SECONDS);
  expect(await rig.running(uid)).toEqual(["app"]);
  await rig.delete("p", 5);
  await rig.until("its container is gone", async () => (await rig.running(uid)).length === 0, 7 * SECONDS);
  await rig.until("gone", () => rig.pod("p") === undefined, 5 * SECONDS);
});

test("[node-agent 119] a pod that is deleted while its image comes never gets a container", async () => {
  const rig = await node({ remoteImages: { "big:1": { pullMs: 90 * SECONDS } } });
  const uid = await rig.create("p", { containers: [{ ...APP, image: "big:1" }] });
  await rig.until("it is pulled", () => rig.calls.some(({ verb }) => verb === "pullImage"));
  await rig.advance(30 * SECONDS);
  await rig.delete("p");
  await rig.until("gone", () => rig.pod("p") === undefined, 10 * SECONDS);
  await rig.advance(120 * SECONDS);
  expect(rig.calls.filter(({ verb }) => verb === "createContainer")).toEqual([]);
  expect(await rig.containers(uid)).toEqual([]);
  expect(await rig.cri.imageStatus({ image: "big:1" })).toBeUndefined(); // the pull was broken off, too
});

test.each(["imageStatus", "createContainer"] as const)("[node-agent 119] a pod that is deleted during %s goes no further", async (verb) => {
  const rig = await node();
  let held = false;
  rig.fateOf = (call) => {
    if (call.verb !== verb || held) return "live";
    held = true;
    return { after: rig.clock.after(3 * SECONDS) };
  };
  await rig.create("p", { containers: [APP] });
  await rig.until("it is held", () => held);
  await rig.delete("p");
  await rig.until("gone", () => rig.pod("p") === undefined);
  const made = rig.calls.filter(({ verb: one }) => one === "createContainer" || one === "startContainer");
  expect(made.map(({ verb: one }) => one)).toEqual(verb === "imageStatus" ? [] : ["createContainer"]);
});

test.each(["under a living host", "with the host"])(
  "[node-agent 120] the NodeStore is lost %s: running pods stay, ending ones end, back-off starts over",
  async (how) => {
    const rig = await node({ images: { "fails:1": { exitAfterMs: SECONDS, exitCode: 1 }, "slow:1": { stopAfterMs: 20 * SECONDS } } });
    const runs = await rig.create("runs", { containers: [APP] });
    const loops = await rig.create("loops", { containers: [{ ...APP, image: "fails:1" }] });
    const ends = await rig.create("ends", { containers: [{ ...APP, image: "slow:1" }] });
    await rig.until(
      "the back-off is long",
      () => (rig.pod("loops")?.status?.containerStatuses?.[0]?.restartCount ?? 0) >= 4,
      300 * SECONDS,
    );
    await rig.advance(5 * SECONDS);
    await rig.delete("ends");
    await rig.advance(5 * SECONDS);
    expect(await rig.running(ends)).toEqual(["app"]);
    const [kept] = await rig.containers(runs);
    const counted = rig.pod("loops")?.status?.containerStatuses?.[0]?.restartCount ?? 0;

    const before = rig.calls.length;
    if (how === "with the host") rig.start();
    else await flush(rig.agent.ports.store);
    // Without the loss it would be 80 s and more.
    await rig.until(
      "it is started again",
      () => (rig.pod("loops")?.status?.containerStatuses?.[0]?.restartCount ?? 0) > counted,
      20 * SECONDS,
    );
    await rig.until("the one is gone", () => rig.pod("ends") === undefined, 60 * SECONDS);
    await rig.advance(100 * SECONDS);
    expect(await rig.containers(runs)).toEqual([kept]);
    expect(rig.isReady("runs")).toBe(true);
    const touched = rig.calls.slice(before).filter(({ args }) => args[0] === kept?.id);
    expect(touched).toEqual([]);
    expect(await rig.running(ends)).toEqual([]);
    expect((await rig.containers(loops)).length).toBeGreaterThan(0);
  },
);

test("[node-agent 121] as long as a source is silent nothing is ended, whoever it belongs to", async () => {
  const rig = await node();
  const uid = await rig.create("p", { containers: [APP] });
  await rig.until("ready", () => rig.isReady("p"));
  const lost = await orphan(rig, "nobody-knows");
  rig.fateOf = ({ port }) => (port === "kube" ? { fail: new UnansweredError("away") } : "live");
  rig.start();
  const before = rig.calls.length;
  await rig.advance(180 * SECONDS);
  expect(rig.calls.slice(before)).toEqual([]);
  rig.fateOf = () => "live";
  await rig.until("what is nobody's ended", async () => (await rig.cri.containerStatus(lost)).state === "CONTAINER_EXITED");
  expect(await rig.running(uid)).toEqual(["app"]);
});

test("[node-agent 122] a host that was away for 60 s restarts nothing that runs, and tells the exits of meanwhile with their codes", async () => {
  const rig = await node({ images: { "ends:1": { exitAfterMs: 50 * SECONDS, exitCode: 3 } } });
  const uid = await rig.create("runs", { containers: [{ ...APP, readinessProbe: { exec: { command: ["true"] }, periodSeconds: 5 } }] });
  await rig.create("ends", { restartPolicy: "Never", containers: [{ ...APP, image: "ends:1" }] });
  await rig.until("both run", () => rig.isReady("runs") && rig.phase("ends") === "Running");
  await rig.advance(20 * SECONDS);
  const lease = () =>
    (
      rig.server.peek("leases.coordination.k8s.io", "kube-node-lease", NODE) as
        | { readonly spec: { readonly renewTime: string } }
        | undefined
    )?.spec.renewTime; // a Lease
  const [kept] = await rig.containers(uid);
  rig.kill();
  const stale = lease();
  expect(stale).toBeDefined();
  await rig.advance(60 * SECONDS);
  expect(lease()).toBe(stale);
  rig.start();
  await rig.until("the exit is known", () => rig.phase("ends") === "Failed", 10 * SECONDS);
  expect(rig.pod("ends")?.status?.containerStatuses?.[0]?.state?.terminated?.exitCode).toBe(3);
  await rig.advance(60 * SECONDS);
  expect(lease()).not.toBe(stale);
  expect(await rig.containers(uid)).toEqual([kept]);
  expect(rig.isReady("runs")).toBe(true);
});

test("[node-agent 122] who was ready stays ready over a restart of the agent", async () => {
  const rig = await node();
  await rig.create("p", { containers: [{ ...APP, readinessProbe: { exec: { command: ["true"] }, periodSeconds: 10 } }] });
  await rig.until("ready", () => rig.isReady("p"));
  rig.start();
  for (let step = 0; step < 240; step++) {
    await rig.advance(SECONDS / 4);
    expect(rig.isReady("p")).toBe(true);
  }
});

test("[node-agent 124] due times that are lost are back within 2 s", async () => {
  const rig = await node();
  const uids = [await rig.create("a", { containers: [APP] }), await rig.create("b", { containers: [APP] })];
  await rig.until("ready", () => rig.isReady("a") && rig.isReady("b"));
  await rig.advance(3 * SECONDS);
  const { store } = rig.agent.ports;
  for (const uid of uids) await store.unschedule("pods", uid);
  await rig.advance(2 * SECONDS + 50);
  expect([...(await store.agenda("pods")).keys()].toSorted()).toEqual(uids.toSorted());
});

test("[node-agent 126] a manifest that changes: the old pod ends wholly before the new one begins, and one mirror stands for it", async () => {
  const rig = await node({ manifests: true, images: { "slow:1": { stopAfterMs: 8 * SECONDS } } });
  rig.setManifest("web.yaml", { name: "web", spec: { containers: [{ ...APP, image: "slow:1" }] } });
  await rig.until("ready", () => rig.isReady("web-n1"));
  const before = rig.manifestUid("web.yaml");
  rig.setManifest("web.yaml", { name: "web", spec: { containers: [{ ...APP, image: "slow:1", args: ["other"] }] } });
  const after = rig.manifestUid("web.yaml");
  expect(after).not.toBe(before);
  await rig.until("the new one runs", async () => (await rig.running(after)).length > 0);
  const record = await rig.agent.ports.store.read("workers", before);
  const [old] = await rig.containers(before);
  const [fresh] = await rig.containers(after);
  expect(old?.state).toBe("CONTAINER_EXITED");
  expect(fresh?.createdAtMs).toBeGreaterThan(old?.finishedAtMs ?? Infinity);
  expect(record === undefined || record.finished === true).toBe(true);
  await rig.until(
    "one mirror, of the new hash, and ready",
    () => rig.isReady("web-n1") && rig.pod("web-n1")?.metadata.annotations?.[CONFIG_ANNOTATIONS.mirror] === after,
  );
  expect(rig.pods()).toHaveLength(1);
});

test("[node-agent 126] what was said of the pod before counts for nothing: neither its restarts nor its end are the new one's", async () => {
  const rig = await node({ manifests: true, images: { "fails:1": { exitAfterMs: SECONDS, exitCode: 1 } } });
  const manifest = (restartPolicy: string, image: string) => ({ name: "web", spec: { restartPolicy, containers: [{ ...APP, image }] } });
  rig.setManifest("web.yaml", manifest("Always", "fails:1"));
  await rig.until("it was restarted", () => (rig.pod("web-n1")?.status?.containerStatuses?.[0]?.restartCount ?? 0) >= 2);
  rig.setManifest("web.yaml", manifest("Never", "fails:1"));
  await rig.until("the second failed", () => rig.phase("web-n1") === "Failed");
  rig.setManifest("web.yaml", manifest("Always", "app:1"));
  await rig.until("the third is ready", () => rig.isReady("web-n1"));
  expect(rig.phase("web-n1")).toBe("Running");
  expect(rig.pod("web-n1")?.status?.containerStatuses?.[0]?.restartCount).toBe(0);
});

test("[node-agent 117] an instance that was never started counts, and is gone once its successor is there", async () => {
  const rig = await node();
  let failures = 0;
  rig.fateOf = ({ verb }) => (verb === "startContainer" && ++failures <= 3 ? { fail: new CriError("Unavailable", "no answer") } : "live");
  const uid = await rig.create("p", { containers: [APP] });
  await rig.until("ready", () => rig.isReady("p"));
  expect((await rig.containers(uid)).map(({ metadata, state }) => [metadata.attempt, state])).toEqual([[3, "CONTAINER_RUNNING"]]);
  expect(rig.pod("p")?.status?.containerStatuses?.[0]?.restartCount).toBe(3);
});

test("a manifest that is taken away: its pod ends, and so does its mirror", async () => {
  const rig = await node({ manifests: true });
  rig.setManifest("web.yaml", { name: "web", spec: { containers: [APP] } });
  await rig.until("ready", () => rig.isReady("web-n1"));
  const uid = rig.manifestUid("web.yaml");
  rig.setManifest("web.yaml", undefined);
  await rig.until("both are gone", async () => rig.pod("web-n1") === undefined && (await rig.running(uid)).length === 0);
});
