// Facts of the machine: capacity, architecture, user namespace, root directory, huge pages and OOM groups.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { hugePageBytes, isInUserNamespace, readMachineFacts } from "../../shared/node-agent/system/machine-facts.ts";

it("reads the properties of the machine for a Node object", async () => {
  const facts = await readMachineFacts(tmpdir());
  expect(facts).toMatchObject({ os: "linux", architecture: expect.stringMatching(/^(amd64|arm64|386|arm|s390x|ppc64le)$/u) as string });
  for (const field of ["hostname", "kernelVersion", "osImage", "bootId"] as const) expect(facts[field], field).toMatch(/\S/u);
  const { cpuMilli, memoryBytes, ephemeralStorageBytes, pods } = facts.resources;
  expect([cpuMilli % 1000, memoryBytes % 1024, pods]).toEqual([0, 0, 110]);
  for (const amount of [cpuMilli, memoryBytes, ephemeralStorageBytes]) expect(amount).toBeGreaterThan(0);
});

it("reports the swap space of the machine", async () => {
  const kib = Number(/^SwapTotal:\s+(\d+) kB$/mu.exec(readFileSync("/proc/meminfo", "utf8"))?.[1]);
  expect((await readMachineFacts(tmpdir())).swapBytes).toBe(kib > 0 ? kib * 1024 : undefined);
});

it.each([
  { map: "         0          0 4294967295\n", of: "initial namespace", expected: false },
  { map: "         0       1000          1\n         1     100000      65536\n", of: "rootless container", expected: true },
  { map: "0 0 65536\n", of: "part of the users", expected: true },
  { map: "", of: "empty map", expected: true },
  { map: undefined, of: "kernel without user namespaces", expected: false },
  { map: "no map\n", of: "unreadable map", expected: false },
])("recognizes a user namespace other than the initial one by its uid map ($of): $expected", ({ map, expected }) => {
  expect(isInUserNamespace(map)).toBe(expected);
});

const HUGE_PAGES = "/sys/kernel/mm/hugepages";
const IS_UNIFIED =
  existsSync("/sys/fs/cgroup") && execFileSync("stat", ["-f", "-c", "%t", "/sys/fs/cgroup"], { encoding: "utf8" }).trim() === "63677270";

it("[node-agent 138] finds every huge page size that the kernel supports", async () => {
  const { resources } = await readMachineFacts(tmpdir());
  const directories = existsSync(HUGE_PAGES) ? readdirSync(HUGE_PAGES) : [];
  expect(resources.hugePageSizes).toEqual(Object.keys(await hugePageBytes(HUGE_PAGES)));
  expect(resources.hugePageSizes).toHaveLength(directories.length);
});

it("[node-agent 138] returns page sizes in cgroup notation, and ignores invalid ones", async () => {
  const names = [
    "hugepages-1048576kB",
    "hugepages-2048kB",
    "hugepages-64kB",
    "hugepages-16777216kB",
    "hugepages-1MB",
    "hugepages-xkB",
    "other",
  ];
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-hugepages-"));
  for (const [index, name] of names.entries()) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, "nr_hugepages"), `${index}\n`);
  }
  expect(Object.entries(await hugePageBytes(folder))).toEqual([
    ["64KB", 2 * 64 * 1024],
    ["2MB", 2 ** 21],
    ["1GB", 0],
    ["16GB", 3 * 2 ** 34],
  ]);
  rmSync(folder, { recursive: true });
});

it("[node-agent 138] an OOM kill ends the whole container if all cgroups are v2, unless configured otherwise", async () => {
  expect((await readMachineFacts(tmpdir())).resources.killsGroupOnOom).toBe(IS_UNIFIED ? true : undefined);
  expect((await readMachineFacts(tmpdir(), { singleProcessOomKill: true })).resources.killsGroupOnOom).toBeUndefined();
});

it("reports a missing root directory", async () => {
  await expect(readMachineFacts("/no/such/root")).rejects.toThrow("ENOENT");
});
