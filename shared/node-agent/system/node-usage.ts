/** What the whole machine uses, as its kernel counts it. */
import { readFile } from "node:fs/promises";
import type { MachineFigures, MachineUsage, NetworkInterface } from "../ports/machine.ts";

/** Ticks of /proc/stat per second: 100 wherever Linux shows them to processes. Source: proc(5), sysconf(_SC_CLK_TCK). */
const TICKS_PER_SECOND = 100;
const BYTES_PER_KB = 1024;

/** Of the whole machine, for `/metrics/resource`, too. */
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

/** Source: pkg/kubelet/stats/pidlimit/pidlimit_linux.go Stats. @param loadavg as /proc/loadavg; @param limits of processes, as the kernel's files have them */
export function processesOf(loadavg: string, limits: readonly string[]): Pick<MachineUsage, "processes"> {
  const count = Number(/ \d+\/(\d+) /u.exec(loadavg)?.[1] ?? NaN);
  const known = limits.flatMap((text) => (/^\d+\n?$/u.test(text) ? Number(text) : []));
  return Number.isNaN(count) || known.length === 0 ? {} : { processes: { count, max: Math.min(...known) } };
}

/**
 * The working set as cAdvisor computes it: used memory without inactive file pages.
 *
 * Source: google/cadvisor container/libcontainer/handler.go setMemoryStats. @param stat as /proc/stat; @param meminfo as /proc/meminfo
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

/** For `/stats/summary`. */
export async function readMachineFigures(): Promise<MachineFigures> {
  const paths = ["/proc/stat", "/proc/meminfo", "/proc/vmstat", "/proc/net/dev"];
  const [usage, ...texts] = await Promise.all([readMachineUsage(), ...paths.map((path) => readFile(path, "utf8").catch(() => ""))]);
  const [stat = "", meminfo = "", vmstat = "", netDev = ""] = texts;
  return { ...usage, ...machineFigures({ stat, meminfo, vmstat, netDev }) };
}

/** @param texts as the files of /proc of these names */
export function machineFigures({
  stat,
  meminfo,
  vmstat,
  netDev,
}: {
  readonly stat: string;
  readonly meminfo: string;
  readonly vmstat: string;
  readonly netDev: string;
}): Omit<MachineFigures, keyof TimedUsage> {
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

/** Two lines of headings, then `name: rxBytes packets errs drop fifo frame compressed multicast txBytes packets errs …`. Source: proc_net_dev(5). */
function networkOf(netDev: string): readonly NetworkInterface[] {
  return netDev.split("\n").flatMap((line) => {
    const [, name = "", columns = ""] = /^\s*([^\s:]+):\s*(\d.*)$/u.exec(line) ?? [];
    if (name === "" || name === "lo") return [];
    const [rxBytes = 0, , rxErrors = 0, , , , , , txBytes = 0, , txErrors = 0] = columns.trim().split(/\s+/u).map(Number);
    return [{ name, rxBytes, rxErrors, txBytes, txErrors }];
  });
}
