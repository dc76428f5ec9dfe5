import { describe, expect, it } from "vitest";

import { checkClusters, printClusters } from "../../../../cli/doctor/check-clusters.ts";
import { failure, ok, warning } from "../../../../cli/doctor/finding.ts";
import type { Finding } from "../../../../cli/doctor/finding.ts";
import type { Report } from "../../../../cli/doctor/report.ts";

const report = (...findings: readonly Finding[]): Report => ({ deployment: "prod", cluster: "0a", mode: "act", tookMs: 1_200, findings });
const REPORTS: Readonly<Record<string, () => Promise<Report>>> = {
  blue: () => Promise.resolve(report(ok("redis.version", "8.0"))),
  green: () => Promise.resolve(report(ok("redis.version", "8.0"), warning("redis.memory", "85 % used", "add memory"))),
  grey: () => Promise.reject(new Error("connect ECONNREFUSED 10.0.0.1:6443\u001b[2J")),
  red: () => Promise.resolve(report(failure("redis.version", "5.0 is too old", "upgrade"))),
};
const CLUSTERS = [...Object.keys(REPORTS), "white"].map((name) => ({ name, isPaused: name === "white" }));
const check = (name: string): Promise<Report> => REPORTS[name]?.() ?? Promise.reject(new Error("not listed"));

describe("the doctor of a directory", () => {
  it("checks every cluster, although one fails, and leaves out a paused one", async () => {
    const checked = await checkClusters(CLUSTERS, check);
    expect(checked.map(({ name, kind }) => `${name} ${kind}`)).toEqual([
      ...["blue report", "green report", "grey failed", "red report", "white paused"],
    ]);
  });

  it("prints one line for a healthy cluster, and the findings of an unhealthy one", async () => {
    const { text, exitCode } = printClusters(await checkClusters(CLUSTERS, check), [], { width: 100 });
    const lines = text.split("\n");
    expect(lines.slice(0, 5)).toEqual([
      "ok        blue: 1 of 1 checks ok; 1.2 s",
      "warning   green: 1 of 2 checks ok, warnings: redis.memory; 1.2 s",
      expect.stringMatching(/^failure {3}grey: .*ECONNREFUSED/),
      "failure   red: 0 of 1 checks ok; 1.2 s",
      "paused    white",
    ]);
    expect(text).toContain("5.0 is too old");
    expect(text).toContain("5 clusters, 2 with failures\n");
    expect(text).not.toContain("\u001b");
    expect(exitCode).toBe(1);
  });

  it("exits with 0 when all are healthy, and with 1 when a kubeconfig is rejected", async () => {
    const healthy = await checkClusters([{ name: "blue", isPaused: false }], check);
    expect(printClusters(healthy, [], { width: 80 }).exitCode).toBe(0);
    const rejected = printClusters(healthy, ["kubeconfig rejected: evil.yaml: exec"], { width: 80 });
    expect([rejected.exitCode, rejected.text]).toEqual([1, expect.stringContaining("failure   kubeconfig rejected: evil.yaml")]);
    expect(rejected.text).toContain("\n1 cluster, 0 with failures, 1 problem of kubeconfigs\n");
    expect(printClusters([], ["a", "b"], { width: 80 }).text).toContain("\n0 clusters, 0 with failures, 2 problems of kubeconfigs\n");
    expect(JSON.parse(printClusters(healthy, [], { width: 80, output: "json" }).text)).toMatchObject({
      clusters: [{ name: "blue", state: "ok" }],
    });
  });

  it("checks at most eight clusters at the same time", async () => {
    let [running, most] = [0, 0];
    await checkClusters(
      Array.from({ length: 30 }, (_, i) => ({ name: `c${i}`, isPaused: false })),
      async () => {
        most = Math.max(most, ++running);
        await Promise.resolve();
        running--;
        return report();
      },
    );
    expect(most).toBe(8);
  });
});
