/**
 * A volume that could not be made, or taken away, is tried again after 0.5 s, then 1 s, up to 122 s, each by itself (node-agent §10):
 * what is asked of the API server for a pod that is new, such as a token, is often refused at first.
 */
import { KubeApiError, NotSentError, UnansweredError } from "@deltaloop/kube/client";
import { NodeFilesError } from "../../ports/node-files.ts";
import { nextVolumeBackOff } from "../pod-workers/back-off.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { earliestRetryMs, StepError, STEP_WAIT_MS } from "../node-ports/operations.ts";
import { VolumeError } from "./downward-api.ts";
import type { FencedUpdate } from "../pod-workers/update-worker.ts";

/** It failed, with a cause, or failed a short while ago and was not tried. */
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

/** @param volume its name; absent: all of the pod's at once. @throws {VolumeRetryError} and what is a bug of ours */
export async function withVolumeBackOff<T>(
  ports: Pick<NodePorts, "store" | "clock">,
  { uid, update, volume = "" }: { readonly uid: string; readonly update: FencedUpdate; readonly volume?: string },
  act: () => Promise<T>,
): Promise<T> {
  const { store, clock } = ports;
  const key = `${uid}/volumes/${volume}`;
  const entry = await store.read("backOffs", key);
  const untilMs = entry === undefined ? 0 : entry.lastUpdateMs + entry.delayMs;
  if (clock.now() < untilMs) throw new VolumeRetryError("it failed, and waits to be tried again", untilMs);
  let value: T;
  try {
    value = await act();
  } catch (cause) {
    if (!isExpected(cause)) throw cause;
    const next = nextVolumeBackOff(entry, clock.now());
    await update("backOffs", key, () => next);
    throw new VolumeRetryError(cause.message, next.lastUpdateMs + next.delayMs, cause);
  }
  if (entry !== undefined) await update("backOffs", key, () => undefined);
  return value;
}

/** Again and again, as long as the next try comes within a turn. @throws {Pause} when the turn is cancelled */
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

/** What users put right, or what goes away by itself; the rest is a bug of ours. */
function isExpected(error: unknown): error is Error {
  return (
    error instanceof VolumeError ||
    error instanceof NodeFilesError ||
    error instanceof KubeApiError ||
    error instanceof UnansweredError ||
    error instanceof NotSentError
  );
}
