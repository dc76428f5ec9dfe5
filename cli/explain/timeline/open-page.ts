/** Serves the timeline page of a capture or a running cluster to the user of this terminal. Loaded only for `--open`. */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Log } from "@deltaloop/base";
import { createSystemClock } from "@deltaloop/base/system";
import type { KubeWatch } from "@deltaloop/kube/client";
import { messageOf } from "@deltaloop/kube/objects";
import type { Resource } from "@deltaloop/kube/objects";
import { createDigester } from "@deltaloop/kube/pod-template";
import { ALL_RELEASES } from "@deltaloop/kube/releases";
import { createOwnFolder } from "@deltaloop/local/processes";
import { recordingWatch } from "@deltaloop/replay/capture";
import type { RecordingWatch } from "@deltaloop/replay/capture";
import type { ReplayedSync } from "@deltaloop/replay/replay";
import { livePage } from "@deltaloop/timeline/page";
import { pageCode } from "@deltaloop/timeline/page-code";
import { servePage } from "@deltaloop/timeline/server";
import { watchAll, watchEvidence } from "../../capture/watch-all.ts";
import { LiveTimeline } from "./live-timeline.ts";
import type { LiveTimelineOptions } from "./live-timeline.ts";

interface LiveOptions extends Pick<LiveTimelineOptions, "explainOptions"> {
  /** The page's title. */
  readonly source: string;
  /** Name of the API server. */
  readonly server: string;
  readonly kube: KubeWatch<Resource>;
  /** The page is not redacted: it shows values and messages that may be secret. */
  readonly isWhole?: boolean;
  readonly log: Log;
}

export interface LivePage {
  /** The page's URL with the token. */
  readonly url: string;
  /** A watch whose traffic is shown on the page. */
  readonly kube: RecordingWatch;
  sync(sync: ReplayedSync): void;
  mark: LiveTimeline["mark"];
  /** Lists and watches everything, until the signal aborts; then closes the page. */
  run(ends: AbortSignal): Promise<void>;
  /** Sends new data until the signal aborts; then closes the page. */
  show(ends: AbortSignal): Promise<void>;
}

/** Interval of updates; a page may lag by a second. */
const UPDATE_MS = 250;

export async function openLivePage({ source, server, kube, isWhole = false, log, ...rest }: LiveOptions): Promise<LivePage> {
  const clock = createSystemClock();
  const begin = (): LiveTimeline => new LiveTimeline({ source, startMs: clock.now(), isWhole, ...rest });
  let timeline = begin();
  const digester = createDigester(randomBytes(32).toString("hex"), ALL_RELEASES);
  const write = (line: string): void => timeline.hear(line);
  const recording = recordingWatch(kube, { write, clock, digester, raw: isWhole, keeps: true, server });
  const page = await servePage({ html: livePage(await pageCode()), whole: () => timeline.whole(clock.now()) });
  const show = async (ends: AbortSignal): Promise<void> => {
    while (!ends.aborted) {
      await clock.after(UPDATE_MS, ends).catch(() => undefined);
      page.send(timeline.update(clock.now()));
      if (recording.isListing || !timeline.isFull(clock.now())) continue;
      timeline = begin();
      await recording.restart();
      timeline.update(clock.now());
      page.restart();
    }
    await page.close();
  };
  return {
    ...{ url: page.url, kube: recording, show },
    sync: (sync) => timeline.sync(sync),
    mark: (...mark) => timeline.mark(...mark),
    async run(ends) {
      await Promise.all([watchAll(recording, { clock, log }, ends), watchEvidence(recording, { clock, log }, ends), show(ends)]);
    },
  };
}

/** The options that choose a cluster, as words of a shell. */
export function clusterOptions(flags: { readonly kubeconfig?: string | undefined; readonly context?: string | undefined }): string {
  return (["kubeconfig", "context"] as const)
    .flatMap((name) => (flags[name] === undefined ? [] : [`--${name} ${shellWord(flags[name])}`]))
    .join(" ");
}

function shellWord(text: string): string {
  return /^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Serves a page that contains all its data, until the signal aborts. */
export async function openPage(html: string, ends: AbortSignal): Promise<void> {
  const page = await servePage({ html });
  process.stdout.write(openText(page.url));
  await new Promise<void>((resolve) => (ends.aborted ? resolve() : ends.addEventListener("abort", () => resolve(), { once: true })));
  await page.close();
}

/** Opens a browser if there is one. @returns the text to print */
export function openText(url: string): string {
  openBrowser(url);
  return `Timeline: ${url}\nServed on this machine until Ctrl-C. Anyone with this URL can read it.\n`;
}

/** Passes the URL in a file that only its owner may read, because other users see the arguments of a process. */
function openBrowser(url: string): void {
  const { DISPLAY, WAYLAND_DISPLAY } = process.env;
  const opener = process.platform === "darwin" ? "open" : (DISPLAY ?? WAYLAND_DISPLAY) ? "xdg-open" : undefined;
  if (opener === undefined) return;
  const file = join(createOwnFolder("timeline").path, "timeline.html");
  writeFileSync(file, `<!doctype html><meta http-equiv="refresh" content="0;url=${url}">\n`, { mode: 0o600 });
  spawn(opener, [file], { stdio: "ignore", detached: true })
    .on("error", (error) => void process.stderr.write(`deltaloop: no browser was opened: ${messageOf(error)}\n`))
    .unref();
}
