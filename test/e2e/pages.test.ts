/**
 * Runs the commands of docs/start and docs/guides that need a cluster, kubectl or more time, as a reader would, on a real control plane.
 * docs/guides/node.md has its own tests. Catches: a command that fails, output that differs from the page.
 */
import { globSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { ROOT, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { blocksOf, isQuoted, runPage } from "../support/pages.ts";

const TIMEOUT_MS = 180_000;
const PAGES = globSync("docs/{start,guides}/*.md", { cwd: ROOT })
  .filter((page) => page !== "docs/guides/node.md")
  .toSorted()
  .map((page) => ({ page, blocks: blocksOf(page, readFileSync(join(ROOT, page), "utf8")) }))
  .filter(({ blocks }) => blocks.some((block) => block.kind === "command" && ["slow", "cluster"].includes(block.place)));
/** Pages for readers whose cluster keeps upstream's controllers. */
const BESIDE = ["docs/start/shadow-and-explain.md", "docs/guides/incident.md"];

await whereRealPartsAre("the commands of docs/start and docs/guides", () => {
  describe.each([
    { name: "in parallel to the cluster's own controllers", controllers: "all", pages: PAGES.filter(({ page }) => BESIDE.includes(page)) },
    {
      name: "where the three controllers are turned off",
      controllers: "without-workloads",
      pages: PAGES.filter(({ page }) => !BESIDE.includes(page)),
    },
  ] as const)("$name", ({ controllers, pages }) => {
    let [cluster, folder]: [Cluster | undefined, string] = [undefined, ""];
    beforeAll(async () => {
      cluster = await startCluster({ controllers });
      folder = await mkdtemp(join(tmpdir(), "deltaloop-pages-"));
    }, TIMEOUT_MS);
    afterAll(async () => {
      await cluster?.stop();
      await rm(folder, { recursive: true, force: true });
    });

    it.each(pages)("$page", { timeout: TIMEOUT_MS }, async ({ page, blocks }) => {
      const binaries = await controlPlaneBinaries();
      if ("missing" in binaries) throw new Error(binaries.missing);
      const environment = { KUBECONFIG: cluster?.plane.adminKubeconfig ?? "", TMPDIR: folder };
      const quotations = await runPage(blocks, ["here", "slow", "cluster"], environment, { kubectl: binaries.kubectl });
      expect(quotations.length).toBeGreaterThan(0);
      for (const { line, want, got } of quotations) expect(isQuoted(want, got) ? want : got, `${page}:${line}`).toBe(want);
    });
  });
});
