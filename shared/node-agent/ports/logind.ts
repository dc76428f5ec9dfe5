/**
 * systemd-logind: shutdown notifications and inhibitor locks (node-agent §14.8), as in org.freedesktop.login1(5).
 *
 * LD1 `watchShutdown` reports the current state first, and then each change, in order and without gaps. It rejects when the connection is
 *    lost, and resolves when `signal` aborts.
 * LD2 while a lock is held, a shutdown is delayed by at most `inhibitDelayMs`. The lock is held until `release` or the end of this process;
 *    `lost` resolves when it is no longer held.
 * LD3 it may take a moment until an overridden delay applies.
 */
export interface Logind {
  inhibitDelayMs(): Promise<number>;
  overrideInhibitDelay(ms: number): Promise<void>;
  /** Takes a lock. @throws if it cannot, for example during a shutdown */
  inhibitShutdown(): Promise<InhibitLock>;
  watchShutdown(onChange: (isShuttingDown: boolean) => void, signal: AbortSignal): Promise<void>;
}

export interface InhibitLock {
  readonly lost: Promise<void>;
  /** Releases the lock. May be repeated. */
  release(): Promise<void>;
}
