/** Would catch: a demo whose node agents do not start pods, start all of them on one node, never end them, or leave files behind. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, expect, it, vi } from "vitest";

import { runMemoryNodes } from "../../../../cli/dev/memory-nodes.ts";
import { createSystemClock } from "../../../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../../../shared/base/system/random.ts";
import type { NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { createApiServer } from "../../../../shared/api-server/api-server.ts";
import { createInProcessKube } from "../../../../shared/api-server/in-process-client.ts";
import { recordingLog } from "../../recording-log.ts";

afterEach(() => vi.unstubAllEnvs());

it("[node-agent 312] pods start and terminate on in-memory node agents", { timeout: 30_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-memory-nodes-"));
  vi.stubEnv("TMPDIR", folder);
  const [clock, random, ends] = [createSystemClock(), createSystemRandom(), new AbortController()];
  const server = createApiServer({ clock, random });
  const kube = createInProcessKube(server, { component: "test" });
  const running = runMemoryNodes(kube, { count: 2, clock, random, log: recordingLog() }, ends.signal);
  const names = ["a", "b", "c", "d"];
  const podOf = (name: string): NodePod | undefined => server.peek("pods", "default", name) as NodePod | undefined; // pods created below
  try {
    for (const name of names) {
      const spec = { containers: [{ name: "main", image: `any:${name}` }], automountServiceAccountToken: false };
      await kube.create({ resource: "pods", namespace: "default", body: { apiVersion: "v1", kind: "Pod", metadata: { name }, spec } });
    }
    const isReady = (name: string): boolean =>
      podOf(name)?.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") === true;
    await vi.waitUntil(() => names.every(isReady), { timeout: 20_000 });
    expect(names.map((name) => podOf(name)?.spec.nodeName).toSorted()).toEqual(["node-0", "node-0", "node-1", "node-1"]);
    const { status } = podOf("a") ?? {};
    expect(status?.phase).toBe("Running");
    expect(status?.containerStatuses?.[0]?.containerID).toMatch(/^memory:\/\/[0-9a-f]{64}$/u);
    const preconditions = { uid: podOf("a")?.metadata.uid ?? "" };
    await kube.delete({ resource: "pods", namespace: "default", name: "a", gracePeriodSeconds: 1, preconditions });
    await vi.waitUntil(() => podOf("a") === undefined, { timeout: 20_000 });
  } finally {
    ends.abort();
    await running;
    server.close();
  }
  expect(readdirSync(folder)).toEqual([]);
  rmSync(folder, { recursive: true });
});
