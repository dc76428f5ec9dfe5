/**
 * README, CONTRIBUTING.md and pages with claims. Catches: a README that is too long, a cost that `deltaloop cost` does not print,
 * measurements without date and commit, and a path, script, verb or option that does not exist.
 */
import { spawnSync } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "..", "..");
const read = async (path: string): Promise<string> => await readFile(join(ROOT, path), "utf8");
const readme = await read("README.md");
const deploy = await read("docs/guides/deploy.md");
const contributing = await read("CONTRIBUTING.md");
const section = (page: string, title: string): string => page.split(/^## /m).find((part) => part.startsWith(title)) ?? "";
const cost = section(deploy, "Estimate the cost");

it("has at most 120 lines of at most 120 columns", () => {
  const lines = readme.trimEnd().split("\n");
  expect(lines.length).toBeLessThanOrEqual(120);
  expect(lines.filter((line) => line.length > 120)).toEqual([]);
});

it("has the costs that `deltaloop cost` prints, by profile", () => {
  const monthOf = (...parameters: readonly string[]) => {
    const { stdout } = spawnSync(process.execPath, ["cli/main.ts", "cost", "--json", ...parameters], { cwd: ROOT, encoding: "utf8" });
    return JSON.parse(stdout) as Month; // cli/README.md describes the format
  };
  const busy = monthOf("--deployments=50", "--rollouts-per-day=20");
  const rows = ["standard", "lean"].map((profile) => {
    const { clusters } = monthOf("--clusters=200", `--param=profile=${profile}`);
    const [task = 0, inCluster = 0, further = 0, all = 0] = clusters?.goals.map(({ usd }) => usd) ?? [];
    const printed = [Math.round(task), Math.round(inCluster), further.toFixed(2), Math.round(all)].map((usd) => `$${usd}`);
    expect(cost).toContain(`| \`${profile}\` | ${printed.join(" | ")} |`);
    return clusters;
  });
  const residents = rows[0]?.residents.map(({ usd }) => Math.round(usd)) ?? [];
  expect(cost).toContain(`cost $${residents[0]} as Fargate tasks, and $${residents[1]} by measured`);
  const metrics = busy.items.find(({ name }) => name === "custom metrics")?.workUsd ?? 0;
  expect(cost).toContain(`adds $${Math.round(busy.sum.workUsd)}, of which custom metrics are $${Math.round(metrics)}`);
  expect(readme).not.toMatch(/nothing when idle/);
});

interface Month {
  readonly sum: { readonly usd: number; readonly workUsd: number };
  readonly items: readonly { readonly name: string; readonly idle: number; readonly idleUsd: number; readonly workUsd: number }[];
  readonly clusters?: {
    readonly goals: readonly { readonly usd: number }[];
    readonly residents: readonly { readonly usd: number }[];
  };
}

it("has date and commits of its measurements", async () => {
  const rows = section(await read("docs/reference/performance.md"), "Other measurements")
    .split("\n")
    .filter((line) => line.startsWith("| "));
  const undated = rows.slice(1).filter((row) => !/\| (?:\d{4}-\d\d-\d\d, [0-9a-f]{7}|tested) \|$/.test(row));
  expect(undated).toEqual([]);
  expect(rows.length).toBeGreaterThan(8);
});

it("states where acting is not supported, and what has not been run", () => {
  expect(section(readme, "Use it if")).toMatch(/to act on a managed control plane/);
  expect(section(readme, "Status")).toMatch(/never deployed it to AWS/);
});

it("contains only existing paths", () => {
  const links = [...readme.matchAll(/\]\(([^)]+)\)/g)].map(([, path = ""]) => path.replace(/#.*$/, ""));
  const folders = [...contributing.matchAll(/`((?:cli|docs|examples|functions|infra|shared|test)\/[\w./-]*)`/g)].map(
    ([, path = ""]) => path,
  );
  expect(folders.length).toBeGreaterThan(10);
  expect([...links, ...folders].filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});

it("CONTRIBUTING.md has every folder of shared/ in its map", async () => {
  const folders = (await readdir(join(ROOT, "shared"), { withFileTypes: true })).filter((entry) => entry.isDirectory());
  expect(folders.filter(({ name }) => !section(contributing, "Where things are").includes(`\`shared/${name}\``))).toEqual([]);
});

it("contains only existing scripts, verbs and options", async () => {
  // this repository's manifest
  const { scripts } = JSON.parse(await read("package.json")) as { readonly scripts: Readonly<Record<string, string>> };
  const named = [...`${readme}${contributing}`.matchAll(/npm (?:run )?(test|(?<=run )[\w:]+)/g)].map(([, script = ""]) => script);
  expect(named.filter((script) => scripts[script] === undefined)).toEqual([]);
  const tutorials = globSync("docs/start/*.md", { cwd: ROOT }).map((page) => readFileSync(join(ROOT, page), "utf8"));
  const uses = [...[readme, ...tutorials].join("\n").matchAll(/(?:deltaloop|npm run) (\w+)((?: -- | --?)[^#`\n]*)/g)];
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
