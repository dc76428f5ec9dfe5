/**
 * The timeline page of 50,000 events in headless Chromium at 1280×800: CPU time to write it, its size, its start (also as CPU time of the
 * page's thread and its worker, which wait for each other), frame times while scrubbing and zooming (all main-thread tasks between two
 * frames, from the trace), and the heap after garbage collection. Live mode: 500 changes per second for a minute, and the delay of the
 * page.
 */
import { spawnSync } from "node:child_process";
import { createWriteStream, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import type { Browser, CDPSession, Page } from "playwright-core";
import { openLivePage } from "../../cli/explain/timeline/open-page.ts";
import { silentLog } from "../support/silent-log.ts";
import { ensureChromium, CHROMIUM } from "../support/chromium.ts";
import { longCapture } from "../support/long-capture.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

const [EVENTS, DEPLOYMENTS, PODS] = [50_000, 100, 10];
const VIEWPORT = { width: 1_280, height: 800 };
const [CHANGES_PER_SECOND, LIVE_MS] = [500, 60_000];
const MIB = 2 ** 20;
/** Prints the process's CPU usage when it exits. */
const USAGE = `--import=data:text/javascript,process.on("exit",()=>process.stderr.write(JSON.stringify(process.cpuUsage())))`;

export async function bench(): Promise<readonly BenchResult[]> {
  const missing = ensureChromium();
  if (missing !== undefined) throw new Error(missing);
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-bench-"));
  const browser = await chromium.launch({ executablePath: CHROMIUM });
  try {
    return [...(await ofFile(browser, folder)), ...(await live(browser))];
  } finally {
    await browser.close();
    rmSync(folder, { recursive: true });
  }
}

async function ofFile(browser: Browser, folder: string): Promise<readonly BenchResult[]> {
  const [capture, html] = [join(folder, "long.jsonl"), join(folder, "long.html")];
  await written(capture);
  const words = [USAGE, "cli/main.ts", "explain", capture, "--html", html];
  const { status, stderr } = spawnSync(process.execPath, words, { encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
  const { user, system } = JSON.parse(stderr.slice(stderr.lastIndexOf("{"))) as NodeJS.CpuUsage; // printed by USAGE
  const results = [
    benchResult("timeline: write the page, CPU", "s", [(user + system) / 1_000_000]),
    benchResult("timeline: file", "MiB", [statSync(html).size / MIB]),
  ];
  const [paints, starts, cpus]: [number[], number[], number[]] = [[], [], []];
  for (let round = 0; round < 5; round++) {
    const page = await browser.newPage({ viewport: VIEWPORT });
    const { paint, interactive, cpu } = await opened(page, pathToFileURL(html).href);
    paints.push(paint);
    starts.push(interactive);
    cpus.push(cpu);
    if (round === 4) results.push(...(await frames(page)));
    await page.close();
  }
  return [
    benchResult("timeline: first paint", "ms", paints),
    benchResult("timeline: interactive", "ms", starts),
    benchResult("timeline: interactive, CPU", "ms", cpus),
    ...results,
  ];
}

async function written(path: string): Promise<void> {
  const file = createWriteStream(path);
  let count = 0;
  for (const line of longCapture({ deployments: DEPLOYMENTS, pods: PODS, stepMs: 20 })) {
    file.write(`${line}\n`);
    if (++count === EVENTS) break;
  }
  await new Promise<void>((resolve) => void file.end(resolve));
}

interface Start {
  readonly paint: number;
  readonly interactive: number;
  /** CPU time of the page's thread and its worker. */
  readonly cpu: number;
}

async function opened(page: Page, url: string): Promise<Start> {
  let [paint, interactive] = [0, 0];
  const session = await page.context().newCDPSession(page);
  const events = await eventsOf(session, async () => {
    await page.goto(url);
    await page.getByRole("tree").waitFor();
    // After two frames the page has rendered its response.
    [paint = 0, interactive = 0] = await page.evaluate<number[]>(AFTER_TWO_FRAMES);
  });
  const threads = new Set(
    events.filter(({ name, args }) => name === "thread_name" && /^(?:CrRendererMain|DedicatedWorker)/.test(args.name ?? "")).map(threadOf),
  );
  const tasks = events.filter((event) => event.name === "RunTask" && threads.has(threadOf(event)));
  return { paint, interactive, cpu: tasks.reduce((sum, { tdur = 0 }) => sum + tdur, 0) / 1_000 };
}

const AFTER_TWO_FRAMES =
  "new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve([performance.getEntriesByName('first-contentful-paint')[0].startTime, performance.now()]))))";

function threadOf({ pid, tid }: TraceEvent): string {
  return `${pid} ${tid}`;
}

async function frames(page: Page): Promise<readonly BenchResult[]> {
  const session = await page.context().newCDPSession(page);
  const scrub = await traced(session, async () => {
    const slider = await page.getByRole("slider", { name: "Moment" }).boundingBox();
    if (slider === null) throw new Error("no slider");
    await page.mouse.move(slider.x + slider.width, slider.y + slider.height / 2);
    await page.mouse.down();
    for (let step = 120; step > 0; step--) await page.mouse.move(slider.x + (slider.width * step) / 120, slider.y + slider.height / 2);
    await page.mouse.up();
  });
  const zoom = await traced(session, async () => {
    const canvas = await page.locator("canvas").first().boundingBox();
    if (canvas === null) throw new Error("no canvas");
    await page.mouse.move(canvas.x + canvas.width / 2, canvas.y + canvas.height / 2);
    for (let step = 0; step < 120; step++) await page.mouse.wheel(0, step < 60 ? -60 : 60);
  });
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  return [
    ...["scrub", "zoom"].flatMap((name, index) => {
      const { ms, perSecond } = index === 0 ? scrub : zoom;
      const sorted = ms.toSorted((a, b) => a - b);
      return [
        benchResult(`timeline: ${name}, work per frame`, "ms", sorted),
        benchResult(`timeline: ${name}, p95`, "ms", [sorted[Math.floor(sorted.length * 0.95)] ?? 0]),
        benchResult(`timeline: ${name}, frames`, "1/s", [perSecond]),
      ];
    }),
    benchResult("timeline: heap after a collection", "MiB", [usedSize / MIB]),
  ];
}

interface TraceEvent {
  readonly name: string;
  readonly ts: number;
  readonly dur?: number;
  /** CPU time of the thread, in µs. */
  readonly tdur?: number;
  readonly pid: number;
  readonly tid: number;
  readonly args: { readonly name?: string };
}

async function eventsOf(session: CDPSession, act: () => Promise<void>): Promise<readonly TraceEvent[]> {
  const events: TraceEvent[] = [];
  const hear = ({ value }: { value: object[] }): void => void events.push(...(value as TraceEvent[])); // events of the trace
  session.on("Tracing.dataCollected", hear);
  const complete = new Promise<void>((resolve) => session.once("Tracing.tracingComplete", () => resolve()));
  await session.send("Tracing.start", { categories: "devtools.timeline,devtools.timeline.frame,disabled-by-default-devtools.timeline" });
  await act();
  await session.send("Tracing.end");
  await complete;
  session.off("Tracing.dataCollected", hear);
  return events;
}

/** Main-thread work between two frames. */
async function traced(
  session: CDPSession,
  act: () => Promise<void>,
): Promise<{ readonly ms: readonly number[]; readonly perSecond: number }> {
  const events = await eventsOf(session, act);
  const begins = events.filter(({ name }) => name === "Commit").toSorted((a, b) => a.ts - b.ts);
  const [first] = begins;
  const tasks = events.filter(({ name, pid, tid }) => name === "RunTask" && pid === first?.pid && tid === first.tid);
  const ms = begins.slice(0, -1).map(({ ts }, index) => {
    const end = begins[index + 1]?.ts ?? Infinity;
    return tasks.reduce((sum, task) => sum + (task.ts >= ts && task.ts < end ? (task.dur ?? 0) : 0), 0) / 1_000;
  });
  const seconds = ((begins.at(-1)?.ts ?? 0) - (first?.ts ?? 0)) / 1_000_000;
  return { ms, perSecond: ms.length / seconds };
}

/** A watch that delivers the changes of a long capture in real time. */
async function live(browser: Browser): Promise<readonly BenchResult[]> {
  const ends = new AbortController();
  const lines = longCapture({ deployments: DEPLOYMENTS, pods: PODS, stepMs: 2 });
  const queues = new Map<string, string[]>();
  const begun = Date.now();
  let changes = 0;
  const deliver = (): void => {
    const due = ((Date.now() - begun) * CHANGES_PER_SECOND) / 1_000;
    while (changes < due) {
      const { value: line = "" } = lines.next() as { readonly value?: string }; // the generator never ends
      const { r, k, type, object } = JSON.parse(line) as {
        readonly r: string;
        readonly k?: string;
        readonly type?: string;
        readonly object: object;
      };
      if (k === "listend") continue;
      changes++;
      const queue = queues.get(r) ?? [];
      queues.set(r, queue);
      queue.push(JSON.stringify({ type: type ?? "ADDED", object }));
    }
  };
  const timer = setInterval(deliver, 50);
  const page = await openLivePage({
    ...{ source: "bench", server: "http://127.0.0.1", log: silentLog },
    kube: {
      listPage: () => Promise.resolve({ items: [], resourceVersion: "1" }),
      newestVersion: () => Promise.resolve("1"),
      async *watch(resource, _query, signal) {
        while (!signal.aborted) {
          await new Promise((resolve) => void setTimeout(resolve, 20));
          yield queues.get(resource)?.splice(0) ?? [];
        }
      },
    },
  });
  const running = page.run(ends.signal);
  const tab = await browser.newPage({ viewport: VIEWPORT });
  await tab.goto(page.url);
  await tab.getByText("● live").waitFor();
  // Measures how far the end of the timeline is behind the current time.
  const lag = "Date.now() - Date.parse(new Date().toISOString().slice(0, 11) + document.querySelector('.moment b').textContent + 'Z')";
  const behind: number[] = [];
  const until = Date.now() + LIVE_MS;
  while (Date.now() < until) {
    await new Promise((resolve) => void setTimeout(resolve, 500));
    behind.push(await tab.evaluate<number>(lag));
  }
  clearInterval(timer);
  const seconds = (Date.now() - begun) / 1_000;
  ends.abort();
  await running;
  const sorted = behind.toSorted((a, b) => a - b);
  return [
    benchResult("timeline: live, changes", "1/s", [changes / seconds]),
    benchResult("timeline: live, behind", "ms", sorted),
    benchResult("timeline: live, most behind", "ms", [sorted.at(-1) ?? 0]),
  ];
}
