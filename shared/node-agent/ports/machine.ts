/** What the whole machine has and uses, as its kernel counts it. */
export interface Machine {
  usage(): Promise<MachineUsage>;
}

/** What a person wants to see of it besides. */
export interface MachineFigures extends MachineUsage {
  readonly timestampMs: number;
  /** When it was started. */
  readonly bootMs: number;
  /** Of all processors together, since then. */
  readonly cpuSeconds: number;
  /** Memory that is not free, and of that what processes have for themselves. */
  readonly usageBytes: number;
  readonly rssBytes: number;
  /** Since the start. */
  readonly pageFaults: number;
  readonly majorPageFaults: number;
  /** All but the loopback, since the start. */
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
  /** The working set: used memory without inactive file pages. */
  readonly workingSetBytes: number;
  /** Processes and threads; absent where the kernel does not say. */
  readonly processes?: { readonly count: number; readonly max: number };
}
