/** Faults that only protocol seeds have. They use their own random numbers, so that the rest of a seed equals the schedule on Redis. */
import type { Random } from "../../../shared/base/random.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";

const JUMP_MS_MAX = 5 * 60_000;

export const PROTOCOL_FAULTS = ["clock jumps", "restores", "messages of an old build", "doorbells of an old build"] as const;
export type ProtocolFault = (typeof PROTOCOL_FAULTS)[number];

/** The probability of each fault per step, and the share of seeds that have it. */
const FAULTS: readonly { readonly fault: ProtocolFault; readonly perStep: number; readonly seeds: number }[] = [
  { fault: "clock jumps", perStep: 0.03, seeds: 0.25 },
  { fault: "restores", perStep: 0.01, seeds: 0.15 },
  { fault: "messages of an old build", perStep: 0.05, seeds: 0.15 },
  { fault: "doorbells of an old build", perStep: 0.05, seeds: 0.15 },
];

export class ProtocolFaults {
  readonly #random: Random;
  readonly #drawn: typeof FAULTS;

  constructor(seed: number) {
    this.#random = createSeededRandom(seed * 104_729 + 3);
    this.#drawn = FAULTS.filter(({ seeds }) => this.#random.next() < seeds);
  }

  /** Draws the faults of one step: of those that the seed has, and of `also`. */
  step(also: ReadonlySet<string>): readonly ProtocolFault[] {
    const added = FAULTS.filter((each) => also.has(each.fault) && !this.#drawn.includes(each));
    return [...this.#drawn, ...added].filter(({ perStep }) => this.#random.next() < perStep).map(({ fault }) => fault);
  }

  jumpMs(): number {
    return Math.round((this.#random.next() * 2 - 1) * JUMP_MS_MAX);
  }
}
