/**
 * The CPU cost of capture: one watch event of a pod, recorded with its evidence (format version 2), compared with the same line recorded in
 * format version 1, which has no evidence. Rounds alternate. The recorder reads from memory, so HTTP is not included.
 */
import { exactText, parseExact } from "../../shared/base/exact-json.ts";
import { createSystemClock } from "../../shared/base/system.ts";
import type { KubeWatch } from "../../shared/kube/client.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import type { RecordedResource } from "../../shared/replay/capture-format/recorded-resources.ts";
import { recordingWatch } from "../../shared/replay/capture-format/recorder.ts";
import { redacted } from "../../shared/replay/capture-format/redact.ts";
import { watchLines } from "./objects.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

const [LINES, ROUNDS] = [2_000, 9];
const RATIO_MAX = 1.3;
const QUERY = { resourceVersion: "1", allowWatchBookmarks: true, timeoutSeconds: 300 };
const digester = createDigester("a key of a benchmark alone");
const clock = createSystemClock();

export async function bench(): Promise<readonly BenchResult[]> {
  const [recorded, plain]: [number[], number[]] = [[], []];
  const lines = watchLines(LINES);
  for (let round = -2; round < ROUNDS; round++) {
    const costs = [await recordedMicros(lines), plainMicros(lines)] as const;
    if (round < 0) continue; // warm-up rounds
    recorded.push(costs[0]);
    plain.push(costs[1]);
  }
  const before = benchResult("capture: the same event as in format version 1, CPU", "µs", plain);
  return [
    benchResult("capture: an event, CPU", "µs", recorded, { name: `format version 1; at most ${RATIO_MAX}`, value: before.value }),
    before,
  ];
}

async function recordedMicros(lines: readonly string[]): Promise<number> {
  const written: string[] = [];
  const watch = recordingWatch(fed(lines), { write: (line) => void written.push(line), clock, digester, raw: false, server: "bench" });
  const begun = process.cpuUsage();
  for await (const _ of watch.watch("pods", QUERY, new AbortController().signal));
  return microsSince(begun, lines.length, written.filter((line) => line.includes('"evidence":')).length);
}

/** Records as in format version 1: the object only. */
function plainMicros(lines: readonly string[]): number {
  const written: string[] = [];
  const begun = process.cpuUsage();
  for (const line of lines) {
    const { type, object } = parseExact(line) as { readonly type: string; readonly object: unknown }; // a watch event
    const now = clock.now();
    const place = { t: new Date(now).toISOString().replace("Z", "000Z"), n: written.length, m: now * 1_000 };
    written.push(exactText({ ...place, r: "pods", type, object: redacted("pods", object, digester) }));
  }
  return microsSince(begun, lines.length, written.length);
}

/** @throws {Error} if not all events were recorded */
function microsSince(begun: NodeJS.CpuUsage, events: number, recorded: number): number {
  const { user, system } = process.cpuUsage(begun);
  if (recorded !== events) throw new Error(`${recorded} of ${events} events were recorded`);
  return (user + system) / events;
}

function fed(lines: readonly string[]): KubeWatch<RecordedResource> {
  return {
    listPage: () => Promise.reject(new Error("no list")),
    newestVersion: () => Promise.resolve("1"),
    async *watch() {
      yield await Promise.resolve(lines);
    },
  };
}
