/** What a process of this Linux has used, by /proc. */
import { readFile } from "node:fs/promises";
import { cpus } from "node:os";

/** Of /proc/<pid>/stat, on every Linux that runs here. */
const TICKS_PER_SECOND = 100;
const KIB_PER_MIB = 1_024;

/** User and system time since its start, children not counted. */
export async function cpuSeconds(pid: number): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, "utf8")).replace(/^.*\) /, "").split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

/** How long the machine's cores have had nothing to do since it started, all together. */
export function idleCoreSeconds(): number {
  return cpus().reduce((sum, { times }) => sum + times.idle, 0) / 1_000;
}

/** Resident, in MiB: all its pages, and its share of those that others have as well. */
export async function memoryMiB(pid: number): Promise<{ readonly rss: number; readonly pss: number }> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, "utf8");
  const of = (name: string): number => Number(new RegExp(`^${name}: +(\\d+) kB$`, "m").exec(rollup)?.[1]) / KIB_PER_MIB;
  return { rss: of("Rss"), pss: of("Pss") };
}
