/** What an event may hold of a probe's output. */

/** Source: pkg/probe/http/http.go maxRespBodyLength, pkg/probe/exec/exec.go maxReadLength. */
export const BYTES_MAX = 10 * 1024;

/** As many whole characters as 10 KiB hold. */
export function cut(text: string): string {
  return text.slice(0, new TextEncoder().encodeInto(text, new Uint8Array(BYTES_MAX)).read);
}
