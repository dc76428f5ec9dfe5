/** What the whole machine has and uses, as its kernel counts it. */
export interface Machine {
  usage(): Promise<MachineUsage>;
}

export interface MachineUsage {
  readonly memoryBytes: number;
  /** Memory that is in use, without files that nobody has read lately. */
  readonly workingSetBytes: number;
  /** Processes and threads; absent where the kernel does not say. */
  readonly processes?: { readonly count: number; readonly max: number };
}
