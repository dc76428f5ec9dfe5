/** Runs dependency-cruiser with the import rules, for `npm run architecture` and its test. */
import { glob, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";

import { cruise } from "dependency-cruiser";
import type { ICruiseResult } from "dependency-cruiser";
import extractTsConfig from "dependency-cruiser/config-utl/extract-ts-config";

import { ARCHITECTURE, ENTRY_FILES } from "./architecture-rules.ts";

export interface Cruise {
  /** Number of this project's modules that were read; a check that reads no module must not pass. */
  readonly modules: number;
  readonly dependencies: number;
  readonly violations: readonly { readonly rule: string; readonly from: string; readonly to: string }[];
}

/** Adapters, the Lambda edge and the hosts may read the system clock. */
const MAY_READ_THE_CLOCK =
  /^shared\/(base\/(system|output)|kube\/(http|kubeconfig)|store\/(redis|sqs|secrets|aws|memory)|controllers\/lambda|node-agent\/(?!kubelet|ports)[^/]+|docker|local|api-server)\//;
const ROOTS = ["shared", "functions", "cli", "infra", "test"] as const;

export const RULES: readonly string[] = ARCHITECTURE.forbidden.map(({ name }) => name);

/** Checks every module under ROOTS of `folder` against the rules. */
export async function cruiseFolder(folder: string): Promise<Cruise> {
  const { forbidden, options } = ARCHITECTURE;
  const roots = await present(folder);
  const { output } = await cruise(
    roots,
    { ...options, baseDir: folder, ruleSet: { forbidden }, validate: true },
    {},
    { tsConfig: extractTsConfig(join(folder, "tsconfig.json")) },
  );
  // If no output type is set, `output` is an object, not text.
  const { modules, summary } = output as ICruiseResult;
  const own = modules.filter(({ source, coreModule }) => coreModule !== true && roots.some((root) => source.startsWith(`${root}/`)));
  const dates = await argumentlessDates(
    folder,
    own.map(({ source }) => source),
  );
  return {
    modules: own.length,
    dependencies: own.reduce((sum, { dependencies }) => sum + dependencies.length, 0),
    violations: [...summary.violations.map(({ rule, from, to }) => ({ rule: rule.name, from, to })), ...dates, ...folderCycles(own)],
  };
}

/**
 * Finds folders that import each other, directly or transitively, types included. Ignores entry points, which re-export their subfolders,
 * and tests.
 */
function folderCycles(modules: ICruiseResult["modules"]): Cruise["violations"] {
  const entries = new Set(ENTRY_FILES);
  const counts = (path: string): boolean => !path.startsWith("test/") && !entries.has(path);
  const imports = new Map<string, Set<string>>();
  for (const { source, dependencies } of modules)
    for (const { resolved } of counts(source) ? dependencies : []) {
      const [from, to] = [dirname(source), dirname(resolved)];
      if (from === to || !counts(resolved) || !/^(shared|functions|cli|infra)\//.test(resolved)) continue;
      imports.set(from, (imports.get(from) ?? new Set()).add(to));
    }
  const reachable = (start: string): ReadonlySet<string> => {
    const seen = new Set<string>();
    const waiting = [start];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop())
      for (const to of imports.get(next) ?? []) {
        if (seen.has(to)) continue;
        seen.add(to);
        waiting.push(to);
      }
    return seen;
  };
  const from = new Map([...imports.keys()].map((folder) => [folder, reachable(folder)]));
  return [...from].flatMap(([folder, reached]) => {
    const cycle = [...reached].filter((other) => other > folder && from.get(other)?.has(folder));
    return reached.has(folder) ? cycle.map((to) => ({ rule: "no-folder-cycles", from: folder, to })) : [];
  });
}

/** Finds `new Date()`, which reads the clock and which the linter's rules do not detect. */
async function argumentlessDates(folder: string, sources: readonly string[]): Promise<Cruise["violations"]> {
  const core = sources.filter((source) => /^(shared|functions)\//.test(source) && !MAY_READ_THE_CLOCK.test(source));
  const found = await Promise.all(
    core.map(async (source) => ((await readFile(join(folder, source), "utf8")).includes("new Date()") ? [source] : [])),
  );
  return found.flat().map((from) => ({ rule: "time-is-handed-in", from, to: "new Date()" }));
}

/** Returns the TypeScript files that a check must have read. */
export async function sourceFiles(folder: string): Promise<readonly string[]> {
  const files: string[] = [];
  for (const root of await present(folder)) {
    for await (const file of glob(`${root}/**/*.ts`, { cwd: folder, exclude: ["**/node_modules/**"] })) files.push(file);
  }
  return files;
}

async function present(folder: string): Promise<string[]> {
  const roots: string[] = [];
  for await (const entry of glob("*", { cwd: folder })) if (ROOTS.some((root) => root === entry)) roots.push(entry);
  return roots.sort();
}
