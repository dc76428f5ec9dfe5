/**
 * The page of `deltaloop explain --html` in Debian's Chromium, from disk. Would catch: a page that requests something, hides a cause,
 * cannot be used by keyboard, or cannot be read in one of the two themes or at some width.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import axe from "axe-core";
import { chromium } from "playwright-core";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { aptInstall } from "../support/apt.ts";
import { ROOT } from "../support/e2e.ts";
import { crashLoopCapture, imagePullCapture } from "../support/incident-captures.ts";

const CHROMIUM = "/usr/bin/chromium";
/** Markup, an escape sequence and a right-to-left override, as the name of a capture. */
const HOSTILE = "<img src=x onerror=document.title='owned'>\u001b[31m\u202egpj";

function ensureChromium(): string | undefined {
  if (existsSync(CHROMIUM)) return undefined;
  process.stderr.write("timeline: installing Debian's package chromium with apt-get\n");
  const why = aptInstall(["chromium"], () => existsSync(CHROMIUM));
  return why === undefined ? undefined : `apt-get install chromium failed: ${why}`;
}

const missing = ensureChromium();
if (missing !== undefined) {
  process.stderr.write(`!!!!  the timeline page cannot be opened: ${missing}\n`);
  if (process.env["CI"] === "true") it("the timeline page", () => Promise.reject(new Error(missing)));
  else it.skip(`the timeline page: ${missing}`);
} else suite();

