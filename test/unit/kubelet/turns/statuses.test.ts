// Would catch: statuses that are sent twice, out of order, to the wrong pod or not at all; a pod deleted before it has ended.
import { expect, test } from "vitest";
import { CONFIG_ANNOTATIONS } from "../../../../shared/kubelet/labels.ts";
import { flushStatus } from "../../../../shared/kubelet/turns/statuses.ts";
import { KubeApiError, UnansweredError } from "../../../../shared/ports/errors.ts";
import { startedNode as node } from "../../../harness/node/node.ts";
import type { NodeRig, SentRequest } from "../../../harness/node/node.ts";

const APP = { name: "app", image: "app:1" };
const SECONDS = 1_000;

interface SentStatus {
  readonly metadata?: { readonly uid?: string };
  readonly status?: { readonly phase?: string };
}

function statuses(rig: NodeRig, pod = "p"): readonly SentStatus[] {
  return sent(rig, "PATCH", `/pods/${pod}/status`).map(({ body }) => body as SentStatus); // a patch of a pod's status
}

function sent(rig: NodeRig, method: string, end: string): readonly SentRequest[] {
  return rig.requests.filter((request) => request.method === method && request.path.endsWith(end));
}

test("[node-agent 75] a status that does not change is sent once, however often the pod is looked at", async () => {
  const rig = await node();
  const uid = await rig.create("p", { containers: [APP] });
  await rig.until("ready", () => rig.isReady("p"));
  await rig.advance(30 * SECONDS);
  const before = statuses(rig).length;
  for (let turn = 0; turn < 20; turn++) {
    rig.agent.ports.send("pods", uid, "again");
    rig.agent.ports.send("statuses", uid, "again");
    await rig.advance(15 * SECONDS);
  }
  expect(statuses(rig)).toHaveLength(before);
});

test("[node-agent 77] of what changes while the API server takes no status only the newest is sent, once", async () => {
  const rig = await node();
  rig.fateOf = ({ port, verb, args }) => {
    const isOfPod = verb === "get" ? args[0] === "pods" : verb === "patch";
    return port === "kube" && isOfPod ? { fail: new UnansweredError("away") } : "live";
  };
  const uid = await rig.create("p", { containers: [APP] });
  await rig.until("its container runs", async () => (await rig.running(uid)).length > 0);
  await rig.advance(5 * SECONDS);
  expect((await rig.agent.ports.store.read("statuses", uid))?.version).toBeGreaterThan(1);
  rig.fateOf = () => "live";
  await rig.until("ready", () => rig.isReady("p"));
  await rig.advance(30 * SECONDS);
  expect(statuses(rig)).toEqual([expect.objectContaining({ status: expect.objectContaining({ phase: "Running" }) })]);
});

test("[node-agent 78] of a pod that is gone nothing is sent, and what is sent of one whose name is another's by now changes nothing", async () => {
  const rig = await node();
  const uid = await rig.create("p", { containers: [APP] });
  await rig.until("ready", () => rig.isReady("p"));
  await rig.advance(30 * SECONDS);
  const before = statuses(rig).length;

  await rig.delete("p", 0);
  const gone = flushStatus(rig.agent.ports, uid);
  await rig.advance(25);
  await gone;
  expect(statuses(rig)).toHaveLength(before);

  const next = await rig.create("p", { containers: [APP] });
  const other = flushStatus(rig.agent.ports, uid);
  await rig.until("the new one is ready", () => rig.isReady("p"));
  await other;
  expect(rig.pod("p")?.metadata.uid).toBe(next);
  await rig.until("the old one is forgotten", async () => (await rig.agent.ports.store.read("statuses", uid)) === undefined);
});

test("[node-agent 470] of a pod whose statuses are answered the first is sent after a look, and no other", async () => {
  const rig = await node({ images: { "ends:1": { exitAfterMs: 5 * SECONDS } } });
  let reads = 0;
  rig.fateOf = ({ port, verb, args }) => {
    if (port === "kube" && verb === "get" && args[0] === "pods") reads++;
    return "live";
  };
  await rig.create("p", { containers: [{ ...APP, image: "ends:1" }] });
  await rig.until("it was started again", () => rig.pod("p")?.status?.containerStatuses?.[0]?.restartCount === 2);
  expect([reads, statuses(rig).length]).toEqual([1, expect.toSatisfy((count: number) => count > 3)]);
});

test("[node-agent 470] after a lost answer the API server is asked what it has", async () => {
  const rig = await node({ images: { "ends:1": { exitAfterMs: 20 * SECONDS } } });
  await rig.create("p", { containers: [{ ...APP, image: "ends:1" }] });
  // The next end is followed by a pause.
  await rig.until("it was started again", () => rig.isReady("p") && rig.pod("p")?.status?.containerStatuses?.[0]?.restartCount === 1);
  const uid = rig.pod("p")?.metadata.uid ?? "";
  let patches = 0;
  rig.fateOf = ({ port, verb, args }) => {
    const { resource } = (args[0] ?? {}) as { readonly resource?: string }; // a PatchRequest
    const isOfPod = port === "kube" && (verb === "patch" ? resource === "pods" : verb === "get" && args[0] === "pods");
    if (!isOfPod) return "live";
    return verb === "patch" && patches++ === 0 ? { lose: new UnansweredError("no answer") } : { fail: new UnansweredError("away") };
  };
  await rig.until("it says that it ended", () => !rig.isReady("p"), 25 * SECONDS);
  await rig.until("it runs again", async () => (await rig.running(uid)).length > 0, 15 * SECONDS);
  await rig.advance(SECONDS);
  rig.fateOf = () => "live";
  await rig.until(
    "it is said that it runs",
    () => rig.pod("p")?.status?.containerStatuses?.[0]?.state?.running !== undefined,
    11 * SECONDS,
  );
  await rig.advance(100);
  expect(rig.isReady("p")).toBe(true);
});

