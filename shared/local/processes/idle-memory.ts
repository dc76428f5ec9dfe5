/**
 * Returns the memory of a burst to the system once the process is quiet. V8 collects its old space only after that has grown, and shrinks
 * its new space only then, so a quiet process would keep the garbage of its start for hours: with 80 clusters a quarter of its memory.
 */
import { getHeapStatistics } from "node:v8";

const LOOK_MS = 10_000;
/** A process that uses more of a core is not quiet: a full collection would delay its work. */
const QUIET_SHARE_MAX = 0.2;
/** Growth that is worth a collection, which takes about 5 ms of CPU for each MiB in use. */
const GROWN_BYTES_MIN = 12 * 1024 * 1024;
/** A collection of a greater heap would delay the next change by a second. */
const HEAP_BYTES_MAX = 192 * 1024 * 1024;
const PERIOD_MS = 60_000;
const MICROSECONDS_PER_MS = 1_000;

export interface MemoryLook {
  /** CPU time since the last look, over the elapsed time. */
  readonly cpuShare: number;
  readonly heapBytes: number;
  readonly nowMs: number;
}

/** The last collection, and the heap after it. */
export type Collected = Pick<MemoryLook, "heapBytes" | "nowMs">;

export function isCollectionDue({ cpuShare, heapBytes, nowMs }: MemoryLook, last: Collected | undefined): boolean {
  if (cpuShare > QUIET_SHARE_MAX || heapBytes > HEAP_BYTES_MAX) return false;
  return last === undefined || (nowMs - last.nowMs >= PERIOD_MS && heapBytes - last.heapBytes >= GROWN_BYTES_MIN);
}

/** Does nothing in a process without the option `--expose-gc`, which `startVerb` sets. */
export function releaseMemoryWhenQuiet(): void {
  const { gc } = globalThis;
  if (gc === undefined) return;
  let [cpu, lookedMs] = [process.cpuUsage(), performance.now()];
  let last: Collected | undefined;
  const look = (): void => {
    const nowMs = performance.now();
    const { user, system } = process.cpuUsage(cpu);
    const cpuShare = (user + system) / MICROSECONDS_PER_MS / (nowMs - lookedMs);
    if (isCollectionDue({ cpuShare, heapBytes: heapBytes(), nowMs }, last)) {
      gc({ type: "major", execution: "sync", flavor: "last-resort" }); // a regular one neither compacts old space nor returns its pages
      last = { heapBytes: heapBytes(), nowMs };
    }
    [cpu, lookedMs] = [process.cpuUsage(), performance.now()];
  };
  setInterval(look, LOOK_MS).unref();
}

function heapBytes(): number {
  return getHeapStatistics().total_heap_size;
}
