// Would catch: a record, message, operation or cached object that remains after its pod was deleted, so that the agent's memory grows
// without bound.
import { expect, test } from "vitest";
import { NODE_TABLES } from "../../../../shared/node-agent/ports/node-store.ts";
import { startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
const APP = { name: "app", image: "app:1" };
const EXEC = { exec: { command: ["look"] }, periodSeconds: 1 };
const HTTP = { httpGet: { port: 80 }, periodSeconds: 1 };
/** Number of pods of each kind. */
const PODS = 3;
/** Time in ms after which all records are removed: back-offs are kept for 10 minutes (node-agent §1), cached objects for no longer. */
const ALL_FORGOTTEN_MS = 700 * SECONDS;

/**
 * Returns the number of entries in each structure that outlives an iteration (the table of shared/node-agent/README.md), except Events,
 * whose number is bounded.
 */
async function kept({ agent: { ports, queues } }: NodeHarness): Promise<Readonly<Record<string, number>>> {
  const { store, operations, objects, pods, known, condition } = ports;
  const rows = await Promise.all(NODE_TABLES.map(async (table) => [table, (await store.rows(table)).size] as const));
  const due = await Promise.all((["pods", "probes"] as const).map(async (of) => [`due ${of}`, (await store.agenda(of)).size] as const));
  return {
    ...Object.fromEntries([...rows, ...due]),
    "messages for pods": queues.pods.size,
    "messages for statuses": queues.statuses.size,
    operations: operations.size,
    objects: objects.size,
    pods: pods.size,
    "statuses of what is up": known.size,
    "relisted containers": Object.keys(condition.relisted?.record.states ?? {}).length,
  };
}

test("keeps no NodeStore row of a pod after its end, for any order of events", async () => {
  const node = await startedNode({
    manifests: true,
    prober: { httpGet: async () => ({ result: "Success", output: "" }) },
    images: { "ends:1": { exitAfterMs: SECONDS, exitCode: 1 }, "hung:1": { exec: () => ({ exitCode: 1 }) } },
    remoteImages: { "slow:1": { pullMs: 600 * SECONDS } },
  });
  const before = await kept(node);
  const names: string[] = [];
  const add = async (name: string, spec: Parameters<NodeHarness["create"]>[1]): Promise<void> => {
    names.push(name);
    await node.create(name, spec);
  };
  for (let number = 0; number < PODS; number++) {
    await add(`plain-${number}`, { containers: [APP] });
    await add(`probed-${number}`, { containers: [{ ...APP, livenessProbe: HTTP, readinessProbe: HTTP, startupProbe: HTTP }] });
    await add(`restarted-${number}`, { containers: [{ ...APP, image: "hung:1", livenessProbe: EXEC }] });
    await add(`failed-${number}`, { restartPolicy: "Never", containers: [{ ...APP, image: "ends:1" }] });
    await add(`looping-${number}`, { containers: [{ ...APP, image: "ends:1" }] });
    await add(`imageless-${number}`, { containers: [{ ...APP, image: "none:1" }] });
    await add(`pulling-${number}`, { containers: [{ ...APP, image: "slow:1" }] });
    await add(`rejected-${number}`, { nodeSelector: { disk: "none" }, containers: [APP] });
    await add(`unmountable-${number}`, { volumes: [{ name: "v", configMap: { name: "none" } }], containers: [APP] });
    node.setManifest(`static-${number}.json`, { name: `static-${number}`, spec: { containers: [APP] } });
  }
  await node.until("the first are ready", () => node.isReady("plain-0") && node.isReady("probed-0"));
  const most = new Map<string, number>();
  for (let second = 0; second < 60; second++) {
    await node.advance(SECONDS);
    for (const [what, size] of Object.entries(await kept(node))) most.set(what, Math.max(size, most.get(what) ?? 0));
  }
  for (const [what, size] of most)
    if (!what.startsWith("messages")) expect(size, `there is something to forget: ${what}`).toBeGreaterThan(before[what] ?? 0);

  for (const name of names) await node.delete(name);
  for (let number = 0; number < PODS; number++) node.setManifest(`static-${number}.json`, undefined);
  await node.until("all are gone", () => node.pods().length === 0);
  await node.advance(ALL_FORGOTTEN_MS);
  expect(await kept(node)).toEqual(before);
});

test("[node-agent 505] drops all records of a sandbox that another client removed, and of its containers", async () => {
  const node = await startedNode();
  const uid = await node.create("p", { containers: [APP] });
  await node.until("it runs", () => node.isReady("p"));
  await node.advance(3 * SECONDS);
  const { known } = node.agent.ports;
  expect(known.size).toBe(2);
  const [sandbox] = await node.cri.listPodSandbox();
  if (sandbox === undefined) throw new Error("there is none");
  await node.cri.stopPodSandbox(sandbox.id);
  for (const { id } of await node.containers(uid)) await node.cri.removeContainer(id);
  await node.cri.removePodSandbox(sandbox.id);
  await node.until("it runs once more", async () => (await node.running(uid)).length === 1);
  await node.advance(3 * SECONDS);
  expect(known.size).toBe(2);
});