test("[node-agent 79] what others alter is put right within 10 s, and what is theirs stays", async () => {
  const rig = await node();
  await rig.create("p", { containers: [APP] });
  await rig.until("ready", () => rig.isReady("p"));
  for (const type of ["example.com/theirs", "example.com/once-more"]) {
    await rig.advance(25 * SECONDS); // both are known to say the same by then
    const theirs = { type, status: "True" };
    await rig.patch("p", { status: { phase: "Pending", conditions: [theirs, { type: "Ready", status: "False" }] } }, "/status");
    expect(rig.isReady("p")).toBe(false);
    await rig.until("ready again", () => rig.isReady("p") && rig.phase("p") === "Running", 11 * SECONDS);
    expect(rig.pod("p")?.status?.conditions).toContainEqual(expect.objectContaining(theirs));
  }
});

test("[node-agent 82] a pod is deleted only when it has ended and its terminal status was sent, with its uid and without grace", async () => {
  const rig = await node({ images: { "slow:1": { stopAfterMs: "never" } } });
  const uid = await rig.create("p", { containers: [{ ...APP, image: "slow:1" }] });
  await rig.until("ready", () => rig.isReady("p"));
  await rig.delete("p", 10);
  await rig.advance(9 * SECONDS);
  expect(sent(rig, "DELETE", "/pods/p")).toEqual([]);
  await rig.until("gone", () => rig.pod("p") === undefined, 10 * SECONDS);
  const [deletion, ...more] = sent(rig, "DELETE", "/pods/p");
  expect(more).toEqual([]);
  expect(deletion?.body).toMatchObject({ gracePeriodSeconds: 0, preconditions: { uid } });
  const last = statuses(rig).at(-1);
  expect(last?.status?.phase).toBe("Failed");
  const terminal = sent(rig, "PATCH", "/pods/p/status").at(-1);
  expect(deletion?.atMs).toBeGreaterThan(terminal?.atMs ?? Infinity);
});

test("[node-agent 82] a pod whose name is another's by the time of its deletion is gone, and no failure", async () => {
  const rig = await node();
  const uid = await rig.create("p", { containers: [APP] });
  await rig.until("ready", () => rig.isReady("p"));
  let deletions = 0;
  rig.fateOf = ({ port, verb }) => {
    if (port !== "kube" || verb !== "delete") return "live";
    deletions++;
    return {
      fail: new KubeApiError({
        code: 409,
        reason: "Conflict",
        message: "Precondition failed: UID in precondition: x, UID in object meta: y",
      }),
    };
  };
  await rig.delete("p", 1);
  await rig.until("its deletion was tried", () => deletions > 0, 20 * SECONDS);
  await rig.advance(SECONDS);
  expect([deletions, await rig.agent.ports.store.read("statuses", uid)]).toEqual([1, undefined]);
});

test("[node-agent 82] a pod that ends by itself is not deleted", async () => {
  const rig = await node({ images: { "ends:1": { exitAfterMs: SECONDS } } });
  await rig.create("p", { restartPolicy: "Never", containers: [{ ...APP, image: "ends:1" }] });
  await rig.until("it ended", () => rig.phase("p") === "Succeeded");
  await rig.advance(120 * SECONDS);
  expect(sent(rig, "DELETE", "/pods/p")).toEqual([]);
});

test("[node-agent 82] the deletion of a mirror pod is never finished from its status, but it is made anew", async () => {
  const rig = await node({ manifests: true });
  rig.setManifest("web.yaml", { name: "web", spec: { containers: [APP] } });
  await rig.until("its mirror is ready", () => rig.isReady("web-n1"));
  const mirror = rig.pod("web-n1");
  await rig.delete("web-n1", 30);
  await rig.until("another mirror is ready", () => rig.isReady("web-n1") && rig.pod("web-n1")?.metadata.uid !== mirror?.metadata.uid);
  expect(rig.pod("web-n1")?.metadata.annotations?.[CONFIG_ANNOTATIONS.mirror]).toBe(
    mirror?.metadata.annotations?.[CONFIG_ANNOTATIONS.mirror],
  );
  expect(await rig.containers(rig.manifestUid("web.yaml"))).toHaveLength(1);
});

test("[node-agent 125] an older status that lands after a newer one does not stay", async () => {
  const rig = await node();
  let late: SentStatus | undefined;
  rig.fateOf = ({ port, verb, args }) => {
    const { name, body } = (args[0] ?? {}) as { readonly name?: string; readonly body?: SentStatus }; // a PatchRequest
    if (port !== "kube" || verb !== "patch" || name !== "p" || late !== undefined) return "live";
    late = body;
    return { fail: new UnansweredError("no answer") };
  };
  await rig.create("p", { containers: [APP] });
  await rig.until("ready", () => rig.isReady("p"));
  await rig.patch("p", late ?? {}, "/status");
  expect(rig.isReady("p")).toBe(false);
  await rig.until("as it is", () => rig.isReady("p"), 11 * SECONDS);
});
