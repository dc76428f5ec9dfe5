/** Capabilities of the terminal, and progress on standard error. */
/** Whether `out` understands cursor codes. */
export function movesCursor(out: NodeJS.WriteStream): boolean {
  return out.isTTY && process.env["TERM"] !== "dumb";
}

/** Limits the text to `width` columns; the last one is "…" if text was cut off. */
export function shortened(text: string, width: number): string {
  const characters = Array.from(text);
  return characters.length <= width ? text : `${characters.slice(0, Math.max(0, width - 1)).join("")}…`;
}

const PROGRESS_AFTER_MS = 1_000;
const CLEAR_LINE = "\r\x1b[K";

/** Prints `what` on standard error while `work` runs, if it takes over a second and standard error is a terminal. */
export async function withProgress<T>(what: string, work: Promise<T>): Promise<T> {
  const out = process.stderr;
  const startMs = performance.now();
  let isShown = false;
  const show = (): void => {
    const seconds = Math.floor((performance.now() - startMs) / 1000);
    if (movesCursor(out)) out.write(`${CLEAR_LINE}${shortened(`${what}… ${seconds}s`, out.columns - 1)}`);
    else if (out.isTTY && !isShown) out.write(`${what}…\n`);
    isShown = true;
  };
  const timer = setInterval(show, PROGRESS_AFTER_MS).unref();
  try {
    return await work;
  } finally {
    clearInterval(timer);
    if (isShown && movesCursor(out)) out.write(CLEAR_LINE);
  }
}
