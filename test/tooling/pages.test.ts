/**
 * The commands of docs/start and docs/guides, and the quoted output. Catches: a command that fails or prints something else, and a block
 * without the mark `aws` that no test runs.
 */
import { execSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { readClusterIdentity } from "../../shared/kube/client/cluster-id.ts";
import { blocksOf, isQuoted, runPage } from "../support/pages.ts";
import type { Block } from "../support/pages.ts";

const PAGES = globSync("docs/{start,guides}/*.md")
  .toSorted()
  .map((page) => ({ page, blocks: blocksOf(page, readFileSync(page, "utf8")) }));
/** test/e2e/node-joins.test.ts and test/e2e/node-taken-over.test.ts follow this page, including its steps on the machine. */
const NODE = "docs/guides/node.md";
const SETUP = ["npm ci", "alias deltaloop='npm run -s deltaloop --'"];
const isHere = (block: Block): boolean => block.kind === "command" && block.place === "here";

it("finds pages with commands", () => {
  expect(PAGES.filter(({ blocks }) => blocks.some(({ kind }) => kind === "command")).length).toBeGreaterThan(8);
});

it.each(PAGES)("every block of $page is executed", ({ page, blocks }) => {
  for (const [i, block] of blocks.entries()) {
    const at = `${page}:${block.line}`;
    if (block.kind === "command" && block.place === "setup")
      expect(SETUP, at).toEqual(expect.arrayContaining(block.text.trim().split("\n")));
    if (block.kind === "command" && block.place === "machine") expect(page, at).toBe(NODE);
    if (block.kind !== "output") continue;
    const before = blocks.slice(0, i).findLast(({ kind }) => kind === "command");
    expect(before?.kind === "command" && (block.interrupted || !before.background), `${at}: output of which command?`).toBe(true);
  }
});

it("the command of docs/guides/deploy.md prints the id that the code computes for a cluster", async () => {
  const deploy = PAGES.find(({ page }) => page.endsWith("deploy.md"))?.blocks.find(({ text }) => text.includes("kube-system"));
  const [, pipeline = ""] = /^kubectl get namespace kube-system -o jsonpath=\{\.metadata\.uid\} (\|.*)$/mu.exec(deploy?.text ?? "") ?? [];
  const uid = "0a4d1c9e-6f0b-4b52-9a55-2f4e7c1d8b30";
  const { cid } = await readClusterIdentity({ get: async () => ({ metadata: { uid } }) } as never); // the function only calls `get`
  expect(execSync(`printf %s ${uid} ${pipeline}`, { encoding: "utf8" })).toBe(`${cid}\n`);
});

describe.concurrent("what runs without a cluster", () => {
  it.each(PAGES.filter(({ blocks }) => blocks.some(isHere)))("$page", async ({ page, blocks }) => {
    const quotations = await runPage(blocks, ["here"]);
    for (const { line, want, got } of quotations) expect(isQuoted(want, got) ? want : got, `${page}:${line}`).toBe(want);
  });
});

it("only commands that need AWS are marked as such", () => {
  const needsAws = /\baws |\bosls |npm run deploy\b|rotate (?:tokens|mac-key|digest-key)|redis-cli|prod\.env|rediss:/u;
  const wrong = PAGES.flatMap(({ page, blocks }) =>
    blocks.flatMap((block) =>
      block.kind === "command" && (block.place === "aws") !== needsAws.test(block.text) ? [`${page}:${block.line}`] : [],
    ),
  );
  expect(wrong).toEqual([]);
});

it.each([
  { want: "a\nb\n", got: "a\nb\n", is: true },
  { want: "a\n…\nb\n", got: "a\nx\ny\nb\n", is: true },
  { want: "a\n…\n", got: "a\nx\n", is: true },
  { want: "…\nb\n", got: "b\n", is: true },
  { want: "took … s (a+b)", got: "took 1.2 s (a+b)\n", is: true },
  { want: "a\nb\n", got: "a\nc\n", is: false },
  { want: "a\n", got: "a\nb\n", is: false },
  { want: "took … s", got: "took 1.2 ms", is: false },
])("compares $got with the quotation $want: $is", ({ want, got, is }) => {
  expect(isQuoted(want, got)).toBe(is);
});

it.each(["```\nls\n```\n", "```bash\nls\n```\n", "```sh somewhere\nls\n```\n", "```yaml\na: 1\n```\n"])(
  "%j has no known language",
  (text) => {
    expect(() => blocksOf("page.md", text)).toThrow("page.md:1: a block must have a known label");
  },
);
