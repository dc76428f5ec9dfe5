/** Losses and substitutions of an import. Messages never quote a value of a file. */
export class ImportReport {
  readonly #lost = new Map<string, number>();
  readonly #invented = new Map<string, number>();
  readonly #lacking = new Set<string>();

  /** Records that the imported format does not contain `what`. */
  lacks(what: string): void {
    this.#lacking.add(what);
  }

  lost(what: string, count = 1): void {
    add(this.#lost, what, count);
  }

  invented(what: string, count = 1): void {
    add(this.#invented, what, count);
  }

  /** For example `not in it: …` and `lost: 3 times, a pod's binding: …`, in order of first occurrence. */
  lines(): readonly string[] {
    return [
      ...[...this.#lacking].map((what) => `not in it: ${what}`),
      ...counted("lost", this.#lost),
      ...counted("invented", this.#invented),
    ];
  }
}

function add(counts: Map<string, number>, what: string, count: number): void {
  if (count > 0) counts.set(what, (counts.get(what) ?? 0) + count);
}

function counted(how: string, counts: ReadonlyMap<string, number>): readonly string[] {
  return [...counts].map(([what, count]) => `${how}: ${count === 1 ? "once" : `${count} times`}, ${what}`);
}
