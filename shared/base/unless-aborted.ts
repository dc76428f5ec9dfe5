/** Waits for a promise that cannot be cancelled, until `signal` aborts. @throws the signal's reason */
export async function unlessAborted<T>(value: Promise<T> | T, signal: AbortSignal): Promise<T> {
  if (!(value instanceof Promise)) return value;
  let onAbort: (() => void) | undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
  });
  try {
    return await Promise.race([value, aborted]);
  } finally {
    if (onAbort) signal.removeEventListener("abort", onAbort);
  }
}
