/** Runs one seed of a level, for the command and its worker threads. */
import { messageOf } from "../../shared/kube/objects/errors.ts";
import type { ChosenFault } from "./losses.ts";
import type { Rule } from "./rules.ts";

export const LEVELS = ["system", "protocol", "node", "crashes", "own", "directed", "clusters"] as const;
export type Level = (typeof LEVELS)[number];

const SINGLE_RUNS = {
  node: async () => (await import("./node/simulate-node.ts")).simulateNode,
  crashes: async () => (await import("./crashes/life.ts")).liveRandomly,
  own: async () => (await import("./own/simulate-own.ts")).simulateOwn,
};

export interface SeedSettings {
  readonly level: Level;
  readonly off: ReadonlySet<Rule>;
  readonly fault: ChosenFault | undefined;
  /** Lanes grow, at the system level. */
  readonly grows: boolean;
}

export interface SeedResult {
  readonly seed: number;
  /** The drawn faults. */
  readonly mix?: string;
  readonly violations: readonly { readonly rule: string; readonly what: string }[];
  /** The first violation with the last steps before it. */
  readonly lines?: readonly string[];
  readonly stats: Readonly<Record<string, number>>;
}

/** Loads only the code of the level, because each thread loads it. */
export async function runSeed(
  { level, off, fault, grows }: SeedSettings,
  seed: number,
  trace?: (line: string) => void,
): Promise<SeedResult> {
  switch (level) {
    case "system": {
      const { simulate } = await import("./world.ts");
      const { mix, violations, stats } = await simulate({ seed, off, grows, ...(fault && { fault }), ...(trace && { trace }) });
      return { seed, mix, stats, violations: violations.map(({ rule, atMs, what }) => ({ rule, what: `at ${atMs / 1000} s: ${what}` })) };
    }
    case "clusters": {
      const { simulateClusters } = await import("./clusters/simulate-clusters.ts");
      const { mix, violations, stats } = await simulateClusters({ seed, ...(trace && { trace }) });
      return { seed, mix, stats, violations: violations.map(({ rule, atMs, what }) => ({ rule, what: `at ${atMs / 1000} s: ${what}` })) };
    }
    case "protocol": {
      const { describeFailure, runProtocol } = await import("./protocol/run-protocol.ts");
      const { failed, stats } = await runProtocol({ first: seed, last: seed, off });
      const [first] = failed;
      const violations = failed.map(({ rule, what }) => ({ rule, what: what.split("\n")[0] ?? "" }));
      return { seed, stats, violations, ...(first && { lines: await describeFailure(first, off) }) };
    }
    case "node":
    case "crashes":
    case "own":
      try {
        const run = await SINGLE_RUNS[level]();
        const { stats } = await run(seed, trace);
        return { seed, violations: [], stats };
      } catch (error) {
        return { seed, violations: [{ rule: level, what: messageOf(error) }], stats: {} };
      }
    case "directed":
      return await (await import("./directed/directed.ts")).runDirected(seed, off, trace);
    default:
      return level satisfies never;
  }
}
