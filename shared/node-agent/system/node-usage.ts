/** Reads the usage of the whole machine from /proc. */
import { readFile } from "node:fs/promises";
import type { MachineStats, MachineUsage, NetworkInterface } from "../ports/machine.ts";

/** Ticks of /proc/stat per second, which is always 100 in user space. Source: proc(5), sysconf(_SC_CLK_TCK). */
const TICKS_PER_SECOND = 100;
const BYTES_PER_KB = 1024;

/** The usage of the whole machine for `/metrics/resource`. */
export interface TimedUsage extends MachineUsage {
  readonly timestampMs: number;
  readonly cpuSeconds: number;
}

export async function readMachineUsage(): Promise<TimedUsage> {
  const [stat, meminfo] = await Promise.all([readFile("/proc/stat", "utf8"), readFile("/proc/meminfo", "utf8")]);
  const limits = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max", "/proc/loadavg"];
  const [pidMax = "", threadsMax = "", loadavg = ""] = await Promise.all(limits.map((path) => readFile(path, "utf8").catch(() => "")));
  return { timestampMs: Date.now(), ...machineUsage(stat, meminfo), ...processesOf(loadavg, [pidMax, threadsMax]) };
}

/** Source: pkg/kubelet/stats/pidlimit/pidlimit_linux.go Stats. @param loadavg content of /proc/loadavg @param limits contents of pid_max and threads-max */
export function processesOf(loadavg: string, limits: readonly string[]): Pick<MachineUsage, "processes"> {
  const count = Number(/ \d+\/(\d+) /u.exec(loadavg)?.[1] ?? NaN);
  const known = limits.flatMap((text) => (/^\d+\n?$/u.test(text) ? Number(text) : []));
  return Number.isNaN(count) || known.length === 0 ? {} : { processes: { count, max: Math.min(...known) } };
}

/**
 * Computes the working set as cAdvisor does: used memory without inactive file pages.
 *
 * Source: google/cadvisor container/libcontainer/handler.go setMemoryStats. @param stat content of /proc/stat @param meminfo content of
 * /proc/meminfo
 */
export function machineUsage(stat: string, meminfo: string): Pick<TimedUsage, "cpuSeconds" | "memoryBytes" | "workingSetBytes"> {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = (/^cpu +(.*)$/mu.exec(stat)?.[1] ?? "").split(" ").map(Number);
  const bytes = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "mu").exec(meminfo)?.[1] ?? 0) * BYTES_PER_KB;
  return {
    cpuSeconds: (user + nice + system + irq + softirq) / TICKS_PER_SECOND,
    memoryBytes: bytes("MemTotal"),
    workingSetBytes: bytes("MemTotal") - bytes("MemFree") - bytes("Inactive\\(file\\)"),
  };
}

/** Reads the statistics for `/stats/summary`. */
export async function readMachineStats(): Promise<MachineStats> {
  const paths = ["/proc/stat", "/proc/meminfo", "/proc/vmstat", "/proc/net/dev"];
  const [usage, ...texts] = await Promise.all([readMachineUsage(), ...paths.map((path) => readFile(path, "utf8").catch(() => ""))]);
  const [stat = "", meminfo = "", vmstat = "", netDev = ""] = texts;
  return { ...usage, ...machineStats({ stat, meminfo, vmstat, netDev }) };
}

/** @param texts contents of the files with these names in /proc */
export function machineStats(
  texts: Readonly<Record<"stat" | "meminfo" | "vmstat" | "netDev", string>>,
): Omit<MachineStats, keyof TimedUsage> {
  const { stat, meminfo, vmstat, netDev } = texts;
  const number = (text: string, pattern: string): number => Number(new RegExp(`^${pattern}\\s+(\\d+)`, "mu").exec(text)?.[1] ?? 0);
  return {
    bootMs: number(stat, "btime") * 1000,
    usageBytes: (number(meminfo, "MemTotal:") - number(meminfo, "MemFree:")) * BYTES_PER_KB,
    rssBytes: number(meminfo, "AnonPages:") * BYTES_PER_KB,
    pageFaults: number(vmstat, "pgfault"),
    majorPageFaults: number(vmstat, "pgmajfault"),
    network: networkOf(netDev),
  };
}

/**
 * Skips two header lines, and then parses `name: rxBytes packets errs drop fifo frame compressed multicast txBytes packets errs …`.
 * Source: proc_net_dev(5).
 */
function networkOf(netDev: string): readonly NetworkInterface[] {
  return netDev.split("\n").flatMap((line) => {
    const [, name = "", columns = ""] = /^\s*([^\s:]+):\s*(\d.*)$/u.exec(line) ?? [];
    if (name === "" || name === "lo") return [];
    const [rxBytes = 0, , rxErrors = 0, , , , , , txBytes = 0, , txErrors = 0] = columns.trim().split(/\s+/u).map(Number);
    return [{ name, rxBytes, rxErrors, txBytes, txErrors }];
  });
}
