/**
 * systemd-logind: shutdown notifications and inhibitor locks (node-agent §14.8), as in org.freedesktop.login1(5).
 *
 * LD1 `watchShutdown` reports the current state first, then each change in order, and misses none. It rejects when the connection is
 *    lost, and resolves when `signal` aborts.
 * LD2 a shutdown waits at most `inhibitDelayMs` while a lock is held. The lock is held until `release` or the end of this process;
 *    `lost` resolves when it is no longer held.
 * LD3 an overridden delay may take a moment to apply.
 */
export interface Logind {
  inhibitDelayMs(): Promise<number>;
  overrideInhibitDelay(ms: number): Promise<void>;
  /** Takes a lock. @throws also during a shutdown */
  inhibitShutdown(): Promise<InhibitLock>;
  watchShutdown(onChange: (isShuttingDown: boolean) => void, signal: AbortSignal): Promise<void>;
}

export interface InhibitLock {
  readonly lost: Promise<void>;
  /** May be repeated. */
  release(): Promise<void>;
}
