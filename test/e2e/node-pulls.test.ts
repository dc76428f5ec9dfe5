/** Image pulls of one of our nodes, on a real containerd with the test's own registry. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startRegistry } from "../containerd/registry.ts";
import type { Pull, TestRegistry } from "../containerd/registry.ts";
import { eventually, measured, startCluster } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { nodesReady, startNodes, whereNodesCanRun } from "../harness/node-processes/containerd-nodes.ts";
import type { NodeAgent } from "../harness/node-processes/containerd-nodes.ts";
import { containerOf, eventsOf, podGone, podOf, podReady, podWhere } from "../harness/node-processes/pods.ts";

const SECONDS = 1_000;

await whereNodesCanRun("image pulls of a node of ours", () => {
  let cluster: Cluster;
  let registry: TestRegistry;
  let nodes: readonly NodeAgent[] = [];

  beforeAll(async () => {
    registry = await startRegistry();
    cluster = await startCluster({ machines: "scheduler" });
    nodes = (
      await Promise.all([
        startNodes(cluster, ["serial"]),
        startNodes(cluster, ["parallel"], { flags: ["--max-parallel-image-pulls", "2"] }),
        startNodes(cluster, ["rationed"], { flags: ["--serialize-image-pulls=false", "--registry-qps", "1", "--registry-burst", "1"] }),
      ])
    ).flat();
    await nodesReady(cluster, ...nodes);
  });

  afterAll(async () => {
    await Promise.all(nodes.map((node) => node.stop()));
    await cluster?.stop();
    await registry?.stop();
  });

  /** Creates pods with these names on one node, each with the image of the same name. */
  const pulling = async (nodeName: string, ...names: readonly string[]): Promise<void> =>
    await cluster.apply(...names.map((name) => podOf(name, { nodeName, containers: [{ name: "main", image: registry.image(name) }] })));
  const ready = async (...names: readonly string[]): Promise<void> => {
    for (const name of names) await podReady(cluster, name);
  };

  describe.concurrent("pulls", () => {
    it("[node-agent 244] pulls run one at a time, even after the agent was killed during a pull", async () => {
      const names = ["a", "b", "c"];
      for (const name of names) await registry.add(name, 3 * SECONDS);
      await pulling("serial", ...names);
      await eventually("an image is coming", async () => registry.pulls(...names).some(({ isComing }) => isComing));
      const serial = nodes.find(({ name }) => name === "serial");
      await serial?.kill();
      await serial?.start();
      await ready(...names);
      const [first, ...rest] = registry.pulls(...names);
      expect(atOnce(registry.pulls(...names))).toBe(1);
      // The killed agent's pull is aborted and starts again.
      expect(rest.map(({ repository }) => repository).toSorted()).toEqual(names);
      expect(rest.map(({ repository }) => repository)).toContain(first?.repository);
      const said = await Promise.all(names.map((name) => eventsOf(cluster, name)));
      const waits = said.flat().flatMap((text) => /^Pulled: .* in ([\d.]+)s \(([\d.]+)s including waiting\)/u.exec(text)?.slice(1) ?? []);
      measured(`pulls one after the other: ${waits.join(" ")}`);
      expect(waits).toHaveLength(6);
      expect(Math.max(...waits.map(Number))).toBeGreaterThan(8.5);
    });

    it("[node-agent 245] pulls run two at a time, and never three", async () => {
      const names = ["d", "e", "f", "g"];
      for (const name of names) await registry.add(name, 2 * SECONDS);
      await pulling("parallel", ...names);
      await ready(...names);
      expect(registry.pulls(...names)).toHaveLength(4);
      expect(atOnce(registry.pulls(...names))).toBe(2);
    });

    it("[node-agent 246] a failed pull is retried after 10 s and 20 s until the image exists, once for both containers that use it", async () => {
      const image = registry.image("late");
      const containers = ["main", "second"].map((name) => ({ name, image }));
      await cluster.apply(podOf("late", { nodeName: "parallel", containers }));
      const pod = await podWhere(
        cluster,
        "late",
        "backs off",
        ({ status }) =>
          (status.containerStatuses ?? []).length === 2 &&
          (status.containerStatuses ?? []).every(({ state }) => state.waiting?.reason === "ImagePullBackOff"),
      );
      const cause =
        `rpc error: code = NotFound desc = failed to pull and unpack image "${image}": ` +
        `failed to resolve reference "${image}": ${image}: not found`;
      for (const name of ["main", "second"])
        expect(containerOf(pod, name).state.waiting?.message).toBe(`Back-off pulling image "${image}": ErrImagePull: ${cause}`);
      await podWhere(cluster, "late", "is tried a third time", () => registry.pulls("late").length >= 3, 70 * SECONDS);
      const [first = 0, second = 0, third = 0] = registry.pulls("late").map(({ startMs }) => startMs);
      measured(`tries after ${Math.round(second - first)} ms and ${Math.round(third - second)} ms`);
      expect(second - first).toBeGreaterThanOrEqual(10 * SECONDS);
      expect(third - second).toBeGreaterThanOrEqual(20 * SECONDS);
      await registry.add("late", 0);
      await podReady(cluster, "late", 90 * SECONDS);
      expect((await eventsOf(cluster, "late")).filter((text) => text.startsWith("Failed: Failed to pull"))).toEqual([
        `Failed: Failed to pull image "${image}": ${cause}`,
      ]);
    });

    it("[node-agent 247] a pull above the rate limit fails without a request to the registry, and is retried later", async () => {
      const names = ["h", "i", "j"];
      for (const name of names) await registry.add(name, 0);
      await pulling("rationed", ...names);
      const refused = await Promise.any(
        names.map(async (name) => {
          // The error is first the waiting reason, and shortly after the cause of a back-off.
          await podWhere(
            cluster,
            name,
            "is refused",
            (pod) => containerOf(pod).state.waiting?.message?.endsWith("pull QPS exceeded") === true,
          );
          return name;
        }),
      );
      const told = [`Failed: Failed to pull image "${registry.image(refused)}": pull QPS exceeded`, "Failed: Error: ErrImagePull"];
      await eventually("it is told", async () => {
        const events = await eventsOf(cluster, refused);
        return told.every((event) => events.includes(event));
      });
      await ready(...names);
      const starts = registry.pulls(...names).map(({ startMs }) => startMs);
      for (const [index, startMs] of starts.slice(1).entries()) expect(startMs - (starts[index] ?? 0)).toBeGreaterThan(0.9 * SECONDS);
    });
  });

  it("[node-agent 244] a queued pull does not delay the deletion of its pod", async () => {
    await registry.add("long", 15 * SECONDS);
    await registry.add("gone", 0);
    await pulling("serial", "long");
    await podWhere(cluster, "long", "is pulled", () => registry.pulls("long").length > 0);
    await pulling("serial", "gone");
    await podWhere(cluster, "gone", "has its sandbox", ({ status }) => status.podIP !== undefined);
    await cluster.kubectl("delete", "pod", "gone", "--wait=false");
    await podGone(cluster, "gone", 8 * SECONDS);
    await podReady(cluster, "long");
    expect(registry.pulls("gone")).toEqual([]);
  });
});

/** Returns the maximum number of concurrent pulls. */
function atOnce(pulls: readonly Pull[]): number {
  return Math.max(
    ...pulls.map(({ startMs }) => pulls.filter((other) => other.startMs <= startMs && startMs < (other.endMs ?? Infinity)).length),
  );
}
