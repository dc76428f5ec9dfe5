/** Folds what a key decides word for word as the time before: until the stream brings the answer to a write, each sync decides it again. */
export class Repeats {
  /** By key: what it decided last, how often since it was shown, and when for the last time. */
  readonly #last = new Map<string, { readonly text: string; times: number; until: string }>();

  /** @returns whether this is to be shown, and what must be said before it of what was not */
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

  /** What was never said, by key. */
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
