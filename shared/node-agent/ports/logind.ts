/**
 * Who shuts the machine down, and waits with it for those who asked (node-agent §14.8), as org.freedesktop.login1(5) has it.
 *
 * LD1 `watchShutdown` says first how it is, then each change in order, and misses none in between. It rejects when nothing more can be
 *    heard, and resolves once `signal` aborts.
 * LD2 a shutdown that begins while a lock is held waits for it, `inhibitDelayMs` at most. It is held until `release`, or the end of
 *    this process whatever ends it; `lost` resolves once it is held no more.
 * LD3 what was overridden may take a moment to count.
 */
export interface Logind {
  inhibitDelayMs(): Promise<number>;
  overrideInhibitDelay(ms: number): Promise<void>;
  /** @throws also while a shutdown is under way */
  inhibitShutdown(): Promise<InhibitLock>;
  watchShutdown(tell: (isShuttingDown: boolean) => void, signal: AbortSignal): Promise<void>;
}

export interface InhibitLock {
  readonly lost: Promise<void>;
  /** May be called again. */
  release(): Promise<void>;
}
