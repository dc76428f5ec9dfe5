/** `deltaloop cost` as a process. Catches: a usage error that causes a stack trace or a result, and an option without effect. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "..", "..", "..");

let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "deltaloop-cost-"))));
afterAll(() => rmSync(folder, { recursive: true }));

function cost(...flags: readonly string[]) {
  return spawnSync(process.execPath, [join(ROOT, "cli/main.ts"), "cost", ...flags], { cwd: folder, encoding: "utf8" });
}

it("options override a deployment's parameter file", () => {
  writeFileSync(join(folder, "prod.yml"), "natGateway: false\nstoreNodes: 3\nclusterId: 0123456789ab\n");
  const { status, stdout } = cost("--params", "prod.yml", "--param", "storeNodes=2", "--deployments", "3", "--lost-pods-per-day", "7");
  expect(status).toBe(0);
  expect(stdout).toContain("for 3 Deployments of 3 and, a day, 7 lost pods, with natGateway=false storeNodes=2\n");
  expect(stdout).toContain("store, 2 × cache.t4g.small");
  expect(stdout).not.toMatch(/^NAT gateway/m);
});

it("accepts metrics instead of rates, and rejects the combination of both", () => {
  writeFileSync(
    join(folder, "host.txt"),
    'deltaloop_messages_total{resource="pods",verdict="ack"} 20000\ndeltaloop_delta_lag_seconds_count{resource="pods"} 300\ndeltaloop_doorbells_total 10\n',
  );
  const { status, stdout } = cost("--metrics", "host.txt", "--over", "2h", "--json");
  expect(status).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ measured: { hours: 2, messages: 300, doorbells: 10 } });
  const both = cost("--metrics", "host.txt", "--over", "2h", "--pods", "3");
  expect(both).toMatchObject({ status: 2, stderr: "deltaloop: --metrics already contains the workload: remove --pods\n" });
});

it("compares several clusters with resident controller managers", () => {
  const { status, stdout } = cost("--clusters", "200", "-o", "json");
  expect(status).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ clusters: { count: 200, goals: [{ goalUsd: 28 }, { goalUsd: 20 }, { goalUsd: 0.1 }, {}] } });
});

it("prices several clusters as listed ones, each with a parameter for each function and the watcher", () => {
  const { stdout } = cost("--clusters", "200", "-o", "json");
  const { parameters, items, clusters } = JSON.parse(stdout) as Report; // cli/README.md describes the format
  expect(parameters).toEqual({ clusters: "listed" });
  expect(items.find(({ name }) => name === "parameters")?.idle).toBe(1_400);
  const listed = cost("--clusters", "200", "--param", "clusters=listed", "-o", "json").stdout;
  expect(clusters.goals).toEqual((JSON.parse(listed) as Report).clusters.goals);
  // an endpoint for Parameter Store more than without it
  expect(items.some(({ name }) => name === "endpoints, 3 in 2 zones")).toBe(true);
});

interface Report {
  readonly parameters: object;
  readonly items: readonly { readonly name: string; readonly idle: number }[];
  readonly clusters: { readonly goals: readonly object[] };
}

it.each([
  {
    flags: ["--clusters", "2", "--param", "clusters=one"],
    says: /^deltaloop: --clusters above 1 needs clusters=listed, not clusters=one\n$/,
  },
  { flags: ["--metrics", "nowhere.txt"], says: /^deltaloop: nowhere\.txt cannot be read: .*\n$/ },
  { flags: ["--metrics", "http://127.0.0.1:9/metrics"], says: /^deltaloop: http:\S+ cannot be read: .*(?:ECONNREFUSED|bad port).*\n$/ },
  { flags: ["--params", "nowhere.yml"], says: /^deltaloop: nowhere\.yml cannot be read: .*\n$/ },
  { flags: ["--prices", "broken.json"], says: /^deltaloop: broken\.json is not JSON: .*\n$/ },
  { flags: ["--param", "store=x"], says: /^deltaloop: store=x: must be one of valkey, serverless, memorydb, given\n$/ },
])("exits with code 2 and one line for $flags", ({ flags, says }) => {
  writeFileSync(join(folder, "broken.json"), "{");
  const { status, stdout, stderr } = cost(...flags);
  expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
  expect(stderr).toMatch(says);
});
