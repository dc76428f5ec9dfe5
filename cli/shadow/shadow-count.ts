/** Counts upstream's writes by verdict, as text and as numbers. */
import { CONTROLLERS } from "@deltaloop/kube/objects";
import type { Verdict, Finding } from "@deltaloop/replay/shadow";
import type { Metrics } from "@deltaloop/base/metrics";

export const VERDICTS: { readonly [K in Verdict["kind"]]: string } = {
  exact: "same write as deltaloop's",
  older: "same write as deltaloop's, on a state up to 3 s older (cache lag)",
  tie: "deletions of another pod of equal rank",
  foreign: "deletions or releases that deltaloop would not make, by an unidentified client (such as a user or the garbage collector)",
  excess: "pod creations or deletions of which deltaloop would have made more",
  unexplained: "different",
};

export class ShadowCount {
  readonly #metrics: Metrics | undefined;
  readonly #writes: { -readonly [K in Verdict["kind"]]: number } = { exact: 0, older: 0, tie: 0, foreign: 0, excess: 0, unexplained: 0 };
  #rests = 0;
  #atRest = 0;

  constructor(metrics?: Metrics) {
    this.#metrics = metrics;
    // Initialises the counter with 0, so that the metric exists even if there is no difference.
    metrics?.count("deltaloop_shadow_at_rest_total", {}, 0);
    for (const controller of CONTROLLERS)
      for (const verdict of ["excess", "unexplained"] as const) metrics?.count("deltaloop_shadow_writes_total", { controller, verdict }, 0);
  }

  take(finding: Finding): void {
    if (finding.kind === "write") {
      const { kind: verdict } = finding.verdict;
      this.#writes[verdict]++;
      this.#metrics?.count("deltaloop_shadow_writes_total", { controller: finding.write.controller, verdict });
    } else {
      this.#rests++;
      this.#atRest += finding.ours.length;
      this.#metrics?.count("deltaloop_shadow_at_rest_total", {}, finding.ours.length);
    }
  }

  /** Whether deltaloop's controllers differ from upstream's in any write. */
  get differs(): boolean {
    return this.#writes.unexplained > 0 || this.#writes.excess > 0 || this.#atRest > 0;
  }

  summary(): object {
    return { writes: this.#writes, rests: this.#rests, writesOfOursAtRest: this.#atRest };
  }

  lines(): string {
    const kinds = (Object.keys(VERDICTS) as Verdict["kind"][]).filter((kind) => this.#writes[kind] > 0 || kind === "unexplained"); // the object literal has exactly these keys
    const total = Object.values(this.#writes).reduce((sum, count) => sum + count, 0);
    const lines = [
      `${total} ${total === 1 ? "write" : "writes"} of upstream's controllers:`,
      ...kinds.map((kind) => `${String(this.#writes[kind]).padStart(6)}  ${VERDICTS[kind]}`),
      this.#rests === 0
        ? "Upstream was never idle for a second."
        : `Upstream was idle ${this.#rests === 1 ? "once" : `${this.#rests} times`}; deltaloop would have written ${this.#atRest === 0 ? "nothing" : `${this.#atRest} times`} then.`,
    ];
    return `${lines.join("\n")}\n`;
  }
}
