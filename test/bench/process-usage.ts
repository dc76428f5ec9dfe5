/** Resource usage of a process, read from /proc. */
import { readFile } from "node:fs/promises";
import { cpus } from "node:os";

/** Clock ticks per second in /proc/<pid>/stat; 100 on every supported Linux. */
const TICKS_PER_SECOND = 100;
const KIB_PER_MIB = 1_024;

/** Returns user plus system time since the process started, without its children. */
export async function cpuSeconds(pid: number): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, "utf8")).replace(/^.*\) /, "").split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

/** Returns the idle time of all cores since boot, in seconds. */
export function idleCoreSeconds(): number {
  return cpus().reduce((sum, { times }) => sum + times.idle, 0) / 1_000;
}

/** Returns resident memory in MiB: all pages (RSS), and with shared pages counted proportionally (PSS). */
export async function memoryMiB(pid: number): Promise<{ readonly rss: number; readonly pss: number }> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, "utf8");
  const of = (name: string): number => Number(new RegExp(`^${name}: +(\\d+) kB$`, "m").exec(rollup)?.[1]) / KIB_PER_MIB;
  return { rss: of("Rss"), pss: of("Pss") };
}
