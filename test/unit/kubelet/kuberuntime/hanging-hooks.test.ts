// Would catch: a hook whose connection or command continues after its pod has ended, and leftover records of a deleted pod.
import { expect, test } from "vitest";
import { startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
const YEARS_SECONDS = 1_000_000_000;

/** A node on which hooks never end by themselves; `asked` returns the abort signals of the started hooks. */
async function silentNode(): Promise<{ readonly node: NodeHarness; readonly asked: () => readonly (AbortSignal | undefined)[] }> {
  const signals: (AbortSignal | undefined)[] = [];
  const prober = {
    httpGet: async (_: unknown, signal?: AbortSignal) => {
      signals.push(signal);
      return await new Promise<{ readonly result: "error"; readonly output: "" }>((resolve) =>
        signal?.addEventListener("abort", () => resolve({ result: "error", output: "" })),
      );
    },
    tcpSocket: async () => ({ result: "Success", output: "" }) as const,
  };
  const node = await startedNode({ prober, images: { "hangs:1": { exec: () => ({ afterMs: YEARS_SECONDS * SECONDS }) } } });
  const ofCommands = (): readonly (AbortSignal | undefined)[] =>
    node.calls.flatMap(({ verb, args }) =>
      verb === "execSync" ? [(args[3] as { readonly signal?: AbortSignal } | undefined)?.signal] : [],
    );
  return { node, asked: () => [...signals, ...ofCommands()] };
}

const KINDS = [
  { kind: "http", handler: { httpGet: { port: 80 } } },
  { kind: "command", handler: { exec: { command: ["x"] } } },
];

test.each(KINDS)(
  "[node-agent 501] aborts a preStop hook of kind $kind with a grace period of years when the grace period is shortened",
  async ({ handler }) => {
    const { node, asked } = await silentNode();
    const app = { name: "app", image: "hangs:1", lifecycle: { preStop: handler } };
    await node.create("p", { terminationGracePeriodSeconds: YEARS_SECONDS, containers: [app] });
    await node.until("it runs", () => node.isReady("p"));
    await node.delete("p");
    await node.until("the hook has begun", () => asked().length === 1);
    await node.advance(60 * SECONDS);
    expect(asked()[0]?.aborted).toBe(false);
    await node.delete("p", 1);
    await node.advance(10 * SECONDS);
    expect(asked().map((signal) => signal?.aborted)).toEqual([true]);
    expect(node.agent.ports.operations.size).toBe(0);
  },
);

test.each(KINDS)(
  "[node-agent 501] aborts a postStart hook of kind $kind when its pod is deleted, and reports no FailedPostStartHook",
  async ({ handler }) => {
    const { node, asked } = await silentNode();
    await node.create("p", { containers: [{ name: "app", image: "hangs:1", lifecycle: { postStart: handler } }] });
    await node.until("the hook has begun", () => asked().length === 1);
    await node.delete("p", 0);
    await node.advance(10 * SECONDS);
    expect(asked().map((signal) => signal?.aborted)).toEqual([true]);
    await node.advance(120 * SECONDS);
    const told = node.requests
      .filter(({ path }) => path.includes("/events"))
      .map(({ body }) => (body as { readonly reason?: string }).reason);
    expect(told).not.toContain("FailedPostStartHook");
    expect(await node.agent.ports.store.rows("reasons")).toEqual(new Map());
  },
);

test("[node-agent 501] aborts a sleep hook of several years when its pod is deleted", async () => {
  const { node } = await silentNode();
  const sleep = { sleep: { seconds: YEARS_SECONDS } };
  const app = { name: "app", image: "hangs:1", lifecycle: { preStop: sleep } };
  await node.create("p", { terminationGracePeriodSeconds: YEARS_SECONDS, containers: [app] });
  await node.until("it runs", () => node.isReady("p"));
  let sleeps = 0;
  const { clock } = node.agent.ports;
  const after = clock.after.bind(clock);
  clock.after = async (ms, signal) => {
    if (ms < YEARS_SECONDS * SECONDS) return await after(ms, signal);
    sleeps++;
    return await after(ms, signal).finally(() => sleeps--);
  };
  await node.delete("p");
  await node.advance(10 * SECONDS);
  expect(sleeps).toBe(1);
  await node.delete("p", 1);
  await node.advance(10 * SECONDS);
  expect(sleeps).toBe(0);
});
