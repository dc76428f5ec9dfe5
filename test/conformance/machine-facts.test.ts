// Facts of the machine: capacity, architecture, root directory, huge pages and OOM groups.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { expect, it } from "vitest";
import { pageSizeNames, readMachineFacts } from "../../shared/node-agent/system/machine-facts.ts";

it("reads the machine's data for a Node object", async () => {
  const facts = await readMachineFacts(tmpdir());
  expect(facts).toMatchObject({ os: "linux", architecture: expect.stringMatching(/^(amd64|arm64|386|arm|s390x|ppc64le)$/u) as string });
  for (const field of ["hostname", "kernelVersion", "osImage", "bootId"] as const) expect(facts[field], field).toMatch(/\S/u);
  const { cpuMilli, memoryBytes, ephemeralStorageBytes, pods } = facts.resources;
  expect([cpuMilli % 1000, memoryBytes % 1024, pods]).toEqual([0, 0, 110]);
  for (const amount of [cpuMilli, memoryBytes, ephemeralStorageBytes]) expect(amount).toBeGreaterThan(0);
});

const HUGE_PAGES = "/sys/kernel/mm/hugepages";
const IS_UNIFIED =
  existsSync("/sys/fs/cgroup") && execFileSync("stat", ["-f", "-c", "%t", "/sys/fs/cgroup"], { encoding: "utf8" }).trim() === "63677270";

it("[node-agent 138] finds each huge page size of the kernel", async () => {
  const { resources } = await readMachineFacts(tmpdir());
  const directories = existsSync(HUGE_PAGES) ? readdirSync(HUGE_PAGES) : [];
  expect(resources.hugePageSizes).toEqual(pageSizeNames(directories));
  expect(resources.hugePageSizes).toHaveLength(directories.length);
});

it("[node-agent 138] names sizes as cgroups do, and ignores invalid ones", () => {
  const names = [
    "hugepages-1048576kB",
    "hugepages-2048kB",
    "hugepages-64kB",
    "hugepages-16777216kB",
    "hugepages-1MB",
    "hugepages-xkB",
    "other",
  ];
  expect(pageSizeNames(names)).toEqual(["64KB", "2MB", "1GB", "16GB"]);
});

it("[node-agent 138] ends the whole container on an OOM kill when all cgroups are v2, unless configured otherwise", async () => {
  expect((await readMachineFacts(tmpdir())).resources.killsGroupOnOom).toBe(IS_UNIFIED ? true : undefined);
  expect((await readMachineFacts(tmpdir(), { singleProcessOomKill: true })).resources.killsGroupOnOom).toBeUndefined();
});

it("reports a missing root directory", async () => {
  await expect(readMachineFacts("/no/such/root")).rejects.toThrow("ENOENT");
});
