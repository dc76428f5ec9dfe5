/**
 * The timeline page in Chromium. Would catch: a finding that shows nothing, a page that cannot be used with a keyboard or screen reader,
 * text without contrast, a layout wider than the window, capture text that becomes markup, and any request.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { AxeResults } from "axe-core";
import { chromium } from "playwright-core";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { CHROMIUM, ensureChromium } from "../support/chromium.ts";
import { crashLoopCapture, imagePullCapture } from "../support/incident-captures.ts";

const ROOT = join(import.meta.dirname, "../..");
const ACTION_MS_MAX = 10_000;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const MARKUP = `</script><img src=x onerror=alert(1)>app\u202e`;
/** Pages that are tested with the dark theme. */
const DARK: ReadonlySet<string> = new Set(["crash", "nodeLost", "webhookDown"]);
const CANARIES = ["canary-env", "canary-argument", "canary-event"];

const missing = ensureChromium();
if (missing !== undefined) process.stderr.write(`!!!!  the timeline page cannot be shown: ${missing}\n`);
if (missing === undefined)
  describe("the timeline page in Chromium", () => {
    suite();
  });
else if (process.env["CI"] === "true") it("the timeline page in Chromium", () => Promise.reject(new Error(missing)));
else it.skip(`the timeline page in Chromium: ${missing}`);

