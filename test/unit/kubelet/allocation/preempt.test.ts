// Would catch: a critical pod that starts before its victims have ended, a critical pod that is rejected, a preempted pod whose status does
// not state the reason, and an endless wait.
import { expect, test } from "vitest";
import { countedMetrics } from "../../../support/counted.ts";
import { startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
const CRITICAL = 2_000_000_000;

/** A container that requests some of the node's 64 CPUs. */
const asking = (cpu: string, image = "app:1"): { readonly name: string; readonly image: string; readonly resources: object } => ({
  ...{ name: "app", image },
  resources: { requests: { cpu } },
});

function events(node: NodeHarness, reason: string): readonly object[] {
  const sent = node.requests.flatMap(({ path, body }) =>
    path.endsWith("/events") && body !== undefined ? [body as { readonly reason: string }] : [],
  ); // Events
  return sent.filter((event) => event.reason === reason);
}

test("[node-agent 472] starts a critical pod when its victims have terminated within their own grace periods, and reports the preemption in the victims' status", async () => {
  const metrics = countedMetrics();
  const node = await startedNode({ metrics, images: { "slow:1": { stopAfterMs: 7 * SECONDS } } });
  const victim = await node.create("victim", { containers: [asking("40", "slow:1")], terminationGracePeriodSeconds: 20 });
  await node.create("small", { containers: [asking("10")] });
  await node.until("both run", () => node.isReady("victim") && node.isReady("small"));
  const critical = await node.create("critical", { containers: [asking("30")], priority: CRITICAL });
  await node.advance(5 * SECONDS);
  expect([await node.running(victim), await node.running(critical)]).toEqual([["app"], []]);
  await node.until("it runs", () => node.isReady("critical"), 10 * SECONDS);
  expect(await node.running(victim)).toEqual([]);
  await node.until("it is said", () => node.phase("victim") === "Failed", 10 * SECONDS);
  expect(node.pod("victim")?.status).toMatchObject({
    reason: "Preempting",
    message: "Preempted in order to admit critical pod",
    conditions: expect.arrayContaining([
      expect.objectContaining({
        ...{ type: "DisruptionTarget", status: "True", reason: "TerminationByKubelet" },
        message: "Pod was preempted by Kubelet to accommodate a critical pod.",
      }),
    ]),
  });
  expect(events(node, "Preempting")).toMatchObject([
    { type: "Warning", message: "Preempted in order to admit critical pod", involvedObject: { name: "victim" } },
  ]);
  expect(metrics.sums).toMatchObject({ "kubelet_preemptions{preemption_signal=cpu}": 1 });
  expect([node.isReady("small"), node.phase("critical")]).toEqual([true, "Running"]);
});

test("[node-agent 472] preempts other pods for a static pod too", async () => {
  const node = await startedNode({ manifests: true });
  await node.create("victim", { containers: [asking("40")] });
  await node.until("it runs", () => node.isReady("victim"));
  node.setManifest("s", { name: "static", spec: { containers: [asking("30")] } });
  await node.until("the static pod runs", () => node.isReady("static-n1"), 60 * SECONDS);
  expect(node.phase("victim")).toBe("Failed");
});

test("[node-agent 473] stops waiting for a victim after 1.5 times its grace period", async () => {
  const metrics = countedMetrics();
  const node = await startedNode({ metrics });
  const victim = await node.create("victim", { containers: [asking("40")], terminationGracePeriodSeconds: 10 });
  await node.until("it runs", () => node.isReady("victim"));
  node.fateOf = ({ verb }) => (verb.startsWith("stop") ? { fail: new Error("busy") } : "live");
  await node.create("critical", { containers: [asking("30")], priority: CRITICAL });
  await node.advance(14 * SECONDS);
  expect(node.isReady("critical")).toBe(false);
  await node.until("it runs", () => node.isReady("critical"), 10 * SECONDS);
  expect(await node.running(victim)).toEqual(["app"]);
  expect(events(node, "ExceededGracePeriod")).toMatchObject([
    {
      type: "Warning",
      message: "Container runtime did not kill the pod within specified grace period.",
      involvedObject: { name: "victim" },
    },
  ]);
  expect(metrics.sums).not.toHaveProperty("kubelet_preemptions{preemption_signal=cpu}");
});
