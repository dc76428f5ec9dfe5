/** The last shutdown, as its metrics tell it after the machine has started again. Source: pkg/kubelet/nodeshutdown/storage.go. */

/** Below the root directory; the kubelet's own has this name and form. */
export const SHUTDOWN_STATE_FILE = "graceful_node_shutdown_state";

export interface ShutdownState {
  readonly startMs?: number;
  /** Absent: the pods' time was not over when the machine went. */
  readonly endMs?: number;
}

/** How Go writes a time that there was not. */
const ZERO_TIME = "0001-01-01T00:00:00Z";

export function writtenShutdownState({ startMs, endMs }: ShutdownState): string {
  const written = (ms: number | undefined): string => (ms === undefined ? ZERO_TIME : new Date(ms).toISOString());
  return JSON.stringify({ startTime: written(startMs), endTime: written(endMs) });
}

/** @throws for what is no JSON */
export function readShutdownState(text: string): ShutdownState {
  const { startTime, endTime } = JSON.parse(text) as { readonly startTime?: unknown; readonly endTime?: unknown }; // looked at below
  const [startMs, endMs] = [startTime, endTime].map((time) => (typeof time === "string" ? Date.parse(time) : NaN));
  return { ...(isTime(startMs) && { startMs }), ...(isTime(endMs) && { endMs }) };
}

function isTime(ms: number | undefined): ms is number {
  return ms !== undefined && ms > 0;
}
