/** Finds when a capture first and last shows each cause: computes verdicts at moments of the recording, while it is read. */
import type { CaptureRecord, Census } from "@deltaloop/replay/capture";
import { worstFirst } from "@deltaloop/replay/explain";
import type { Explained, StateCensus, Verdict } from "@deltaloop/replay/explain";

export interface TimedFinding {
  readonly subject: Verdict["subject"];
  readonly finding: Explained;
  readonly fromMs: number;
  /** The last moment at which the verdict showed it. */
  lastMs: number;
}

const SAMPLE_MS = 1_000;
/** Number of verdicts to compute while the elapsed time doubles: fewer if there are many objects, because a verdict on them takes long. */
const [DENSE, SPARSE, MANY_OBJECTS] = [30, 4, 500];

/** Must observe each record after the state does. */
export class FindingTimes implements Census {
  readonly #state: StateCensus;
  #startMs = Infinity;
  #nextMs = Infinity;
  readonly #found = new Map<string, TimedFinding>();

  constructor(state: StateCensus) {
    this.#state = state;
  }

  begin(): void {
    [this.#startMs, this.#nextMs] = [Infinity, Infinity];
    this.#found.clear();
  }

  see({ atMs }: CaptureRecord): void {
    if (this.#startMs === Infinity) [this.#startMs, this.#nextMs] = [atMs, atMs + SAMPLE_MS];
    if (atMs < this.#nextMs) return;
    const state = this.#state.state({ nowMs: atMs });
    const density = state.pods.length + state.owners.length > MANY_OBJECTS ? SPARSE : DENSE;
    this.#nextMs = atMs + Math.max(SAMPLE_MS, (atMs - this.#startMs) / density);
    this.note(worstFirst(state), atMs);
  }

  /** Records the findings at a moment. Must also be called for the last moment. */
  note(verdicts: readonly Verdict[], atMs: number): void {
    for (const { subject, findings } of verdicts)
      for (const finding of findings) {
        const id = idOf(subject, finding);
        const known = this.#found.get(id);
        if (known !== undefined) known.lastMs = atMs;
        // Evidence is read ahead of the moment, so a finding may be later than the moment.
        else this.#found.set(id, { subject, finding, fromMs: finding.since ?? atMs, lastMs: atMs });
      }
  }

  /** Causes that the latest verdicts no longer show. */
  over(verdicts: readonly Verdict[]): readonly TimedFinding[] {
    const current = new Set(verdicts.flatMap(({ subject, findings }) => findings.map((each) => idOf(subject, each))));
    return [...this.#found].flatMap(([id, each]) => (current.has(id) || each.finding.level !== "cause" ? [] : [each]));
  }

  fromMs(subject: Verdict["subject"], finding: Explained): number | undefined {
    return this.#found.get(idOf(subject, finding))?.fromMs;
  }
}

function idOf({ resource, namespace, name }: Verdict["subject"], { words }: Explained): string {
  return `${resource} ${namespace}/${name} ${words.cause}`;
}
