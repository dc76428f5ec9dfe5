/** Protocol seeds, one after another: schedules of the product's applier, cache and work queue on the memory Store. */
import { INVARIANTS } from "../invariants.ts";
import type { InvariantId } from "../invariants.ts";
import { withoutRules } from "../rules.ts";
import type { Rule } from "../rules.ts";
import { runSchedule } from "../schedules/schedule.ts";
import { NO_VARIANT, scheduleNameOf } from "../schedules/variant.ts";
import type { Variant } from "../schedules/variant.ts";
import { createMemoryGround } from "./memory-ground.ts";

export interface ProtocolOptions {
  readonly first: number;
  readonly last: number;
  readonly off?: ReadonlySet<Rule>;
  /** Stops after the first failed seed. */
  readonly stop?: boolean;
}

export interface FailedSeed {
  readonly seed: number;
  readonly rule: InvariantId;
  readonly what: string;
  /** Absent: the seed's own schedule. */
  readonly variant?: Variant;
}

export interface ProtocolResult {
  readonly ran: number;
  readonly failed: readonly FailedSeed[];
  readonly stats: Readonly<Record<string, number>>;
}

export async function runProtocol({ first, last, off, stop = false }: ProtocolOptions): Promise<ProtocolResult> {
  const failed: FailedSeed[] = [];
  const stats: Record<string, number> = {};
  let ran = 0;
  for (let seed = first; seed <= last && !(stop && failed.length > 0); seed++, ran++) {
    const ground = createMemoryGround(off && ((store, data) => withoutRules(store, data, off)));
    const result = await runSchedule({ ground, seed, faults: true });
    failed.push(...result.violations.map((violation) => ({ seed, ...violation })));
    for (const [name, count] of Object.entries(result.stats)) stats[name] = (stats[name] ?? 0) + count;
  }
  return { ran, failed, stats };
}

const TRACE_LINES_MAX = 30;

/** Describes a failed seed in at most 40 lines: the violation, the command that repeats it, and the last steps. */
export async function describeFailure(
  { seed, rule, what, variant = NO_VARIANT }: FailedSeed,
  off?: ReadonlySet<Rule>,
): Promise<readonly string[]> {
  const lines: string[] = [];
  const ground = createMemoryGround(off && ((store, data) => withoutRules(store, data, off)));
  await runSchedule({ ground, seed, variant, faults: true, trace: (line) => lines.push(line.split("\n")[0] ?? "") });
  const at = lines.findIndex((line) => line.includes(`!! ${rule} `));
  const { says, source } = INVARIANTS[rule];
  const name = scheduleNameOf({ seed, variant });
  const again = variant === NO_VARIANT ? `--seed ${seed}` : `--schedule '${name}'`;
  return [
    `${variant === NO_VARIANT ? `seed ${seed}` : name}: ${rule}: ${what.split("\n")[0] ?? ""}`,
    `  ${says} (${source})`,
    `  again: npm run sim -- --protocol ${again}${off && off.size > 0 ? ` --off ${[...off].join(",")}` : ""}`,
    ...lines.slice(Math.max(0, at + 1 - TRACE_LINES_MAX), at + 1).map((line) => `  ${line}`),
  ];
}
