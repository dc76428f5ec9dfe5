/** The Warning header of a response. Source: apiserver/pkg/endpoints/filters/warning.go, apimachinery/pkg/util/net/http.go (NewWarningHeader). */

const TEXTS_LENGTH_MAX = 4_096;
const TRUNCATED_LENGTH = 256;

/** @returns undefined without a warning */
export function warningHeader(texts: readonly string[]): string | undefined {
  const distinct = [...new Set(texts)];
  if (distinct.length === 0) return undefined;
  const length = distinct.reduce((sum, text) => sum + text.length, 0);
  return (length <= TEXTS_LENGTH_MAX ? distinct : truncated(distinct)).map((text) => `299 - ${JSON.stringify(text)}`).join(", ");
}

/** The start of each, until the header is full. */
function truncated(texts: readonly string[]): string[] {
  const kept: string[] = [];
  let length = 0;
  for (const text of texts) {
    if (length >= TEXTS_LENGTH_MAX) break;
    const start = text.slice(0, TRUNCATED_LENGTH);
    kept.push(start);
    length += start.length;
  }
  return kept;
}
