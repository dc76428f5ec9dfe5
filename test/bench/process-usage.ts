/** Resource usage of a process, read from /proc. */
import { readdir, readFile } from "node:fs/promises";
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

/** Describes the proportional set size of a process by what its pages hold. */
export async function memoryKinds(pid: number): Promise<string> {
  const kinds = new Map<string, number>();
  let kind = "";
  for (const line of (await readFile(`/proc/${pid}/smaps`, "utf8")).split("\n")) {
    const mapping = /^[0-9a-f]+-[0-9a-f]+ (?<rights>\S+) \S+ \S+ \d+ *(?<path>.*)$/.exec(line)?.groups;
    if (mapping) kind = kindOf(mapping["rights"] ?? "", mapping["path"] ?? "");
    const kib = /^Pss: +(\d+) kB$/.exec(line)?.[1];
    if (kib !== undefined) kinds.set(kind, (kinds.get(kind) ?? 0) + Number(kib));
  }
  const parts = [...kinds].map(([name, kib]) => `${name} ${(kib / KIB_PER_MIB).toFixed(0)} MiB`);
  return parts.join(", ");
}

function kindOf(rights: string, path: string): string {
  if (path.startsWith("/")) return "program and libraries";
  if (path === "[heap]") return "C heap";
  return rights.includes("x") ? "compiled code" : "JavaScript heap, buffers and stacks";
}

/** CPU seconds of the main thread, and of all other threads: compiler and garbage collector of V8. */
export async function threadSeconds(pid: number): Promise<{ readonly main: number; readonly helpers: number }> {
  let [main, helpers] = [0, 0];
  for (const thread of await readdir(`/proc/${pid}/task`)) {
    const text = await readFile(`/proc/${pid}/task/${thread}/schedstat`, "utf8").catch(() => "0"); // the thread has ended
    const seconds = Number(text.split(" ")[0]) / 1e9;
    if (Number(thread) === pid) main += seconds;
    else helpers += seconds;
  }
  return { main, helpers };
}
