/** Independent item counters (TY1), computed only from calls and results. */
import type { ApplyResult, Ended, ItemChange, LaneTally, PackHeader } from "../../shared/store/ports/store.ts";
import { FATES } from "../../shared/store/ports/tallies.ts";

/** Lanes whose item counts do not add up to the number received, as text. */
export function unbalanced(tallies: Iterable<LaneTally>): readonly string[] {
  return [...tallies].flatMap(({ resource, lane, received, fates }) => {
    const sum = FATES.reduce((all, fate) => all + fates[fate], 0);
    return sum === received ? [] : [`${resource} lane ${lane}: received ${received}, and ${sum} came to an end: ${JSON.stringify(fates)}`];
  });
}

/** Counts by `resource:lane fate`, without zeros. */
export function countsOf(tallies: Iterable<LaneTally>): Readonly<Record<string, number>> {
  const all = [...tallies].flatMap(({ resource, lane, fates }) =>
    FATES.map((fate) => [`${resource}:${lane} ${fate}`, fates[fate]] as const),
  );
  return Object.fromEntries(all.filter(([, count]) => count > 0));
}

export class Witness {
  readonly counts: Record<string, number> = {};

  /** A call that the Store has executed. */
  heard(verb: string | symbol, parameters: readonly unknown[], answer: unknown): void {
    // Parameters and answers of the listed verbs.
    if (verb === "applyPack")
      this.#applied(parameters[0] as PackHeader, (parameters[1] as readonly ItemChange[]).length, answer as ApplyResult);
    if (verb === "applyManifest" && (answer as ApplyResult).kind === "applied")
      this.#applied(
        parameters[0] as PackHeader,
        (parameters[1] as { readonly sweep: readonly unknown[] }).sweep.length,
        answer as ApplyResult,
      );
    if (verb === "quarantine" && parameters[1] !== undefined) {
      const { resource = "unknown", lane = 0, fate, items } = parameters[1] as Ended;
      this.#add(`${resource}:${lane} ${fate}`, items);
    }
  }

  #applied({ resource, lane }: PackHeader, items: number, answer: ApplyResult): void {
    const place = `${resource}:${lane}`;
    switch (answer.kind) {
      case "duplicate":
        return this.#add(`${place} duplicate`, items);
      case "dropped":
        return this.#add(`${place} ${answer.why === "fence" ? "fenced" : "otherEpoch"}`, items);
      case "applied":
      case "retry": {
        // Items that a full Store left out have not ended (FU2).
        const left = answer.outcomes.filter((outcome) => outcome === "full").length;
        const ended = (answer.kind === "retry" ? answer.index : items) - left;
        const applied = answer.outcomes.filter((outcome) => outcome === "changed").length;
        this.#add(`${place} applied`, applied);
        return this.#add(`${place} superseded`, ended - applied);
      }
      default: // redelivered
    }
  }

  #add(id: string, items: number): void {
    if (items > 0) this.counts[id] = (this.counts[id] ?? 0) + items;
  }
}
