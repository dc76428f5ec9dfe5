/** Stored times of the last shutdown, for metrics after a reboot. Source: pkg/kubelet/nodeshutdown/storage.go. */

/** File name below the root directory; name and format equal the kubelet's. */
export const SHUTDOWN_STATE_FILE = "graceful_node_shutdown_state";

export interface ShutdownState {
  readonly startMs?: number;
  /** Absent if the machine stopped before the grace periods ended. */
  readonly endMs?: number;
}

/** Go's zero time. */
const ZERO_TIME = "0001-01-01T00:00:00Z";

export function writtenShutdownState({ startMs, endMs }: ShutdownState): string {
  const written = (ms: number | undefined): string => (ms === undefined ? ZERO_TIME : new Date(ms).toISOString());
  return JSON.stringify({ startTime: written(startMs), endTime: written(endMs) });
}

/** @throws for invalid JSON */
export function readShutdownState(text: string): ShutdownState {
  const { startTime, endTime } = JSON.parse(text) as { readonly startTime?: unknown; readonly endTime?: unknown }; // checked below
  const [startMs, endMs] = [startTime, endTime].map((time) => (typeof time === "string" ? Date.parse(time) : NaN));
  return { ...(isTime(startMs) && { startMs }), ...(isTime(endMs) && { endMs }) };
}

function isTime(ms: number | undefined): ms is number {
  return ms !== undefined && ms > 0;
}
