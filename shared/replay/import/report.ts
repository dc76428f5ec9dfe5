/** What an import could not take over, and what it had to make up. Sentences are ours alone: no value of a file stands in one. */
export class ImportReport {
  readonly #lost = new Map<string, number>();
  readonly #invented = new Map<string, number>();

  lost(what: string, count = 1): void {
    add(this.#lost, what, count);
  }

  invented(what: string, count = 1): void {
    add(this.#invented, what, count);
  }

  /** As `lost: 3 times, a pod's binding: …`, in the order in which they were first seen. */
  lines(): readonly string[] {
    return [...told("lost", this.#lost), ...told("invented", this.#invented)];
  }
}

function add(counts: Map<string, number>, what: string, count: number): void {
  if (count > 0) counts.set(what, (counts.get(what) ?? 0) + count);
}

function told(how: string, counts: ReadonlyMap<string, number>): readonly string[] {
  return [...counts].map(([what, count]) => `${how}: ${count === 1 ? "once" : `${count} times`}, ${what}`);
}
