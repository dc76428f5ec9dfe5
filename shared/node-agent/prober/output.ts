/** Limits the output of a probe for its Event. */

/** Source: pkg/probe/http/http.go maxRespBodyLength, pkg/probe/exec/exec.go maxReadLength. */
export const BYTES_MAX = 10 * 1024;

/** Truncates to 10 KiB at a character boundary. */
export function cut(text: string): string {
  return text.slice(0, new TextEncoder().encodeInto(text, new Uint8Array(BYTES_MAX)).read);
}
