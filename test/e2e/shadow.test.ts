/**
 * `deltaloop shadow` and `capture` while upstream's own controllers run on a real control plane and users create, roll out and delete
 * workloads.
 */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { deltaloop, measured, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { liveTimeline } from "../support/live-page.ts";
import { COMPARED_VERSION } from "../envtest/release-module.ts";

const TIMEOUT_MS = 120_000;
const labels = { app: "web" };
const template = (image: string): object => ({ metadata: { labels }, spec: { containers: [{ name: "app", image }] } });
const web = (image: string, replicas: number): object => ({
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "web", namespace: "default" },
  spec: { replicas, selector: { matchLabels: labels }, template: template(image) },
});
const counter = {
  apiVersion: "v1",
  kind: "ReplicationController",
  metadata: { name: "rc", namespace: "default" },
  spec: {
    replicas: 2,
    selector: { app: "rc" },
    template: { metadata: { labels: { app: "rc" } }, spec: { containers: [{ name: "app", image: "v1" }] } },
  },
};

interface Summary {
  readonly summary: { readonly writes: Readonly<Record<string, number>>; readonly rests: number; readonly writesOfOursAtRest: number };
}

await whereRealPartsAre("shadow beside upstream's controllers", () => {
  describe("shadow", () => {
    let cluster: Cluster;
    let folder: string;
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "deltaloop-shadow-"));
      cluster = await startCluster({ controllers: "all" });
    }, TIMEOUT_MS);
    afterAll(async () => {
      await cluster?.stop();
      await rm(folder, { recursive: true });
    });

    const ended = async (
      shadow: Running,
    ): Promise<{ readonly lines: readonly Readonly<Record<string, unknown>>[]; readonly code: number | null } & Summary> => {
      process.kill(shadow.pid, "SIGINT");
      const { code } = await shadow.exited;
      const lines = shadow
        .output()
        .split("\n")
        .filter((line) => line.startsWith("{"))
        .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>); // the output of --json
      return { lines, code, summary: (lines.at(-1) as unknown as Summary).summary };
    };
    const started = async (...flags: readonly string[]): Promise<Running> => {
      const shadow = deltaloop(["shadow", "--kubeconfig", cluster.plane.adminKubeconfig, "--json", ...flags]);
      await shadow.line("comparing with the controllers of");
      await new Promise((resolve) => void setTimeout(resolve, 2_000)); // until the first list is complete
      return shadow;
    };

    it("explains every write of a rollout, a scaling and deletions, and prints nothing when idle", { timeout: TIMEOUT_MS }, async () => {
      const shadow = await started("--open");
      await cluster.apply(web("v1", 5), counter);
      await cluster.rolledOut("default", "web");
      await cluster.apply(web("v2", 5));
      await cluster.rolledOut("default", "web");
      await cluster.kubectl("scale", "deployment/web", "--replicas=2", "-n", "default");
      await cluster.rolledOut("default", "web");
      await cluster.kubectl("delete", "pod", "-l", "app=web", "-n", "default", "--wait=false");
      await cluster.rolledOut("default", "web");
      await cluster.kubectl("delete", "rc/rc", "-n", "default");
      await new Promise((resolve) => void setTimeout(resolve, 4_000)); // a pause between user requests
      expect(await liveTimeline(shadow)).toContain('"kind":"shadow"');
      const { lines, code, summary } = await ended(shadow);
      const { exact = 0, older = 0, tie = 0, foreign = 0 } = summary.writes;
      measured(`shadow beside upstream: ${exact} exact, ${older} older, ${tie} ties, ${foreign} of others, ${summary.rests} rests`);
      expect(lines.filter(({ verdict }) => verdict === "unexplained")).toEqual([]);
      expect({ code, atRest: summary.writesOfOursAtRest }).toEqual({ code: 0, atRest: 0 });
      expect(exact + older + tie).toBeGreaterThan(40);
      expect(summary.rests).toBeGreaterThan(0);
    });

    it("a replay of a captured rollout computes the hashes of this release", { timeout: TIMEOUT_MS }, async () => {
      const file = join(folder, "capture.jsonl");
      const capture = deltaloop(["capture", "-o", file, "--kubeconfig", cluster.plane.adminKubeconfig]);
      await capture.line("capturing");
      await cluster.apply(web("captured", 2));
      await cluster.rolledOut("default", "web");
      await capture.stop();
      const recorded = await readFile(file, "utf8");
      expect(recorded).toContain(`"kubernetes":"${COMPARED_VERSION}"`);
      const replay = deltaloop(["replay", file]);
      expect((await replay.exited).code, replay.output()).toBe(0);
      const created = replay.output().match(/(?<=create ReplicaSet )[\w-]+/g) ?? [];
      expect(created.length).toBeGreaterThan(0);
      expect(created.filter((name) => !recorded.includes(`"name":"${name}"`))).toEqual([]);
    });

    it("reports a write that deltaloop's controllers would not make, and exits with code 1", { timeout: TIMEOUT_MS }, async () => {
      const shadow = await started();
      const patch = JSON.stringify({ status: { readyReplicas: 1, availableReplicas: 1, replicas: 7 } });
      const asController = "--field-manager=kube-controller-manager";
      await cluster.kubectl("patch", "deployment/web", "-n", "default", "--subresource=status", "--type=merge", asController, "-p", patch);
      await shadow.line("unexplained", 20_000);
      const [, address = ""] = /metrics and health: (\S+)\/metrics/.exec(shadow.output()) ?? [];
      const told = await (await fetch(`${address}/metrics`)).text();
      expect(told).toMatch(/^deltaloop_shadow_writes_total\{controller="deployment",verdict="unexplained"\} [1-9]/m);
      expect(told).toMatch(/^deltaloop_shadow_at_rest_total \d+$/m);
      const { lines, code } = await ended(shadow);
      expect(code).toBe(1);
      expect(lines.find(({ verdict }) => verdict === "unexplained")).toMatchObject({
        controller: "deployment",
        resource: "deployments",
        subresource: "status",
        differences: expect.arrayContaining(["counters.replicas: upstream 7, before 2"]),
      });
    });
  });
});
