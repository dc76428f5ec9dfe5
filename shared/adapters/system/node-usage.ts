/** What the whole machine uses, as its kernel counts it. */
import { readFile } from "node:fs/promises";

/** Ticks of /proc/stat per second: 100 wherever Linux shows them to processes. Source: proc(5), sysconf(_SC_CLK_TCK). */
const TICKS_PER_SECOND = 100;
const BYTES_PER_KB = 1024;

export interface MachineUsage {
  readonly timestampMs: number;
  readonly cpuSeconds: number;
  /** Memory that is not free, without files that nobody has read lately. Source: google/cadvisor container/libcontainer/handler.go setMemoryStats. */
  readonly workingSetBytes: number;
}

export async function readMachineUsage(): Promise<MachineUsage> {
  const [stat, meminfo] = await Promise.all([readFile("/proc/stat", "utf8"), readFile("/proc/meminfo", "utf8")]);
  return { timestampMs: Date.now(), ...machineUsage(stat, meminfo) };
}

/** @param stat as /proc/stat; @param meminfo as /proc/meminfo */
export function machineUsage(stat: string, meminfo: string): Omit<MachineUsage, "timestampMs"> {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = (/^cpu +(.*)$/mu.exec(stat)?.[1] ?? "").split(" ").map(Number);
  const bytes = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "mu").exec(meminfo)?.[1] ?? 0) * BYTES_PER_KB;
  return {
    cpuSeconds: (user + nice + system + irq + softirq) / TICKS_PER_SECOND,
    workingSetBytes: bytes("MemTotal") - bytes("MemFree") - bytes("Inactive\\(file\\)"),
  };
}
