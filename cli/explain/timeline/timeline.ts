/** `explain FILE --html PAGE` and `--open`: the verdict as text, and a page with a timeline. Loaded only for these options. */
import { basename } from "node:path";
import { UsageError } from "@deltaloop/base";
import { consoleLog, printable } from "@deltaloop/base/output";
import { createSystemClock } from "@deltaloop/base/system";
import { createDigester } from "@deltaloop/kube/pod-template";
import type { Digester } from "@deltaloop/kube/pod-template";
import { ALL_RELEASES } from "@deltaloop/kube/releases";
import type { Release, ReleaseAt } from "@deltaloop/kube/releases";
import { recordedRelease } from "../../capture/recorded-release.ts";
import type { Capture } from "@deltaloop/replay/capture";
import { FamilyCensus, StateCensus, verdictOf, worstFirst } from "@deltaloop/replay/explain";
import type { Family, Verdict } from "@deltaloop/replay/explain";
import { replay } from "@deltaloop/replay/replay";
import type { ReplayedSync } from "@deltaloop/replay/replay";
import { timelinePage } from "@deltaloop/timeline/page";
import { pageCode } from "@deltaloop/timeline/page-code";
import { untilSignalled } from "@deltaloop/local/processes";
import { allOf } from "../../capture/all-of.ts";
import { CaptureFile, isSameFile, isStandardOutput } from "../../capture/capture-file.ts";
import { openAnyRecords } from "../../capture/read-records.ts";
import { functionHandlers } from "../../functions/functions.ts";
import { withProgress } from "../../output/terminal.ts";
import { printWorst } from "../print-worst.ts";
import { subjectIn, wantedBy } from "../subject.ts";
import { goneText, verdictText } from "../verdict-text.ts";
import { openPage } from "./open-page.ts";
import { FindingTimes } from "./finding-times.ts";
import { TimelineCensus } from "./timeline-census.ts";
import { timelineInput } from "./timeline-input.ts";
import { decides } from "../describe.ts";

interface PageFlags {
  readonly html?: string;
  readonly open?: true;
  readonly redact: boolean;
  readonly force?: true;
  readonly namespace?: string;
  readonly kubernetes?: Release;
}

/** A larger page would not open. */
const SYNCS_MAX = 100_000;

/** Explains a capture on a page with a timeline. @param object in kubectl's form; empty: all workloads */
export async function explainPage(file: string, object: string, flags: PageFlags): Promise<void> {
  const { html, redact, force, open } = flags;
  const ends = open && untilSignalled();
  if (html === undefined) {
    const text = await pageOf(file, object, flags);
    return ends && openPage(text, ends);
  }
  if (isStandardOutput(html)) throw new UsageError("--html needs a file name: standard output receives the verdict");
  if (isSameFile(file, html)) throw new UsageError(`--html ${html} is the capture itself: choose another name`);
  const page = new CaptureFile(html, { isWhole: !redact, existing: force ? "replaced" : "refused" }, createSystemClock().now());
  try {
    const text = await pageOf(file, object, flags);
    page.write(text);
    await page.end();
    if (page.error !== undefined) throw new UsageError(page.error.message);
    process.stdout.write(`Timeline: ${printable(html)}\n`);
    if (ends) await openPage(text, ends);
  } catch (error) {
    await page.discard();
    throw error;
  }
}

/** Prints the verdict. */
async function pageOf(file: string, object: string, { redact, namespace, kubernetes }: PageFlags): Promise<string> {
  const digester = createDigester("explain".padEnd(32), ALL_RELEASES);
  const family = new FamilyCensus(object === "" ? [] : [wantedBy(object, namespace)]);
  const state = new StateCensus(digester);
  const census = new TimelineCensus(digester, { isWhole: !redact });
  const times = new FindingTimes(state);
  const capture = await openAnyRecords(file, allOf(family, state, census, times));
  const subject = object === "" ? undefined : subjectIn(object, family, namespace);
  const cluster = state.state({ namespace: subject?.namespace ?? namespace });
  const verdicts = subject === undefined ? worstFirst(cluster) : listOf(verdictOf(cluster, subject));
  const [only] = verdicts;
  times.note(verdicts, cluster.nowMs);
  const release = recordedRelease(kubernetes, capture);
  const shown = subject && family.familyOf(subject);
  const syncs = await withProgress(`Replaying ${file}`, syncsIn(capture, digester, release, shown));
  const sources = { capture, census, times, verdicts, syncs, subject, namespace, source: basename(file), isWhole: !redact };
  const text = timelinePage(timelineInput(sources), await pageCode());
  if (subject === undefined) printWorst(verdicts, file, { namespace });
  else process.stdout.write(only === undefined ? goneText(subject, cluster.nowMs) : verdictText(only, { recorded: true }));
  return text;
}

function listOf(verdict: Verdict | undefined): readonly Verdict[] {
  return verdict === undefined ? [] : [verdict];
}

/** The syncs that decide something or fail. @param shown the objects to include; undefined for all objects of the capture */
async function syncsIn(
  capture: Capture,
  digester: Digester,
  release: ReleaseAt | undefined,
  shown: Family | undefined,
): Promise<readonly ReplayedSync[]> {
  const syncs: ReplayedSync[] = [];
  await replay(capture, {
    ...{ digester, seed: 1, log: consoleLog("", "error"), functions: functionHandlers, ...(release && { release }) },
    holds: (record) => shown?.dependsOn(record) !== false,
    onSync: (sync) => {
      if (decides(sync)) syncs.push(sync);
    },
    goesOn: () => Promise.resolve(syncs.length <= SYNCS_MAX),
  });
  if (syncs.length > SYNCS_MAX)
    throw new UsageError(`more than ${SYNCS_MAX} syncs decide something, too many for a page: rotate the capture, or record one namespace`);
  return syncs;
}