function suite(): void {
  let browser: Browser;
  let folder = "";
  const urls: Record<string, string> = {};
  const problems: string[] = [];

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "deltaloop-timeline-"));
    const pull = imagePullCapture(join(folder, "pull.jsonl"));
    const odd = join(folder, "odd.jsonl");
    writeFileSync(odd, readFileSync(pull, "utf8").replaceAll("app:v2", MARKUP).replaceAll("web-b-1", "<b>web</b>"));
    const secret = join(folder, "secret.jsonl");
    const planted = readFileSync(pull, "utf8")
      .replaceAll('"image":"app:v2"', '"image":"app:v2","env":[{"name":"TOKEN","value":"canary-env"}],"args":["canary-argument"]')
      .replaceAll("Failed to pull image", "canary-event failed to pull");
    writeFileSync(secret, planted);
    const crash = crashLoopCapture(join(folder, "crash.jsonl"));
    const recorded = (name: string): string => join(ROOT, `test/captures/${name}.watch.jsonl.gz`);
    const [quota, counterQuota, paused] = [recorded("refused"), recorded("rc-quota"), recorded("pause-resume")];
    const incident = (name: string): string => join(ROOT, `test/captures/incidents/${name}.jsonl.gz`);
    const [nodeLost, outOfMemory, webhookDown] = [incident("node-lost"), incident("out-of-memory"), incident("webhook-down")];
    const [imageMissing, quotaFull, rollover] = [incident("image-not-found"), incident("quota"), recorded("rollover")];
    const gap = join(folder, "gap.jsonl");
    const list = { t: "2026-03-01T10:12:00.000Z", r: "pods", k: "listend", rv: "900" };
    writeFileSync(gap, `${readFileSync(crash, "utf8")}${JSON.stringify(list)}\n`);
    const unredacted = pull;
    const captures = {
      pull,
      odd,
      gap,
      unredacted,
      secret,
      crash,
      quota,
      counterQuota,
      paused,
      nodeLost,
      outOfMemory,
      webhookDown,
      ...{ imageMissing, quotaFull, rollover },
    };
    for (const [name, capture] of Object.entries(captures)) {
      const html = join(folder, `${name}.html`);
      const more = name === "unredacted" ? ["--no-redact"] : [];
      const { status, stderr } = spawnSync(process.execPath, [join(ROOT, "cli/main.ts"), "explain", capture, "--html", html, ...more], {
        encoding: "utf8",
      });
      expect(status, stderr).toBe(0);
      urls[name] = pathToFileURL(html).href;
    }
    browser = await chromium.launch({ executablePath: CHROMIUM });
  });
  afterAll(async () => {
    await browser?.close();
    rmSync(folder, { recursive: true });
  });
  afterEach(async () => {
    await Promise.all(browser.contexts().map((context) => context.close()));
    expect(problems.splice(0)).toEqual([]);
  });

  /** A page whose requests and console errors fail the test. */
  async function open(name: string, options: BrowserContextOptions = {}): Promise<Page> {
    const context = await browser.newContext({ viewport: { width: 1_280, height: 800 }, ...options });
    context.setDefaultTimeout(ACTION_MS_MAX);
    await context.addInitScript(RECORD_DRAWING);
    const page = await context.newPage();
    const url = urls[name] ?? "";
    // The worker's code is loaded from a blob URL.
    const isOwn = (request: string): boolean => request.split("#")[0] === url || request.startsWith("blob:");
    page.on("request", (request) => isOwn(request.url()) || problems.push(`requested ${request.url()}`));
    page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
    page.on("pageerror", (error) => problems.push(String(error)));
    await page.goto(url);
    await page.getByRole("tree", { name: "Objects" }).waitFor();
    return page;
  }

  it.each([
    ["pull", /image/i, /^(?:deploy|rs|pod)\/web/],
    ["crash", /container web ends with exit code 3/, /^pod\/web-b-1/],
    ["quota", /ResourceQuota few refuses new pods/, /^rs\//],
    ["counterQuota", /ResourceQuota q refuses new pods/, /^rc\//],
    ["paused", /the Deployment is paused/, /^deploy\//],
    ["nodeLost", /node node-b does not report/, /^pod\//],
    ["outOfMemory", /out of memory \(limit 24Mi\)/, /^pod\//],
    ["webhookDown", /admission webhook pods\.example\.com cannot be called/, /^rs\//],
  ] as const)("shows the cause of %s, and selects its time and objects", async (name, cause, object) => {
    const page = await open(name, { colorScheme: DARK.has(name) ? "dark" : "light" });
    const before = await momentOf(page);
    const finding = page.getByRole("complementary", { name: "Findings" }).locator(".finding.cause > button").filter({ hasText: cause });
    await slider(page).fill("0");
    expect(await momentOf(page)).toBeLessThan(before);
    await finding.first().click();
    expect(await momentOf(page)).toBeGreaterThan(0);
    const details = page.getByRole("complementary", { name: "Details" });
    expect(await details.getByRole("heading", { level: 2 }).textContent()).toMatch(object);
    expect(await page.locator('[role="treeitem"][aria-selected="true"]').getAttribute("title")).toMatch(object);
    expect(await page.locator(".finding.chosen .more").textContent()).toContain("Evidence");
  });

  it("shows for a finding its impact and the preceding change first, then its start and its evidence", async () => {
    const page = await open("imageMissing");
    const finding = page.locator(".finding.cause").first();
    const facts = await finding.locator(".impact").innerText();
    expect(await finding.locator("small").textContent()).toMatch(/^since 20:24:17\.7, when pod\/web-ccb895ccc-5frsl was created$/);
    expect(facts).toMatch(
      /^Impact: 1 pod affected, 2 of 2 desired pods ready\nChange before: 20:24:17\.\d main\.image: server:v1 → missing:1 by kubectl-set/,
    );
    await finding.getByRole("button").first().click();
    expect(await finding.innerText()).toMatch(
      /Change before[^]*Certain: the cluster itself reports it\. Evidence: container main waits: ImagePullBackOff/,
    );
    await finding.getByRole("button", { name: /main\.image/ }).click();
    const details = page.getByRole("complementary", { name: "Details" });
    expect(await details.locator("strong").textContent()).toBe("main.image: server:v1 → missing:1");
  });

  it("shows the time range of an earlier finding, whose end is the last check that found the problem", async () => {
    const page = await open("quota");
    expect(await page.locator(".finding small").first().textContent()).toMatch(/^since [\d:.]+, .*; found last at [\d:.]+$/);
  });

  it.each([
    ["nodeLost", "node/node-b", "Ready Unknown (NodeStatusUnknown)"],
    ["quotaFull", "quota/few", "full: pods 2/2"],
    ["rollover", undefined, ""],
  ])("shows in %s a row of the Node or ResourceQuota that a finding concerns", async (name, title, state) => {
    const page = await open(name);
    const others = (await titlesOf(page)).filter((each) => /^(?:node|quota)\//.test(each ?? ""));
    expect(others).toEqual(title === undefined ? [] : [title]);
    if (title !== undefined) expect(await page.getByTitle(title, { exact: true }).textContent()).toContain(state);
  });

  it("highlights the time of a finding only on the rows that it affects", async () => {
    const page = await open("nodeLost");
    await page.locator(".finding.cause > button").first().click();
    await page.getByRole("tree").focus();
    await page.keyboard.press("Home"); // the selected row has another colour
    const isColoured = async (title: RegExp): Promise<boolean> => {
      const [canvas, row] = [await page.locator(".lanes > canvas").boundingBox(), await page.getByTitle(title).boundingBox()];
      if (canvas === null || row === null) throw new Error("nothing is drawn");
      const [x, y] = [canvas.width * 0.7, row.y - canvas.y + row.height - 3];
      const alpha = `document.querySelector(".lanes > canvas").getContext("2d").getImageData(${x}, ${y}, 1, 1).data[3] > 0`;
      return page.evaluate<boolean>(alpha);
    };
    const rows = [/-dpvmj$|-dpcb8$/, /-9wrgh$/, /^node\/node-b$/, /-rmqxd$/, /-xzndx$|-xznzx$/];
    const coloured: boolean[] = [];
    for (const row of rows) coloured.push(await isColoured(row));
    expect(coloured).toEqual([true, true, true, false, false]);
  });

  it.each(["imageMissing", "rollover"])("in %s, draws no text over a mark or beyond the end", async (name) => {
    const page = await open(name);
    await page.getByRole("button", { name: "Zoom out" }).click(); // redraws the canvas
    const { texts, marks, width } = await page.evaluate<Drawing>("window.drawing");
    expect([texts.length, marks.length].filter((count) => count < 3)).toEqual([]);
    const covers = texts.filter(
      ({ text, left, right, y }) =>
        !/^\d/.test(text) && (right > width || marks.some((mark) => Math.abs(mark.y - y) < 10 && mark.x + 2 > left && mark.x - 2 < right)),
    );
    expect(covers).toEqual([]);
  });

  it("shows a change at its mark and in the list of versions", async () => {
    const page = await open("imageMissing");
    await page.locator(".finding.cause > button").first().click();
    const { texts } = await page.evaluate<Drawing>("window.drawing");
    expect(texts.map(({ text }) => text)).toContain("main.image: server:v1 → missing:1");
    const versions = await page.getByRole("complementary", { name: "Details" }).locator("summary").allTextContents();
    expect(versions.join("\n")).toMatch(/ node: node-a$/m);
    expect(versions.filter((text) => text.endsWith(" changed"))).toEqual([]);
  });

  it("folds syncs that only write a status, and repeats of a decision", async () => {
    const page = await open("rollover");
    await page.getByTitle("deploy/web", { exact: true }).click();
    const marks = page.getByRole("complementary", { name: "Details" }).locator("ul.marks").first();
    const titles = await marks.getByRole("listitem").allTextContents();
    expect(titles.filter((title) => title.includes("sync: status:"))).toEqual([]);
    const syncs = titles.filter((title) => title.includes(" sync: "));
    expect(syncs.length).toBeGreaterThan(3);
    expect(new Set(syncs).size).toBe(syncs.length);
    const folded = page.locator("details", { hasText: "that only write a status" });
    expect(await folded.getByRole("listitem").count()).toBe(0);
    await folded.locator("summary").click();
    expect(await folded.getByRole("listitem").count()).toBeGreaterThan(3);
  });

  it("warns in the page of --no-redact, and only there", async () => {
    const [page, other] = [await open("unredacted"), await open("pull")];
    expect(await page.getByRole("alert").textContent()).toContain("Not redacted");
    expect(await other.getByRole("alert").count()).toBe(0);
  });

  it("shows a gap in the watch in the legend and in the table", async () => {
    const page = await open("gap");
    expect(await page.getByRole("list", { name: "Legend" }).textContent()).toContain("gap in the watch");
    await page.getByRole("button", { name: "Table" }).click();
    expect(await page.getByRole("table", { name: "Gaps in the watch" }).getByRole("row").nth(1).textContent()).toMatch(
      /^10:0\d:[\d.]+10:12:00\.000pods$/,
    );
  });

  it("shows only the objects of a kind, and of a finding", async () => {
    const page = await open("crash");
    await page.getByRole("combobox", { name: "Kind" }).selectOption("ReplicaSet");
    expect(await titlesOf(page)).toEqual(["deploy/web", "rs/web-b", "rs/web-a"]);
    await page.getByRole("combobox", { name: "Kind" }).selectOption("");
    await page.locator(".finding.cause > button").first().click();
    await page.getByRole("checkbox", { name: /only its objects/ }).check();
    expect(await titlesOf(page)).toEqual(["deploy/web", "rs/web-b", "pod/web-b-1"]);
    await page.waitForTimeout(400); // until the hash is updated
    await page.reload();
    await page.getByRole("tree").waitFor();
    expect(await titlesOf(page)).toEqual(["deploy/web", "rs/web-b", "pod/web-b-1"]);
  });

  it("changes the counts with the selected moment", async () => {
    const page = await open("crash");
    const counts = page.getByRole("status").filter({ hasText: "ready" });
    const atEnd = await counts.textContent();
    await slider(page).fill("0");
    expect(atEnd).toContain("waiting");
    expect(await counts.textContent()).toBe("3 ready");
  });

  it("shows the objects that contain the text of the filter, and their owners", async () => {
    const page = await open("crash");
    expect(await page.getByRole("treeitem").count()).toBeGreaterThan(3);
    await page.getByRole("searchbox").fill("web-b-1");
    expect(await titlesOf(page)).toEqual(["deploy/web", "rs/web-b", "pod/web-b-1"]);
    await page.getByRole("searchbox").fill("nothing has this name");
    expect(await page.locator(".lanes").textContent()).toContain("No object matches the filter.");
  });

  it("selects an object and shows its reasons with the keyboard alone, and keeps zoom and selection in the URL", async () => {
    const page = await open("crash");
    const hash = (name: string): Promise<string | null> =>
      page.evaluate<string | null>(`new URLSearchParams(location.hash.slice(1)).get("${name}")`);
    const span = async (): Promise<number> => Number(await hash("to")) - Number(await hash("from"));
    const written = (): Promise<unknown> => page.waitForTimeout(400);
    for (let tab = 0; tab < 40 && !(await page.evaluate<boolean>('document.activeElement?.role === "tree"')); tab++)
      await page.keyboard.press("Tab");
    await written();
    const whole = await span();
    await page.keyboard.press("+");
    await page.keyboard.press("+");
    await written();
    const zoomed = await span();
    expect(zoomed).toBeLessThan(whole * 0.5);
    await page.keyboard.press("-");
    await written();
    expect(await span()).toBeGreaterThan(zoomed);
    await page.keyboard.press("0");
    await written();
    expect(await span()).toBe(whole);

    await page.keyboard.press("ArrowDown");
    const lanes = await page.getByRole("treeitem").count();
    await page.keyboard.press("Enter");
    expect(await page.getByRole("treeitem").count()).toBe(1);
    await page.keyboard.press("Enter");
    expect(await page.getByRole("treeitem").count()).toBe(lanes);
    const details = page.getByRole("complementary", { name: "Details" });
    expect(await details.textContent()).toContain("deploy/web");
    const reasons = details.getByRole("heading", { name: "Because" });
    for (let mark = 0; mark < 20 && !(await reasons.isVisible()); mark++) await page.keyboard.press("n");
    expect(await reasons.isVisible()).toBe(true);
    expect(await details.textContent()).toContain("docs/internals/spec/");
    const rule = details.getByRole("link", { name: "kubernetes.io" }).first();
    expect(await rule.getAttribute("href")).toMatch(/^https:\/\/kubernetes\.io\/docs\/concepts\/workloads\/controllers\/deployment\//);

    await page.keyboard.press("+");
    await written();
    const [address, text, width] = [page.url(), await details.textContent(), await span()];
    expect(width).toBeLessThan(whole);
    await page.reload();
    await page.getByRole("tree").waitFor();
    await written();
    expect([page.url(), await details.textContent()]).toEqual([address, text]);
  });

  it("selects bars and marks by a click, and zooms around the pointer by wheel and around two fingers by pinch", async () => {
    const page = await open("crash", { hasTouch: true });
    const details = page.getByRole("complementary", { name: "Details" });
    const canvas = page.locator(".lanes > canvas");
    const box = await canvas.boundingBox();
    const lane = await page.getByTitle("pod/web-b-1").boundingBox();
    if (box === null || lane === null) throw new Error("nothing is drawn");
    const [x, y] = [box.x + box.width / 2, lane.y + lane.height / 2];
    const span = async (): Promise<number> => {
      await page.waitForTimeout(400);
      return await page.evaluate<number>(
        "new URLSearchParams(location.hash.slice(1)).get('to') - new URLSearchParams(location.hash.slice(1)).get('from')",
      );
    };
    await page.mouse.click(x, lane.y + 2);
    expect(await details.getByRole("heading", { level: 2 }).textContent()).toContain("pod/web-b-1");
    const moment = await momentOf(page);
    const whole = await span();
    await page.mouse.wheel(0, -400);
    const zoomed = await span();
    expect(zoomed).toBeLessThan(whole * 0.6);

    const touch = await page.context().newCDPSession(page);
    const fingers = async (type: "touchStart" | "touchMove" | "touchEnd", apart?: number): Promise<unknown> =>
      await touch.send("Input.dispatchTouchEvent", {
        type,
        touchPoints:
          apart === undefined
            ? []
            : [
                { x: x - apart, y, id: 1 },
                { x: x + apart, y, id: 2 },
              ],
      });
    await fingers("touchStart", 50);
    for (const apart of [75, 100, 150]) await fingers("touchMove", apart);
    await fingers("touchEnd");
    const pinched = await span();
    expect(pinched).toBeGreaterThan(zoomed / 4);
    expect(pinched).toBeLessThan(zoomed / 2);
    expect(await momentOf(page)).toBe(moment); // the touch selected nothing

    await page.getByRole("button", { name: "Whole time" }).click();
    expect(await span()).toBe(whole);
    await page.getByRole("tree").focus();
    await page.keyboard.press("Home");
    const titleOf = async (): Promise<string> => (await details.locator("strong").textContent()) ?? "";
    const isChange = (title: string): boolean => title.includes("image");
    let title = "";
    for (let presses = 0; presses < 20 && !isChange(title); presses++) {
      await page.keyboard.press("n");
      title = await titleOf();
    }
    expect(title).toSatisfy(isChange);
    const owner = await page.getByTitle("deploy/web", { exact: true }).boundingBox();
    const at = await page.evaluate<number>("new URLSearchParams(location.hash.slice(1)).get('from')");
    await page.keyboard.press("Escape");
    expect(await details.textContent()).toContain("Select a finding");
    await page.mouse.click(box.x + (((await momentOf(page)) - at) / whole) * box.width, (owner?.y ?? 0) + 10);
    expect(await titleOf()).toBe(title); // the group's mark is at the time of the user's change
  });

  it("goes to the next and the previous mark by the keys N and P", async () => {
    const page = await open("crash");
    await page.getByTitle("pod/web-b-1").click();
    await page.getByRole("tree").focus();
    const seen: (string | null)[] = [];
    const details = page.getByRole("complementary", { name: "Details" });
    for (const key of ["n", "n", "p"]) {
      await page.keyboard.press(key);
      seen.push(await details.textContent());
    }
    expect(seen[1]).not.toBe(seen[0]);
    expect(seen[2]).toBe(seen[0]);
  });

  it("groups pods by node", async () => {
    const page = await open("quota");
    const pods = (await titlesOf(page)).filter((title) => title?.startsWith("pod/"));
    await page.getByRole("button", { name: "By node" }).click();
    const titles = await titlesOf(page);
    expect(titles.filter((title) => title?.startsWith("node/")).length).toBeGreaterThan(1);
    expect(titles.filter((title) => title?.startsWith("pod/")).toSorted()).toEqual(pods.toSorted());
    const first = titles.findIndex((title) => title?.startsWith("node/"));
    expect(titles[first + 1]).toMatch(/^pod\//);
    expect(await page.getByRole("treeitem").nth(first).textContent()).toMatch(/\d\/\d ready/);
  });

  it.each(["light", "dark"] as const)("has no serious accessibility problem in the %s theme", async (colorScheme) => {
    const page = await open("crash", { colorScheme });
    expect(await problemsOf(page)).toEqual([]);
    await page.locator(".finding.cause > button").first().click();
    await page.waitForTimeout(200); // waits for the colour transition of a button
    expect(await problemsOf(page)).toEqual([]);
    await page.getByRole("button", { name: "Table" }).click();
    await page.waitForTimeout(200);
    expect(await problemsOf(page)).toEqual([]);
  });

  it.each([320, 768, 1_280, 2_560])("fits into a viewport %i pixels wide", async (width) => {
    const page = await open("pull", { viewport: { width, height: 800 } });
    await page.locator(".finding.cause > button").first().click();
    for (const view of ["lanes", "table"]) {
      const overflow = `[...document.querySelectorAll("body *")].filter((each) => !each.closest("canvas, .tables, [role=tree], .hidden") && each.getBoundingClientRect().right > innerWidth + 1).map((each) => each.className || each.tagName)`;
      expect(await page.evaluate<string[]>(overflow), view).toEqual([]);
      expect(await page.evaluate<number>("document.documentElement.scrollWidth"), view).toBeLessThanOrEqual(width);
      await page.getByRole("button", { name: "Table" }).click();
    }
  });

  it("shows markup and reordering characters of a capture as text", async () => {
    const page = await open("odd");
    expect(await titlesOf(page)).toContain("pod/<b>web</b>");
    await page.getByTitle("rs/web-b").click();
    const text = await page.locator("body").innerText();
    expect(text).toContain(String.raw`</script><img src=x onerror=alert(1)>app\u202e`);
    expect(text).not.toContain("\u202e");
    expect(await page.locator('img, b:text-is("web")').count()).toBe(0);
  });

  it("contains no secret of the capture", async () => {
    const page = await open("secret");
    const texts: string[] = [];
    for (const item of await page.getByRole("treeitem").all()) {
      await item.click();
      texts.push(await page.evaluate<string>("document.body.textContent"));
    }
    await page.getByRole("button", { name: "Table" }).click();
    texts.push(await page.locator("body").innerText());
    expect(texts.join(" ")).toContain("TOKEN");
    expect(CANARIES.filter((each) => texts.join(" ").includes(each))).toEqual([]);
  });
}

/** The operations on the canvas since it was last cleared. */
interface Drawing {
  readonly texts: readonly { readonly text: string; readonly left: number; readonly right: number; readonly y: number }[];
  /** The dots of Events, and the heads of restart markers. */
  readonly marks: readonly { readonly x: number; readonly y: number }[];
  readonly width: number;
}

const RECORD_DRAWING = `{
  const { clearRect, fillText, arc } = CanvasRenderingContext2D.prototype;
  const isDrawing = (context) => context.canvas.parentElement?.className === "lanes";
  CanvasRenderingContext2D.prototype.clearRect = function (...args) {
    if (isDrawing(this)) window.drawing = { texts: [], marks: [], width: args[2] };
    return clearRect.apply(this, args);
  };
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    if (isDrawing(this)) window.drawing.texts.push({ text, left: x, right: x + this.measureText(text).width, y });
    return fillText.call(this, text, x, y);
  };
  CanvasRenderingContext2D.prototype.arc = function (x, y, ...more) {
    if (isDrawing(this)) window.drawing.marks.push({ x, y });
    return arc.call(this, x, y, ...more);
  };
}`;

function slider(page: Page): ReturnType<Page["getByRole"]> {
  return page.getByRole("slider", { name: "Moment" });
}

async function momentOf(page: Page): Promise<number> {
  return Number(await slider(page).inputValue());
}

async function titlesOf(page: Page): Promise<readonly (string | null)[]> {
  return await Promise.all((await page.getByRole("treeitem").all()).map((each) => each.getAttribute("title")));
}

/** axe's serious and critical violations. */
async function problemsOf(page: Page): Promise<readonly string[]> {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate<AxeResults>("axe.run()");
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 120)} ${failureSummary ?? ""}`));
}
