/**
 * Retries failed volume operations, with a back-off per volume from 0.5 s to 122 s (node-agent §10). API requests for a new pod, such as
 * token requests, often fail at first.
 */
import { nextVolumeBackOff } from "../pod-workers/back-off.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { earliestRetryMs, StepError, STEP_WAIT_MS } from "../node-ports/operations.ts";
import { isExternalError } from "../node-ports/external-error.ts";
import { VolumeError } from "../types/volume-error.ts";
import type { FencedUpdate } from "../pod-workers/update-worker.ts";

/** An attempt has failed, in which case `cause` is set, or the volume is in back-off. */
export class VolumeRetryError extends StepError {
  override readonly name = "VolumeRetryError";
  override readonly retryAtMs: number;
  override readonly cause: Error | undefined;

  constructor(message: string, retryAtMs: number, cause?: Error) {
    super(message, { retryAtMs, cause });
    this.retryAtMs = retryAtMs;
    this.cause = cause;
  }
}

/** @param volume name of the volume; absent for an operation on all volumes of the pod @throws {VolumeRetryError}; other errors are bugs */
export async function withVolumeBackOff<T>(
  ports: Pick<NodePorts, "store" | "clock">,
  { uid, update, volume = "" }: { readonly uid: string; readonly update: FencedUpdate; readonly volume?: string },
  act: () => Promise<T>,
): Promise<T> {
  const { store, clock } = ports;
  const key = `${uid}/volumes/${volume}`;
  const entry = await store.read("backOffs", key);
  const untilMs = entry === undefined ? 0 : entry.lastUpdateMs + entry.delayMs;
  if (clock.now() < untilMs) throw new VolumeRetryError("waiting to retry after a failure", untilMs);
  let value: T;
  try {
    value = await act();
  } catch (cause) {
    if (!(cause instanceof VolumeError || isExternalError(cause))) throw cause;
    const next = nextVolumeBackOff(entry, clock.now());
    await update("backOffs", key, () => next);
    throw new VolumeRetryError(cause.message, next.lastUpdateMs + next.delayMs, cause);
  }
  if (entry !== undefined) await update("backOffs", key, () => undefined);
  return value;
}

/** Retries while the next attempt is due within this sync. @throws {Pause} if the sync is cancelled */
export async function retriedInSync<T>(
  { clock, operations }: Pick<NodePorts, "clock" | "operations">,
  uid: string,
  act: () => Promise<T>,
): Promise<T> {
  const endMs = clock.now() + STEP_WAIT_MS;
  for (;;) {
    try {
      return await act();
    } catch (error) {
      const retryAtMs = earliestRetryMs(error);
      if (retryAtMs === undefined || retryAtMs > endMs) throw error;
      await operations.rest(uid, Math.max(0, retryAtMs - clock.now()));
    }
  }
}
