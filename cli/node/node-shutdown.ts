/** Options of `deltaloop node` for the shutdown of the machine. */
import type { Command } from "commander";
import { shutdownGracePeriods, shutdownMistakes } from "@deltaloop/node-agent/kubelet";
import type { ShutdownSettings, ShutdownGracePeriod } from "@deltaloop/node-agent/kubelet";
import { UsageError } from "@deltaloop/base";
import { durationOption } from "./duration-option.ts";

/** Options as commander parses them. */
export interface ShutdownFlags {
  /** Whole grace period in milliseconds; `criticalMs` of it are for critical pods. */
  readonly shutdownGracePeriod: number;
  readonly shutdownGracePeriodCriticalPods: number;
  readonly shutdownGracePeriodByPodPriority: readonly ShutdownGracePeriod[];
}

const INT32_MAX = 2 ** 31 - 1;
const PERIOD = /^\s*(-?\d+)=(\d+)\s*$/u;

/** The kubelet has no such flags; each option has the name of the field of KubeletConfiguration. */
export function addShutdownFlags(command: Command): Command {
  return command
    .optionsGroup("Shutdown of the machine:")
    .addOption(durationOption("--shutdown-grace-period", "time that a shutdown waits for pods; 0s for none", 0))
    .addOption(durationOption("--shutdown-grace-period-critical-pods", "part of it that is reserved for critical pods", 0))
    .option(
      "--shutdown-grace-period-by-pod-priority <list>",
      "replaces both: seconds by lowest pod priority, such as 0=60,100000=20,2000000000=10",
      periods,
      [],
    );
}

export function shutdownSettings(flags: ShutdownFlags): ShutdownSettings {
  const { shutdownGracePeriod: totalMs, shutdownGracePeriodCriticalPods: criticalMs, shutdownGracePeriodByPodPriority: byPriority } = flags;
  return { totalMs, criticalMs, byPriority };
}

/** Validates the options for the shutdown. @throws {UsageError} with upstream's message */
export function shutdownOf(flags: ShutdownFlags): readonly ShutdownGracePeriod[] {
  const settings = shutdownSettings(flags);
  const mistakes = shutdownMistakes(settings);
  if (mistakes.length > 0) throw new UsageError(mistakes.join("\n"));
  return shutdownGracePeriods(settings);
}

function periods(text: string): readonly ShutdownGracePeriod[] {
  if (text.trim() === "") return [];
  return text.split(",").map((one) => {
    const [priority, seconds] = (PERIOD.exec(one) ?? []).slice(1).map(Number);
    if (priority === undefined || seconds === undefined || Math.abs(priority) > INT32_MAX || seconds > INT32_MAX)
      throw new UsageError(`--shutdown-grace-period-by-pod-priority takes PRIORITY=SECONDS, not "${one}"`);
    return { priority, seconds };
  });
}
