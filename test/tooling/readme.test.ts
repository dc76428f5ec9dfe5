/**
 * Catches a README that promises what is not so: idle time without cost, figures without date and commit, acting anywhere, and a
 * path, script or verb that is not there.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "..", "..");
const read = async (path: string): Promise<string> => await readFile(join(ROOT, path), "utf8");
const readme = await read("README.md");
const section = (title: string): string => readme.split(/^## /m).find((part) => part.startsWith(title)) ?? "";

it("names what stands while nothing changes, as the template has it", async () => {
  const redis = await read("infra/redis.yml");
  const parameters = await read("infra/parameters.yml");
  const node = /CacheNodeType: !If \[HasStoreNodeType, !Ref StoreNodeType, ([\w.]+)\]/.exec(redis)?.[1];
  const count = /StoreNodes: \{ Type: Number, Default: (\d)/.exec(parameters)?.[1];
  expect(redis).toContain("NumCacheClusters: !Ref StoreNodes");
  expect(count).toBe("2");
  expect(section("What idle costs")).toContain(`two \`${node}\` nodes`);
  expect(section("What idle costs")).toContain("watcher");
  expect(readme).not.toMatch(/nothing when idle/);
});

it("says of money what `deltaloop cost` says", async () => {
  const cost = (...parameters: readonly string[]) => {
    const { stdout } = spawnSync(process.execPath, ["cli/main.ts", "cost", "--json", ...parameters], { cwd: ROOT, encoding: "utf8" });
    return JSON.parse(stdout) as Month; // cli/README.md, cost
  };
  const month = cost();
  const of = (pattern: RegExp): number => month.items.reduce((sum, { name, idleUsd }) => sum + (pattern.test(name) ? idleUsd : 0), 0);
  const idle = section("What idle costs");
  const dollars = [...idle.matchAll(/\$(\d+)/g)].map(([, amount]) => Number(amount));
  expect(dollars).toEqual(
    [
      month.sum.usd,
      of(/^store|^NAT|^its public|^endpoints/),
      month.residents[0]?.usd ?? 0,
      cost("--param=natGateway=false", "--param=endpoints=false", "--param=store=given").sum.usd,
    ].map(Math.round),
  );
  expect(idle).toContain(`Lambda's time ${Math.round(of(/^Lambda: time/) * 100)} cents`);
  const polls = month.items.reduce((sum, { name, idle: count }) => sum + (name.endsWith("empty polls") ? count : 0), 0);
  expect(idle).toContain(`${(polls / 1e6).toFixed(1)} million times a month`);
});

interface Month {
  readonly sum: { readonly usd: number };
  readonly items: readonly { readonly name: string; readonly idle: number; readonly idleUsd: number }[];
  readonly residents: readonly { readonly usd: number }[];
}

it("dates its figures and names the commits", () => {
  expect(section("Figures")).toMatch(/\b\d{4}-\d\d-\d\d\b.*\b[0-9a-f]{7}\b/);
});

it("says where one may not act, and what has not been run", () => {
  expect(section("Use it on a cluster")).toMatch(/Managed control planes .* shadow/);
  expect(section("Limits today")).toMatch(/a core of its\s+NodeConformance/);
});

it("names paths that are there", () => {
  const links = [...readme.matchAll(/\]\(([^)]+)\)/g)].map(([, path = ""]) => path.replace(/#.*$/, ""));
  const folders = [...readme.matchAll(/`((?:cli|docs|functions|infra|shared|test)\/[\w./-]*)`/g)].map(([, path = ""]) => path);
  expect(folders.length).toBeGreaterThan(10);
  expect([...links, ...folders].filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});

it("has every folder of shared/ in its map", async () => {
  const folders = (await readdir(join(ROOT, "shared"), { withFileTypes: true })).filter((entry) => entry.isDirectory());
  expect(folders.filter(({ name }) => !section("The map").includes(`\`shared/${name}\``))).toEqual([]);
});

it("names scripts of package.json, verbs of the command and options that they take", async () => {
  const { scripts } = JSON.parse(await read("package.json")) as { readonly scripts: Readonly<Record<string, string>> }; // our own file
  const named = [...readme.matchAll(/npm (?:run )?(test|(?<=run )[\w:]+)/g)].map(([, script = ""]) => script);
  expect(named.filter((script) => scripts[script] === undefined)).toEqual([]);
  const uses = [...readme.matchAll(/(?:deltaloop|npm run) (\w+)((?: -- | --?)[^#`\n]*)/g)];
  for (const [use, verb = "", rest = ""] of uses.filter(([, word = ""]) => existsSync(join(ROOT, "cli", `${word}.ts`)))) {
    const taken = await read(`cli/${verb}.ts`);
    const options = [...rest.matchAll(/(?<= )--?[a-z][a-z-]*/g)].flatMap(([option]) => (option === "--help" ? [] : [option]));
    expect(
      options.filter((option) => !new RegExp(`[ "\`]${option}[ ,"]`).test(taken)),
      use,
    ).toEqual([]);
  }
  expect(uses.length).toBeGreaterThan(6);
});
