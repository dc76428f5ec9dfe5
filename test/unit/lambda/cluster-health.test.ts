import { expect, it } from "vitest";

import { NAMED_MAX, reportClusterHealth } from "../../../shared/controllers/lambda/cluster-health.ts";
import type { FunctionWiring } from "../../../shared/controllers/lambda/wiring.ts";
import type { Log } from "../../../shared/base/log.ts";

const OPEN = { open: true } as const;
type Gate = typeof OPEN | { readonly open: false; readonly reason: string };

async function reported(gates: Readonly<Record<string, () => Promise<Gate>>>) {
  const metrics = new Map<string, number>();
  const lines: string[] = [];
  const wiring = {
    clusters: Object.keys(gates),
    cluster: (cid: string) => ({ store: { gate: gates[cid] }, ...(cid === "red" && { name: "europe/red" }) }),
    metrics: { set: (name: string, labels: object, value: number) => metrics.set(`${name} ${Object.values(labels).join()}`.trim(), value) },
    log: { warn: (line: string, fields?: object) => lines.push(`${line} ${JSON.stringify(fields)}`) } as unknown as Log,
  } as unknown as FunctionWiring; // reads no other part
  const unhealthy = await reportClusterHealth(wiring);
  return { metrics, lines, unhealthy };
}

it("counts the unhealthy clusters in one series, and logs the name and id of each", async () => {
  const { metrics, lines, unhealthy } = await reported({
    blue: () => Promise.resolve(OPEN),
    red: () => Promise.resolve({ open: false, reason: "pods: SYNCING" }),
    grey: () => Promise.reject(new Error("connect ECONNREFUSED")),
    green: () => Promise.resolve(OPEN),
  });
  expect(unhealthy.toSorted()).toEqual(["grey", "red"]);
  expect(metrics.get("deltaloop_unhealthy_clusters")).toBe(2);
  expect(lines.find((line) => line.includes('"cluster":"europe/red","cid":"red"'))).toContain("pods: SYNCING");
  expect(lines.find((line) => line.includes('"grey"'))).toContain("ECONNREFUSED");
});

it("reports a gate as closed if it is closed in any cluster, whichever is examined last", async () => {
  const closed = () => Promise.resolve({ open: false, reason: "INIT" } as const);
  const open = () => Promise.resolve(OPEN);
  expect((await reported({ a: closed, b: open })).metrics.get("deltaloop_gate_open deployment")).toBe(0);
  expect((await reported({ a: open, b: open })).metrics.get("deltaloop_gate_open deployment")).toBe(1);
});

it("writes at most a fixed number of lines, however many clusters are unhealthy", async () => {
  const closed = () => Promise.resolve({ open: false, reason: "INIT" } as const);
  const { metrics, lines } = await reported(Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`c${i}`, closed])));
  expect(metrics.size).toBe(4);
  expect(lines).toHaveLength(NAMED_MAX + 1);
  expect(lines.at(-1)).toContain(`{"clusters":${200 - NAMED_MAX}}`);
});
