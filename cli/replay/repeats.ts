/** Folds the repeated decisions of a key: until the response to a write is recorded, each sync decides the same. */
export class Repeats {
  /** The last decision of each key, its repeats since it was printed, and the time of the last repeat. */
  readonly #last = new Map<string, { readonly text: string; times: number; until: string }>();

  /** Returns whether to print a decision, and the text about the folded decisions before it. */
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

  /** Returns the decisions that are folded at the end, by key. */
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
