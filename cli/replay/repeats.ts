/** Folds the repeated decisions of a key: until the response to a write is recorded, each sync decides the same. */
export class Repeats {
  /** By key: the last decision, its repeats since it was printed, and the time of the last one. */
  readonly #last = new Map<string, { readonly text: string; times: number; until: string }>();

  /** Whether to print a decision, and what to print about the folded ones before it. */
  next(key: string, text: string, when: string): { readonly isNews: boolean; readonly before: string | undefined } {
    const last = this.#last.get(key);
    if (last !== undefined && last.text === text && text !== "") {
      last.times++;
      last.until = when;
      return { isNews: false, before: undefined };
    }
    this.#last.set(key, { text, times: 0, until: when });
    return { isNews: true, before: last && folded(last) };
  }

  /** Folded decisions at the end, by key. */
  rest(): ReadonlyMap<string, string> {
    return new Map(
      [...this.#last].flatMap(([key, last]) => {
        const said = folded(last);
        return said === undefined ? [] : [[key, said] as const];
      }),
    );
  }
}

function folded({ times, until }: { readonly times: number; readonly until: string }): string | undefined {
  if (times === 0) return undefined;
  return times === 1
    ? `its next sync, at ${until.trim()}, decided the same`
    : `its next ${times} syncs, until ${until.trim()}, decided the same`;
}
