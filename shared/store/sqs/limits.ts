/** Limits of one SQS call. Source: SQS quotas (informer §10.2). */
export const BATCH_ENTRIES_MAX = 10;
/** Limit of a message, and of a batch. */
export const BATCH_BYTES_MAX = 1024 * 1024;
export const WAIT_SECONDS_MAX = 20;
/** Timeout of a send, delete or change of visibility; the caller retries. */
export const CALL_TIMEOUT_MS = 5_000;

/** Splits `entries` into batches within the SQS limits, in order. */
export function batches<T>(entries: readonly T[], sizeOf: (entry: T) => number = () => 0): readonly (readonly T[])[] {
  const out: T[][] = [];
  let bytes = 0;
  for (const entry of entries) {
    const size = sizeOf(entry);
    const last = out.at(-1);
    if (last === undefined || last.length === BATCH_ENTRIES_MAX || bytes + size > BATCH_BYTES_MAX) {
      out.push([entry]);
      bytes = size;
    } else {
      last.push(entry);
      bytes += size;
    }
  }
  return out;
}
