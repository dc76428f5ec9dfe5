/** Longer failures of one API server. Calls that are already under way end as they would have. */
import type { Clock } from "../../../shared/base/clock.ts";
import { KubeApiError, UnansweredError } from "../../../shared/kube/client/errors.ts";
import type { Outages } from "../kube.ts";

/** `expired`: every credential is rejected. */
export type Outage = "unreachable" | "slow" | "expired";

const SLOW_MS = 10_000;
const CONNECT_MS = 20;

export class ClusterOutages implements Outages {
  readonly #clock: Clock;
  #now: Outage | undefined;
  #cut = new AbortController();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get cut(): AbortSignal {
    return this.#cut.signal;
  }

  begin(outage: Outage): void {
    this.#now = outage;
    if (outage !== "slow") this.breakStreams();
  }

  end(): void {
    this.#now = undefined;
  }

  breakStreams(): void {
    const before = this.#cut;
    this.#cut = new AbortController();
    before.abort(new UnansweredError("simulated: connection reset"));
  }

  async call(signal: AbortSignal | undefined): Promise<void> {
    switch (this.#now) {
      case undefined:
        return;
      case "unreachable":
        await this.#clock.after(CONNECT_MS, signal);
        throw new UnansweredError("simulated: connection refused");
      case "slow":
        return await this.#clock.after(SLOW_MS, signal);
      case "expired":
        await this.#clock.after(CONNECT_MS, signal);
        throw new KubeApiError({ code: 401, reason: "Unauthorized" });
    }
  }
}