function suite(): void {
  describe("the timeline page", () => {
    let folder: string;
    let browser: Browser;
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "deltaloop-timeline-"));
      browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] }); // Chromium refuses a sandbox for root
    });
    afterAll(async () => {
      await browser?.close();
      await rm(folder, { recursive: true });
    });

    const write = (capture: string): string => {
      const path = join(folder, "page.html");
      const { status, stderr } = spawnSync(process.execPath, [join(ROOT, "cli/main.ts"), "explain", capture, "--html", path, "--force"], {
        encoding: "utf8",
      });
      expect(status, stderr).toBe(0);
      return path;
    };
    /** Opens the page, uses it, and requires that it requested nothing and logged no error. */
    const open = async (path: string, use: (page: Page) => Promise<void>, options: BrowserContextOptions = {}): Promise<void> => {
      const context = await browser.newContext({ viewport: { width: 1_280, height: 800 }, ...options });
      const page = await context.newPage();
      const troubles: string[] = [];
      page.on("request", (request) => !request.url().startsWith("file:") && troubles.push(`requested ${request.url()}`));
      page.on("console", (message) => ["error", "warning"].includes(message.type()) && troubles.push(message.text()));
      page.on("pageerror", (error) => troubles.push(error.message));
      await page.goto(pathToFileURL(path).href);
      await page.getByRole("tree").waitFor();
      await use(page);
      expect(troubles).toEqual([]);
      await context.close();
    };
    const rollover = (): string => write(join(ROOT, "test/captures/rollover.watch.jsonl.gz"));
    const counts = (page: Page): Promise<string> => page.locator("p[role=status]").innerText();
    const selected = (page: Page) => page.locator('[role="treeitem"][aria-selected="true"]');

    it.each([
      {
        name: "an image that cannot be pulled",
        capture: () => imagePullCapture(join(folder, "pull.jsonl")),
        cause: /pull/i,
        object: /web-b-/,
      },
      {
        name: "a crash loop",
        capture: () => crashLoopCapture(join(folder, "crash.jsonl")),
        cause: /exit|restart|crash/i,
        object: /web-b-/,
      },
      {
        name: "a quota that was exceeded earlier",
        capture: () => join(ROOT, "test/captures/refused.watch.jsonl.gz"),
        cause: /ResourceQuota few refuses new pods/,
        object: /rs\/web-/,
      },
    ])("shows the cause of $name first, and selecting it selects its time and object", async ({ capture, cause, object }) => {
      await open(write(capture()), async (page) => {
        const finding = page.getByRole("complementary", { name: "Findings" }).getByRole("button", { name: cause }).first();
        const moment = page.getByRole("slider", { name: "Moment" });
        await moment.fill("0");
        await finding.click();
        expect(await finding.getAttribute("aria-pressed")).toBe("true");
        expect(Number(await moment.inputValue())).toBeGreaterThan(0);
        expect(await page.getByRole("complementary", { name: "Details" }).innerText()).toMatch(object);
      });
    });

    it("moves the moment, filters, zooms, and keeps the view in the address", async () => {
      await open(rollover(), async (page) => {
        expect(await counts(page)).toBe("5 ready");
        await page.getByRole("slider", { name: "Moment" }).fill("6000");
        expect(await counts(page)).not.toBe("5 ready");
        await page.getByRole("searchbox").fill("app:v4");
        await expect.poll(() => page.getByRole("treeitem").count()).toBeLessThan(10);
        await page.getByRole("button", { name: "Zoom in" }).click();
        await expect.poll(() => page.evaluate<string>("location.hash")).toMatch(/app.*v4/);
        const hash = await page.evaluate<string>("location.hash");
        await page.reload();
        await page.getByRole("tree").waitFor();
        expect(await page.getByRole("searchbox").inputValue()).toBe("app:v4");
        expect(await page.getByRole("slider", { name: "Moment" }).inputValue()).toMatch(/^59|^60/);
        await expect.poll(() => page.evaluate<string>("location.hash")).toBe(hash);
      });
    });

    it("is used by keyboard alone: an object, its next mark, and the reasons of that decision", async () => {
      await open(rollover(), async (page) => {
        for (let tabs = 0; tabs < 40 && !(await page.evaluate<boolean>("document.activeElement?.getAttribute('role') === 'tree'")); tabs++)
          await page.keyboard.press("Tab");
        await page.keyboard.press("ArrowDown");
        await expect.poll(() => selected(page).count()).toBe(1);
        await page.keyboard.press("0");
        const details = page.getByRole("complementary", { name: "Details" });
        const before = await details.innerText();
        await page.keyboard.press("n");
        await expect.poll(() => details.innerText()).not.toBe(before);
        const lanes = await page.getByRole("treeitem").count();
        await page.keyboard.press("Enter");
        await expect.poll(() => page.getByRole("treeitem").count()).not.toBe(lanes);
      });
    });

    it.each(["light", "dark"] as const)(
      "has no serious violation of axe's rules in the %s theme, as drawing and as table",
      async (colorScheme) => {
        await open(
          write(join(ROOT, "test/captures/refused.watch.jsonl.gz")),
          async (page) => {
            const violations = async () => {
              const found = await page.evaluate<
                readonly { readonly id: string; readonly impact: string; readonly nodes: readonly { readonly html: string }[] }[]
              >("axe.run().then(({ violations }) => violations)");
              return found
                .filter(({ impact }) => ["serious", "critical"].includes(impact))
                .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
            };
            await page.evaluate(axe.source);
            expect(await violations()).toEqual([]);
            await page.getByRole("button", { name: "Table" }).click();
            expect(await violations()).toEqual([]);
          },
          { colorScheme, bypassCSP: true }, // to inject axe
        );
      },
    );

    it.each([320, 768, 1_280, 2_560])("fits into %i px", async (width) => {
      await open(
        rollover(),
        async (page) => {
          const overflow = await page.evaluate<number>("document.documentElement.scrollWidth - document.documentElement.clientWidth");
          expect(overflow).toBe(0);
        },
        { viewport: { width, height: 800 } },
      );
    });

    it("shows markup, escapes and right-to-left marks as text", async () => {
      await open(write(imagePullCapture(join(folder, HOSTILE))), async (page) => {
        expect(await page.locator("img").count()).toBe(0);
        expect(await page.title()).not.toBe("owned");
        const text = await page.locator("body").innerText();
        expect(text).toContain("<img src=x");
        // oxlint-disable-next-line no-control-regex -- they are what must not be there
        expect(text).not.toMatch(/[\u001b\u202e]/);
      });
    });
  });
}
