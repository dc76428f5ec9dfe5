/** Capacity and usage of the whole machine, as reported by its kernel. */
export interface Machine {
  usage(): Promise<MachineUsage>;
}

/** The measurements for /stats/summary; counters start at boot. */
export interface MachineStats extends MachineUsage {
  readonly timestampMs: number;
  readonly bootMs: number;
  /** CPU time of all processors together, in seconds. */
  readonly cpuSeconds: number;
  /** Memory that is not free, and the part of it that is anonymous memory of processes. */
  readonly usageBytes: number;
  readonly rssBytes: number;
  readonly pageFaults: number;
  readonly majorPageFaults: number;
  /** All network interfaces except the loopback. */
  readonly network: readonly NetworkInterface[];
}

export interface NetworkInterface {
  readonly name: string;
  readonly rxBytes: number;
  readonly rxErrors: number;
  readonly txBytes: number;
  readonly txErrors: number;
}

export interface MachineUsage {
  readonly memoryBytes: number;
  /** Used memory without inactive file pages. */
  readonly workingSetBytes: number;
  /** Number of processes and threads; absent if the kernel does not report it. */
  readonly processes?: { readonly count: number; readonly max: number };
}
