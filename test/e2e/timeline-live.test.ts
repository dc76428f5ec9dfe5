/**
 * `deltaloop explain --open` with an in-memory API server, and `demo --open`, in Chromium. Would catch: a page that misses a change,
 * does not reconnect, or shows a secret.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import { serveHttp } from "../../shared/api-server/http.ts";
import type { HttpApiServer } from "../../shared/api-server/http.ts";
import type { JsonObject } from "../../shared/base/json.ts";
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../shared/base/system/random.ts";
import { RESOURCES } from "../../shared/kube/objects/resources.ts";
import { CHROMIUM, ensureChromium } from "../support/chromium.ts";
import { deployment, event, oldPods, pod, replicaSet } from "../support/incident.ts";
import type { Placed } from "../support/incident.ts";
import { kubeconfigOf } from "../support/kubeconfig.ts";
import { startTcpFront } from "../support/tcp-front.ts";
import type { TcpFront } from "../support/tcp-front.ts";

const MAIN = join(import.meta.dirname, "../../cli/main.ts");
const DEMO_MS_MAX = 60_000;
const CANARY = "canary-env";

const missing = ensureChromium();
if (missing === undefined)
  describe("the live timeline page in Chromium", () => {
    suite();
  });
else if (process.env["CI"] === "true") it("the live timeline page in Chromium", () => Promise.reject(new Error(missing)));
else it.skip(`the live timeline page in Chromium: ${missing}`);

function started(cwd: string, ...words: readonly string[]): ChildProcess {
  const { DISPLAY: _, WAYLAND_DISPLAY: __, ...env } = process.env;
  return spawn(process.execPath, [MAIN, ...words], { cwd, env });
}

/** The URL that the command prints. */
function urlOf(child: ChildProcess): Promise<string> {
  return new Promise<string>((resolve, reject) => {
    let text = "";
    const hear = (chunk: string): void => {
      text += chunk;
      const [found] = /http:\S+/.exec(text) ?? [];
      if (found !== undefined) resolve(found);
    };
    child.stdout?.setEncoding("utf8").on("data", hear);
    child.stderr?.setEncoding("utf8").on("data", hear);
    child.once("exit", () => reject(new Error(text)));
  });
}

function suite(): void {
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-timeline-live-"));
  const server = createApiServer({ clock: createSystemClock(), random: createSystemRandom(), garbageCollection: false });
  const place = ([resource, fields]: Placed): void => {
    const { group, kind, apiVersion } = RESOURCES[resource];
    server.place(group === "" ? resource : `${resource}.${group}`, { kind, apiVersion, ...fields } as unknown as JsonObject); // API objects are JSON
  };
  let api: HttpApiServer;
  let child: ChildProcess;
  let front: TcpFront;
  let browser: Browser;
  let page: Page;
  let port = 0;
  const problems: string[] = [];

  beforeAll(async () => {
    for (const each of [deployment(), replicaSet("web-a"), replicaSet("web-b"), ...oldPods]) place(each);
    api = await serveHttp(server);
    writeFileSync(join(folder, "kubeconfig"), kubeconfigOf({ server: api.url }));
    child = started(folder, "explain", "-n", "shop", "--open", "--kubeconfig", "kubeconfig");
    const url = await urlOf(child);
    port = Number(new URL(url).port);
    front = await startTcpFront(port);
    browser = await chromium.launch({ executablePath: CHROMIUM });
    page = await browser.newPage({ viewport: { width: 1_280, height: 800 } });
    page.setDefaultTimeout(10_000);
    page.on("pageerror", (error) => problems.push(String(error)));
    page.on("request", (request) => request.url().startsWith("http://127.0.0.1:") || problems.push(request.url()));
    await page.goto(url.replace(String(port), String(front.port)));
    await page.getByText("● live").waitFor();
  }, 60_000);
  afterAll(async () => {
    await browser?.close();
    await front?.stop();
    child?.kill("SIGTERM");
    await api?.close();
    rmSync(folder, { recursive: true });
  });

  it("shows a new pod, its Events and the finding, and keeps showing the current time", async () => {
    const waiting = { reason: "ErrImagePull", message: `Back-off pulling image "app:v2"` };
    place(pod({ state: { waiting }, container: { env: [{ name: "TOKEN", value: CANARY }] } }));
    place(event("Failed", 'Failed to pull image "app:v2": app:v2: not found', { count: 1, seconds: -1 }));
    const lane = page.getByTitle("pod/web-b-1");
    await lane.waitFor();
    await page.locator(".finding.cause").first().waitFor();
    expect(await lane.textContent()).toContain("ErrImagePull");
    const [value, max] = await page.getByRole("slider", { name: "Moment" }).evaluate((input) => {
      // an <input> element; DOM types are not available here
      const { value: at, max: end } = input as unknown as Readonly<Record<string, string>>;
      return [Number(at), Number(end)] as const;
    });
    expect(max - value).toBeLessThan(2_000);
  });

  it("connects again after the connection is lost, and shows what happened meanwhile", async () => {
    front.to(1); // the server no longer listens
    await page.getByText("connection lost").waitFor();
    place(pod({ state: { running: { startedAt: new Date().toISOString() } }, status: { phase: "Running" } }, "web-b-2"));
    front.to(Number(new URL(api.url).port)); // a server that does not serve the page
    await page.waitForTimeout(2_500);
    front.to(port);
    await page.getByText("● live").waitFor();
    expect(await page.getByTitle("pod/web-b-2").textContent()).toContain("not ready");
  });

  it("shows no secret, names the command for the cluster, makes no unexpected request, and throws no error", async () => {
    await page.getByTitle("pod/web-b-1").click();
    expect(await page.locator("code.command").textContent()).toBe("deltaloop explain pod/web-b-1 -n shop --kubeconfig kubeconfig");
    expect(await page.locator("body").innerText()).not.toContain(CANARY);
    expect(problems).toEqual([]);
  });

  it("shows the demo while the demo runs, and ends with the demo", async () => {
    const demo = started(folder, "demo", "--open");
    const ended = once(demo, "exit");
    try {
      const tab = await browser.newPage();
      await tab.goto(await urlOf(demo));
      await tab.getByText("● live").waitFor();
      await tab.locator(".requests").getByText("web.image: web:v1 → web:v2").waitFor({ timeout: DEMO_MS_MAX });
      await tab.getByText("6 of 6 pods available, 6 updated").waitFor({ timeout: DEMO_MS_MAX });
      await tab.getByTitle(/^deploy\//).click();
      const details = tab.getByRole("complementary", { name: "Details" });
      expect(await details.textContent()).toContain("sync: create ReplicaSet");
      expect(await details.textContent()).not.toContain("In a terminal");
      demo.kill("SIGINT");
      expect(await ended).toEqual([0, null]);
      await tab.getByText("connection lost").waitFor();
      await tab.close();
    } finally {
      demo.kill("SIGKILL");
    }
  }, 120_000);
}
