/** Runs one seed of a level, for the command and its worker threads. */
import { messageOf } from "../../shared/kube/objects/errors.ts";
import { liveRandomly } from "./crashes/life.ts";
import { simulateClusters } from "./clusters/simulate-clusters.ts";
import type { ChosenFault } from "./losses.ts";
import { runDirected } from "./directed/directed.ts";
import { simulateNode } from "./node/simulate-node.ts";
import { describeFailure, runProtocol } from "./protocol/run-protocol.ts";
import { simulateOwn } from "./own/simulate-own.ts";
import type { Rule } from "./rules.ts";
import { simulate } from "./world.ts";

export const LEVELS = ["system", "protocol", "node", "crashes", "own", "directed", "clusters"] as const;
export type Level = (typeof LEVELS)[number];

export interface SeedSettings {
  readonly level: Level;
  readonly off: ReadonlySet<Rule>;
  readonly fault: ChosenFault | undefined;
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

export async function runSeed({ level, off, fault }: SeedSettings, seed: number, trace?: (line: string) => void): Promise<SeedResult> {
  switch (level) {
    case "system": {
      const { mix, violations, stats } = await simulate({ seed, off, ...(fault && { fault }), ...(trace && { trace }) });
      return { seed, mix, stats, violations: violations.map(({ rule, atMs, what }) => ({ rule, what: `at ${atMs / 1000} s: ${what}` })) };
    }
    case "clusters": {
      const { mix, violations, stats } = await simulateClusters({ seed, ...(trace && { trace }) });
      return { seed, mix, stats, violations: violations.map(({ rule, atMs, what }) => ({ rule, what: `at ${atMs / 1000} s: ${what}` })) };
    }
    case "protocol": {
      const { failed, stats } = await runProtocol({ first: seed, last: seed, off });
      const [first] = failed;
      const violations = failed.map(({ rule, what }) => ({ rule, what: what.split("\n")[0] ?? "" }));
      return { seed, stats, violations, ...(first && { lines: await describeFailure(first, off) }) };
    }
    case "node":
    case "crashes":
    case "own":
      try {
        const { stats } = await { node: simulateNode, crashes: liveRandomly, own: simulateOwn }[level](seed, trace);
        return { seed, violations: [], stats };
      } catch (error) {
        return { seed, violations: [{ rule: level, what: messageOf(error) }], stats: {} };
      }
    case "directed":
      return await runDirected(seed, off, trace);
    default:
      return level satisfies never;
  }
}
