// Would catch: statuses that are sent twice, out of order, to the wrong pod or not at all, and a pod that is deleted before it has ended.
import { expect, test } from "vitest";
import { CONFIG_ANNOTATIONS } from "../../../../shared/node-agent/kubelet/types/labels.ts";
import { flushStatus } from "../../../../shared/node-agent/kubelet/status/status-manager.ts";
import { KubeApiError, UnansweredError } from "../../../../shared/kube/client/errors.ts";
import { startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness, SentRequest } from "../../../harness/node/node.ts";

const APP = { name: "app", image: "app:1" };
const SECONDS = 1_000;

interface SentStatus {
  readonly metadata?: { readonly uid?: string };
  readonly status?: { readonly phase?: string };
}

function statuses(node: NodeHarness, pod = "p"): readonly SentStatus[] {
  return sent(node, "PATCH", `/pods/${pod}/status`).map(({ body }) => body as SentStatus); // a patch of a pod's status
}

function sent(node: NodeHarness, method: string, end: string): readonly SentRequest[] {
  return node.requests.filter((request) => request.method === method && request.path.endsWith(end));
}

test("[node-agent 75] sends an unchanged status only once, however often it is computed", async () => {
  const node = await startedNode();
  const uid = await node.create("p", { containers: [APP] });
  await node.until("ready", () => node.isReady("p"));
  await node.advance(30 * SECONDS);
  const before = statuses(node).length;
  for (let turn = 0; turn < 20; turn++) {
    node.agent.ports.send("pods", uid, "again");
    node.agent.ports.send("statuses", uid, "again");
    await node.advance(15 * SECONDS);
  }
  expect(statuses(node)).toHaveLength(before);
});

test("[node-agent 77] sends only the newest status, once, after the API server was unavailable", async () => {
  const node = await startedNode();
  node.fateOf = ({ port, verb, args }) => {
    const isOfPod = verb === "get" ? args[0] === "pods" : verb === "patch";
    return port === "kube" && isOfPod ? { fail: new UnansweredError("away") } : "live";
  };
  const uid = await node.create("p", { containers: [APP] });
  await node.until("its container runs", async () => (await node.running(uid)).length > 0);
  await node.advance(5 * SECONDS);
  expect((await node.agent.ports.store.read("statuses", uid))?.version).toBeGreaterThan(1);
  node.fateOf = () => "live";
  await node.until("ready", () => node.isReady("p"));
  await node.advance(30 * SECONDS);
  expect(statuses(node)).toEqual([expect.objectContaining({ status: expect.objectContaining({ phase: "Running" }) })]);
});

test("[node-agent 78] sends nothing for a deleted pod, and a patch for a reused name changes nothing", async () => {
  const node = await startedNode();
  const uid = await node.create("p", { containers: [APP] });
  await node.until("ready", () => node.isReady("p"));
  await node.advance(30 * SECONDS);
  const before = statuses(node).length;

  await node.delete("p", 0);
  const gone = flushStatus(node.agent.ports, uid);
  await node.advance(25);
  await gone;
  expect(statuses(node)).toHaveLength(before);

  const next = await node.create("p", { containers: [APP] });
  const other = flushStatus(node.agent.ports, uid);
  await node.until("the new one is ready", () => node.isReady("p"));
  await other;
  expect(node.pod("p")?.metadata.uid).toBe(next);
  await node.until("the old one is forgotten", async () => (await node.agent.ports.store.read("statuses", uid)) === undefined);
});

test("[node-agent 470] reads a pod before its first status, and not before later ones", async () => {
  const node = await startedNode({ images: { "ends:1": { exitAfterMs: 5 * SECONDS } } });
  let reads = 0;
  node.fateOf = ({ port, verb, args }) => {
    if (port === "kube" && verb === "get" && args[0] === "pods") reads++;
    return "live";
  };
  await node.create("p", { containers: [{ ...APP, image: "ends:1" }] });
  await node.until("it was started again", () => node.pod("p")?.status?.containerStatuses?.[0]?.restartCount === 2);
  expect([reads, statuses(node).length]).toEqual([1, expect.toSatisfy((count: number) => count > 3)]);
});

test("[node-agent 470] reads the pod again after a lost response", async () => {
  const node = await startedNode({ images: { "ends:1": { exitAfterMs: 20 * SECONDS } } });
  await node.create("p", { containers: [{ ...APP, image: "ends:1" }] });
  // A pause follows the next exit.
  await node.until("it was started again", () => node.isReady("p") && node.pod("p")?.status?.containerStatuses?.[0]?.restartCount === 1);
  const uid = node.pod("p")?.metadata.uid ?? "";
  let patches = 0;
  node.fateOf = ({ port, verb, args }) => {
    const { resource } = (args[0] ?? {}) as { readonly resource?: string }; // a PatchRequest
    const isOfPod = port === "kube" && (verb === "patch" ? resource === "pods" : verb === "get" && args[0] === "pods");
    if (!isOfPod) return "live";
    return verb === "patch" && patches++ === 0 ? { lose: new UnansweredError("no answer") } : { fail: new UnansweredError("away") };
  };
  await node.until("it says that it ended", () => !node.isReady("p"), 25 * SECONDS);
  await node.until("it runs again", async () => (await node.running(uid)).length > 0, 15 * SECONDS);
  await node.advance(SECONDS);
  node.fateOf = () => "live";
  await node.until(
    "it is said that it runs",
    () => node.pod("p")?.status?.containerStatuses?.[0]?.state?.running !== undefined,
    11 * SECONDS,
  );
  await node.advance(100);
  expect(node.isReady("p")).toBe(true);
});

