/**
 * The help, usage errors and completion, as processes. Catches: an option without group or description, a line wider than the terminal, and
 * colour codes in a pipe.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";

import { beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";

import { cliDocuments } from "../../../infra/cli-documents.ts";

const ROOT = join(import.meta.dirname, "../../..");
const UNDO = join(ROOT, "test/captures/undo.watch.jsonl.gz");
const VERBS = [
  "demo",
  "dev",
  "watch",
  "capture",
  "import",
  "replay",
  "explain",
  "shadow",
  "node",
  "cluster",
  "cost",
  "keys",
  "resume",
  "rotate",
  "doctor",
];

function deltaloop(...parameters: readonly string[]) {
  return spawnSync(process.execPath, [join(ROOT, "cli/main.ts"), ...parameters], { cwd: ROOT, encoding: "utf8" });
}

/** Runs the command in a terminal of util-linux's script(1), without CI in its environment, because Node.js then disables colours. */
function inTerminal(columns: number, env: Readonly<Record<string, string>>, ...parameters: readonly string[]): string {
  const command = `stty cols ${columns}; ${[process.execPath, join(ROOT, "cli/main.ts"), ...parameters].join(" ")}`;
  const { NO_COLOR: _off, FORCE_COLOR: _on, CI: _ci, ...inherited } = process.env;
  const { stdout } = spawnSync("script", ["-qec", command, "/dev/null"], {
    encoding: "utf8",
    env: { ...inherited, TERM: "xterm-256color", ...env },
  });
  return stdout.replaceAll("\r\n", "\n");
}

describe("--help", () => {
  it.each(VERBS)("the help of %s has a purpose in one line, examples and a link, in 80 columns and without colour codes", (verb) => {
    const { status, stdout, stderr } = deltaloop(verb, "--help");
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    const [usage = "", empty, purpose = ""] = stdout.split("\n");
    expect(usage).toMatch(new RegExp(`^Usage: deltaloop ${verb}`));
    expect(empty).toBe("");
    expect(purpose).toMatch(/^[A-Z].*\.$|^[A-Z][^.]*$/);
    expect(stdout).toMatch(/\nExamples:\n {2}deltaloop .*\n/);
    const [, page = ""] = /\nDocumentation: ([\w/.-]+)/.exec(stdout) ?? [];
    expect(readFileSync(join(ROOT, page), "utf8")).not.toBe("");
    expect(stdout).not.toContain("\x1b");
    const wide = stdout.split("\n").filter((line) => line.length > 80 && line.trim().includes(" ") && !line.startsWith("  deltaloop "));
    expect(wide.filter((line) => line.trim().split(" ").length > 2)).toEqual([]);
  });

  it("the help of node sorts options into groups and prints durations as Go does", () => {
    const { stdout } = deltaloop("node", "--help");
    const groups = stdout.split(/\n(?=\S[^\n]*:\n)/).slice(1);
    expect(groups.length).toBeGreaterThan(10);
    for (const group of groups) expect(group.match(/^ {2}-/gm)?.length ?? 0, group).toBeLessThan(16);
    expect(stdout.replaceAll(/\s+/g, " ")).toContain("(default: 5m0s)");
    expect(stdout).not.toMatch(/default: (300000|120000|\[\])/);
  });

  it.each([80, 120])("the help is as wide as a terminal of %i columns, with bold headings", (columns) => {
    const text = inTerminal(columns, {}, "capture", "--help");
    const widths = text.split("\n").map((line) => stripVTControlCharacters(line).length);
    expect(Math.max(...widths)).toBeLessThanOrEqual(columns);
    expect(Math.max(...widths)).toBeGreaterThan(columns - 20);
    expect(text).toContain("\x1b[1mExamples:");
  });

  it.each([{ NO_COLOR: "1" }, { TERM: "dumb" }])("the help has no colour with %o", (env) => {
    expect(inTerminal(80, env, "capture", "--help")).not.toContain("\x1b");
  });

  it("the help equals docs/reference/cli.md (node infra/generate.ts writes it)", () => {
    for (const [path, text] of Object.entries(cliDocuments())) expect(readFileSync(join(ROOT, "infra", path), "utf8")).toBe(text);
  });
});

describe("a usage error exits with 2", () => {
  it.each([
    { words: "explian --help", parameters: ["explian", "--help"] },
    { words: "explian", parameters: ["explian"] },
    { words: "help explian", parameters: ["help", "explian"] },
    { words: "explian CAPTURE", parameters: ["explian", UNDO] },
  ])("`$words` suggests explain", ({ parameters }) => {
    const { status, stdout, stderr } = deltaloop(...parameters);
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toMatch(/^deltaloop: unknown command 'explian' \(Did you mean explain\?\)\n/);
  });

  it.each([
    { parameters: ["cost", "--deploymets", "3"] },
    { parameters: ["explain"] },
    { parameters: ["completion", "tcsh"] },
    { parameters: ["doctor", "-o", "xml"] },
    { parameters: [] },
  ])("prints nothing to standard output for the arguments $parameters", ({ parameters }) => {
    expect(deltaloop(...parameters)).toMatchObject({ status: 2, stdout: "" });
  });
});

describe("completion", () => {
  const scripts = new Map<string, string>();
  beforeAll(() => {
    for (const shell of ["bash", "zsh", "fish"]) scripts.set(shell, deltaloop("completion", shell).stdout);
  });
  const completed = (line: readonly string[]): string => {
    const words = line.map((word) => `'${word}'`).join(" ");
    const script = `eval "$(cat)"; COMP_WORDS=(${words}); COMP_CWORD=${line.length - 1}; _deltaloop; echo "\${COMPREPLY[@]}"`;
    return spawnSync("bash", ["-c", script], { encoding: "utf8", input: scripts.get("bash") }).stdout.trim();
  };
  it.each([
    { line: ["deltaloop", "expl"], want: "explain" },
    { line: ["deltaloop", "explain", "f", "--nam"], want: "--namespace" },
    { line: ["deltaloop", "rotate", "tok"], want: "tokens" },
    { line: ["deltaloop", "rotate", "tokens", "--eve"], want: "--every" },
    { line: ["deltaloop", "explain", "-o", ""], want: "json yaml" },
    { line: ["deltaloop", "completion", ""], want: "--help -h bash fish zsh" },
  ])("bash completes $line", ({ line, want }) => {
    expect(completed(line).split(" ").toSorted()).toEqual(want.split(" "));
  });

  it.each(["bash", "zsh", "fish"])("the completion script for %s lists every verb, and the shell, if installed, can parse it", (shell) => {
    const input = scripts.get(shell) ?? "";
    expect(VERBS.filter((verb) => !new RegExp(`\\b${verb}\\b`).test(input))).toEqual([]);
    const checked = spawnSync(shell, ["-n"], { input, encoding: "utf8" });
    if (checked.error === undefined) expect(checked).toMatchObject({ status: 0, stderr: "" });
  });
});

describe("-o", () => {
  it("yaml prints the objects that json prints", () => {
    const parameters = ["explain", UNDO, "deployment.apps", "web", "-n", "default", "-o"];
    const [json, yaml] = ["json", "yaml"].map((format) => deltaloop(...parameters, format).stdout);
    const objects = json
      ?.trimEnd()
      .split("\n")
      .map((line): unknown => JSON.parse(line));
    expect(objects?.length).toBeGreaterThan(10);
    expect(parseAllDocuments(yaml ?? "").map((document): unknown => document.toJS())).toEqual(objects);
  });
});
