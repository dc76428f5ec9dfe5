/** Catches a README that promises what is not so: idle time without cost, figures without date and commit, acting anywhere. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { expect, it } from "vitest";

const read = async (path: string): Promise<string> => await readFile(join(import.meta.dirname, "..", "..", path), "utf8");
const readme = await read("README.md");
const section = (title: string): string => readme.split(/^## /m).find((part) => part.startsWith(title)) ?? "";

it("names what stands while nothing changes, as the template has it", async () => {
  const redis = await read("infra/redis.yml");
  const [node, count] = [/CacheNodeType: (\S+)/.exec(redis)?.[1], /NumCacheClusters: (\d)/.exec(redis)?.[1]];
  expect(count).toBe("2");
  expect(section("What idle costs")).toContain(`two \`${node}\` nodes`);
  expect(section("What idle costs")).toContain("watcher");
  expect(readme).not.toMatch(/nothing when idle/);
});

it("dates its figures and names the commits", () => {
  expect(section("Figures")).toMatch(/\b\d{4}-\d\d-\d\d\b.*\b[0-9a-f]{7}\b/);
});

it("says where one may not act, and what has not been run", () => {
  expect(section("Use it on a cluster")).toMatch(/Managed control planes .* shadow/);
  expect(section("Limits today")).toMatch(/NodeConformance suites have not been run/);
});