test("[node-agent 79] reverts other writers' changes to the agent's fields within 10 s, and keeps fields of other writers", async () => {
  const node = await startedNode();
  await node.create("p", { containers: [APP] });
  await node.until("ready", () => node.isReady("p"));
  for (const type of ["example.com/theirs", "example.com/once-more"]) {
    await node.advance(25 * SECONDS); // by then, both are known to be equal
    const theirs = { type, status: "True" };
    await node.patch("p", { status: { phase: "Pending", conditions: [theirs, { type: "Ready", status: "False" }] } }, "/status");
    expect(node.isReady("p")).toBe(false);
    await node.until("ready again", () => node.isReady("p") && node.phase("p") === "Running", 11 * SECONDS);
    expect(node.pod("p")?.status?.conditions).toContainEqual(expect.objectContaining(theirs));
  }
});

test("[node-agent 82] deletes a pod only after it has ended and its terminal status was sent, with its uid and grace 0", async () => {
  const node = await startedNode({ images: { "slow:1": { stopAfterMs: "never" } } });
  const uid = await node.create("p", { containers: [{ ...APP, image: "slow:1" }] });
  await node.until("ready", () => node.isReady("p"));
  await node.delete("p", 10);
  await node.advance(9 * SECONDS);
  expect(sent(node, "DELETE", "/pods/p")).toEqual([]);
  await node.until("gone", () => node.pod("p") === undefined, 10 * SECONDS);
  const [deletion, ...more] = sent(node, "DELETE", "/pods/p");
  expect(more).toEqual([]);
  expect(deletion?.body).toMatchObject({ gracePeriodSeconds: 0, preconditions: { uid } });
  const last = statuses(node).at(-1);
  expect(last?.status?.phase).toBe("Failed");
  const terminal = sent(node, "PATCH", "/pods/p/status").at(-1);
  expect(deletion?.atMs).toBeGreaterThan(terminal?.atMs ?? Infinity);
});

test("[node-agent 82] treats a pod as deleted if its name was reused before the deletion, without a failure", async () => {
  const node = await startedNode();
  const uid = await node.create("p", { containers: [APP] });
  await node.until("ready", () => node.isReady("p"));
  let deletions = 0;
  node.fateOf = ({ port, verb }) => {
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
  await node.delete("p", 1);
  await node.until("its deletion was tried", () => deletions > 0, 20 * SECONDS);
  await node.advance(SECONDS);
  expect([deletions, await node.agent.ports.store.read("statuses", uid)]).toEqual([1, undefined]);
});

test("[node-agent 82] does not delete a pod that ends by itself", async () => {
  const node = await startedNode({ images: { "ends:1": { exitAfterMs: SECONDS } } });
  await node.create("p", { restartPolicy: "Never", containers: [{ ...APP, image: "ends:1" }] });
  await node.until("it ended", () => node.phase("p") === "Succeeded");
  await node.advance(120 * SECONDS);
  expect(sent(node, "DELETE", "/pods/p")).toEqual([]);
});

test("[node-agent 82] never finalizes the deletion of a mirror pod, but recreates it", async () => {
  const node = await startedNode({ manifests: true });
  node.setManifest("web.yaml", { name: "web", spec: { containers: [APP] } });
  await node.until("its mirror is ready", () => node.isReady("web-n1"));
  const mirror = node.pod("web-n1");
  await node.delete("web-n1", 30);
  await node.until("another mirror is ready", () => node.isReady("web-n1") && node.pod("web-n1")?.metadata.uid !== mirror?.metadata.uid);
  expect(node.pod("web-n1")?.metadata.annotations?.[CONFIG_ANNOTATIONS.mirror]).toBe(
    mirror?.metadata.annotations?.[CONFIG_ANNOTATIONS.mirror],
  );
  expect(await node.containers(node.manifestUid("web.yaml"))).toHaveLength(1);
});

test("[node-agent 125] replaces an older status that was written after a newer one", async () => {
  const node = await startedNode();
  let late: SentStatus | undefined;
  node.fateOf = ({ port, verb, args }) => {
    const { name, body } = (args[0] ?? {}) as { readonly name?: string; readonly body?: SentStatus }; // a PatchRequest
    if (port !== "kube" || verb !== "patch" || name !== "p" || late !== undefined) return "live";
    late = body;
    return { fail: new UnansweredError("no answer") };
  };
  await node.create("p", { containers: [APP] });
  await node.until("ready", () => node.isReady("p"));
  await node.patch("p", late ?? {}, "/status");
  expect(node.isReady("p")).toBe(false);
  await node.until("as it is", () => node.isReady("p"), 11 * SECONDS);
});
