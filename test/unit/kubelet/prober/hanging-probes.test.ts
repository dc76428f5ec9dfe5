// Would catch: a probe that still waits for a response after its container has ended, and so keeps its connection and memory and delays the
// next container's probe.
import { expect, test } from "vitest";
import type { ContainerStatusEntry } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
const FOREVER = { timeoutSeconds: 2_147_483_647, periodSeconds: 1 };

interface Asked {
  readonly signal: AbortSignal | undefined;
  answer(): void;
}

/** A node whose network responds to probes only when the test says so. */
async function silentNode(): Promise<{ readonly node: NodeHarness; readonly asked: readonly Asked[] }> {
  const asked: Asked[] = [];
  const ask = async (signal?: AbortSignal) =>
    await new Promise<{ readonly result: "Success"; readonly output: "" }>((resolve) =>
      asked.push({ signal, answer: () => resolve({ result: "Success", output: "" }) }),
    );
  const prober = {
    httpGet: async (_: unknown, signal?: AbortSignal) => await ask(signal),
    tcpSocket: async (_: unknown, signal?: AbortSignal) => await ask(signal),
    grpcHealth: async (_: unknown, signal?: AbortSignal) => await ask(signal),
  };
  const node = await startedNode({ prober, images: { "ends:1": { exitAfterMs: 10 * SECONDS, exitCode: 1 } } });
  return { node, asked };
}

function statusOf(node: NodeHarness): ContainerStatusEntry | undefined {
  return node.pod("p")?.status?.containerStatuses?.[0];
}

const KINDS = [
  { kind: "http", handler: { httpGet: { port: 80 } } },
  { kind: "tcp", handler: { tcpSocket: { port: 80 } } },
  { kind: "grpc", handler: { grpc: { port: 80 } } },
];

test.each(KINDS)("[node-agent 485] aborts an unanswered $kind probe when its pod is deleted", async ({ handler }) => {
  const { node, asked } = await silentNode();
  await node.create("p", { containers: [{ name: "app", image: "app:1", readinessProbe: { ...handler, ...FOREVER } }] });
  await node.until("it is asked", () => asked.length > 0);
  await node.advance(60 * SECONDS);
  expect(asked).toHaveLength(1);
  expect(asked[0]?.signal?.aborted).toBe(false);
  await node.delete("p", 0);
  await node.advance(5 * SECONDS);
  expect(asked[0]?.signal?.aborted).toBe(true);
  expect(await node.agent.ports.store.rows("probes")).toEqual(new Map());
});

test("[node-agent 485] aborts a probe command that does not end when its pod is deleted", async () => {
  const node = await startedNode({ images: { "hangs:1": { exec: () => ({ afterMs: 2_147_483_647 * SECONDS }) } } });
  const readinessProbe = { exec: { command: ["x"] }, ...FOREVER };
  await node.create("p", { containers: [{ name: "app", image: "hangs:1", readinessProbe }] });
  const call = (): { readonly signal?: AbortSignal } | undefined => node.calls.find(({ verb }) => verb === "execSync")?.args[3] as never;
  await node.until("it is asked", () => call() !== undefined);
  expect(call()?.signal?.aborted).toBe(false);
  await node.delete("p", 0);
  await node.advance(5 * SECONDS);
  expect(call()?.signal?.aborted).toBe(true);
});

test("[node-agent 485] abandons an unanswered probe when its container ends, and probes the next container", async () => {
  const { node, asked } = await silentNode();
  const probes = { readinessProbe: { httpGet: { port: 80 }, ...FOREVER } };
  await node.create("p", { containers: [{ name: "app", image: "ends:1", ...probes }] });
  await node.until("it is asked", () => asked.length === 1);
  await node.until("the next one is asked", () => asked.length === 2);
  expect(statusOf(node)?.restartCount).toBe(1);
  expect(asked.map(({ signal }) => signal?.aborted)).toEqual([true, false]);
  asked[0]?.answer(); // the probe of the previous container, whose result is no longer used
  await node.advance(SECONDS);
  expect(node.isReady("p")).toBe(false);
  asked[1]?.answer();
  await node.until("ready", () => node.isReady("p"), 5 * SECONDS);
});

test("[node-agent 485] an aborted probe is not a failure and reports nothing", async () => {
  const { node, asked } = await silentNode();
  await node.create("p", { containers: [{ name: "app", image: "ends:1", livenessProbe: { httpGet: { port: 80 }, ...FOREVER } }] });
  await node.until("it was given up", () => asked[0]?.signal?.aborted === true);
  await node.advance(10 * SECONDS);
  const told = node.requests
    .filter(({ path }) => path.includes("/events"))
    .map(({ body }) => (body as { readonly reason?: string }).reason);
  expect(told).not.toContain("Unhealthy");
});
