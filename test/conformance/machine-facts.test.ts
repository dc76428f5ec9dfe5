// Would catch: a node that registers without capacity, with Node's own word for its architecture, or with a root that is not there.
import { tmpdir } from "node:os";
import { expect, it } from "vitest";
import { readMachineFacts } from "../../shared/adapters/system/machine-facts.ts";

it("reads what a Node object needs off this machine", async () => {
  const facts = await readMachineFacts(tmpdir());
  expect(facts).toMatchObject({ os: "linux", architecture: expect.stringMatching(/^(amd64|arm64|386|arm|s390x|ppc64le)$/u) as string });
  for (const field of ["hostname", "kernelVersion", "osImage", "bootId"] as const) expect(facts[field], field).toMatch(/\S/u);
  const { cpuMilli, memoryBytes, ephemeralStorageBytes, pods } = facts.resources;
  expect([cpuMilli % 1000, memoryBytes % 1024, pods]).toEqual([0, 0, 110]);
  for (const amount of [cpuMilli, memoryBytes, ephemeralStorageBytes]) expect(amount).toBeGreaterThan(0);
});

it("says so when the root is not there", async () => {
  await expect(readMachineFacts("/no/such/root")).rejects.toThrow("ENOENT");
});
