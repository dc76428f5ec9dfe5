/** The unreadable parts of an import, and the assumptions made instead. Messages never quote values of a file. */
export class ImportReport {
  readonly #lost = new Map<string, number>();
  readonly #assumed = new Map<string, number>();
  readonly #lacking = new Set<string>();

  /** Records that the imported format does not contain `what`. */
  lacks(what: string): void {
    this.#lacking.add(what);
  }

  lost(what: string, count = 1): void {
    add(this.#lost, what, count);
  }

  assumed(what: string, count = 1): void {
    add(this.#assumed, what, count);
  }

  /** For example `not in the recording: …` and `not imported (3 times): a poll that …`, in order of first occurrence. */
  lines(): readonly string[] {
    return [
      ...[...this.#lacking].map((what) => `not in the recording: ${what}`),
      ...counted("not imported", this.#lost),
      ...counted("assumed", this.#assumed),
    ];
  }
}

function add(counts: Map<string, number>, what: string, count: number): void {
  if (count > 0) counts.set(what, (counts.get(what) ?? 0) + count);
}

function counted(how: string, counts: ReadonlyMap<string, number>): readonly string[] {
  return [...counts].map(([what, count]) => `${how} (${count === 1 ? "once" : `${count} times`}): ${what}`);
}
