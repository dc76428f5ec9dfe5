/** What the worker runs for a key. It knows no session, so that the function of a user controller has no code of the built-in ones. */
import type { DoneResult } from "@deltaloop/store/ports";
import type { OwnRun, SyncPorts, SyncResult } from "../run.ts";

/** How a run ended. */
export interface SyncEnd {
  readonly result: SyncResult;
  /** The result, if the Store already has it (WQ8). */
  readonly done?: DoneResult;
}

/** The run's write gateway admits what the registry entry allows. It may throw: the key is then retried with back-off. */
export type RunSync = (ports: SyncPorts, run: OwnRun) => Promise<SyncEnd>;

/** How the keys of one controller are synced. */
export interface KeySync {
  readonly run: RunSync;
  /** Runs instead after a crashed run. Absent for a controller without intents, whose `run` may follow anything. */
  readonly recover?: RunSync;
  /** A key that has failed this often is dropped at its next failure. If absent, the key is never dropped. */
  readonly maxRetries?: number;
}
