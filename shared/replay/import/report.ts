/** What an import could not take over, and what it had to make up. Sentences are ours alone: no value of a file stands in one. */
export class ImportReport {
  readonly #lost = new Map<string, number>();
  readonly #invented = new Map<string, number>();
  readonly #lacking = new Set<string>();

  /** What a format never holds. */
  lacks(what: string): void {
    this.#lacking.add(what);
  }

  lost(what: string, count = 1): void {
    add(this.#lost, what, count);
  }

  invented(what: string, count = 1): void {
    add(this.#invented, what, count);
  }

  /** As `not in it: …` and `lost: 3 times, a pod's binding: …`, in the order in which they were first seen. */
  lines(): readonly string[] {
    return [...[...this.#lacking].map((what) => `not in it: ${what}`), ...told("lost", this.#lost), ...told("invented", this.#invented)];
  }
}

function add(counts: Map<string, number>, what: string, count: number): void {
  if (count > 0) counts.set(what, (counts.get(what) ?? 0) + count);
}

function told(how: string, counts: ReadonlyMap<string, number>): readonly string[] {
  return [...counts].map(([what, count]) => `${how}: ${count === 1 ? "once" : `${count} times`}, ${what}`);
}
