/** Faults of the queue in a replay, by the names that `--faults` takes. */
import type { QueueFaults } from "@deltaloop/store/memory";
import { UsageError } from "@deltaloop/base";

export const FAULTS = {
  reorder: "out of order",
  duplicate: "one of ten twice",
  delay: "one of four up to 1 s late",
  lose: "one delta of fifty lost, followed by a relist",
} as const;

type Fault = keyof typeof FAULTS;

const SHARES: { readonly [F in Fault]: QueueFaults } = {
  reorder: { reorder: 1 / 2 },
  duplicate: { duplicate: 1 / 10 },
  delay: { delay: 1 / 4 },
  lose: { drop: 1 / 50 },
};
const DELAY_MS_MAX = 1000;

/** Parses the names of faults. @throws {UsageError} for an unknown name */
export function faultsIn(list: string): () => QueueFaults {
  const names = list === "none" ? [] : list.split(",").map((name) => name.trim());
  const strange = names.find((name) => !isFault(name));
  if (strange !== undefined)
    throw new UsageError(`--faults takes none, or a comma-separated list of ${Object.keys(FAULTS).join(", ")}; not "${strange}"`);
  const faults = Object.assign({ delayMsMax: DELAY_MS_MAX }, ...names.filter(isFault).map((name) => SHARES[name])) as QueueFaults; // the object literals have this type
  return () => faults;
}

function isFault(name: string): name is Fault {
  return Object.hasOwn(FAULTS, name);
}
