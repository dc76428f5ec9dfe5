/** Eviction thresholds and their command-line syntax (node-agent §14.5). */
import { numericQuantity } from "@deltaloop/kube/quantity";

/** Upstream's eviction signals. `allocatableMemory.available` covers the cgroup of all pods. */
export const SIGNALS = [
  "memory.available",
  "allocatableMemory.available",
  "nodefs.available",
  "nodefs.inodesFree",
  "imagefs.available",
  "imagefs.inodesFree",
  "containerfs.available",
  "containerfs.inodesFree",
  "pid.available",
] as const;
export type Signal = (typeof SIGNALS)[number];

/** Starved resource in messages and Events. */
export type StarvedResource = "memory" | "ephemeral-storage" | "inodes" | "pids";
export type PressureCondition = "MemoryPressure" | "DiskPressure" | "PIDPressure";

/** An amount, or a fraction of the capacity as a 32-bit float, as in upstream. */
export type ThresholdValue = { readonly amount: number } | { readonly share: number };

/** A threshold. It is met while less than `value` is available. */
export interface Threshold {
  readonly signal: Signal;
  readonly value: ThresholdValue;
  /** Time for which the threshold must be met before pods are evicted; 0 for a hard threshold. */
  readonly gracePeriodMs: number;
  /** Amount that must become available in addition to `value` before the threshold counts as resolved. */
  readonly minReclaim?: ThresholdValue;
}

export interface EvictionPolicy {
  readonly thresholds: readonly Threshold[];
  /** Maximum grace period of pods in soft evictions. */
  readonly maxPodGracePeriodSeconds: number;
  /** Time for which a condition remains after it was last observed. */
  readonly pressureTransitionMs: number;
}

export type Statements = ReadonlyMap<string, string>;

/** Source: pkg/kubelet/eviction/defaults_linux.go DefaultEvictionHard. */
export const DEFAULT_EVICTION_HARD: Statements = new Map([
  ["memory.available", "100Mi"],
  ["nodefs.available", "10%"],
  ["nodefs.inodesFree", "5%"],
  ["imagefs.available", "15%"],
  ["imagefs.inodesFree", "5%"],
]);

/** The maximum grace period of pods has no upstream default, so it is 0. Source: pkg/kubelet/apis/config/v1beta1/defaults.go. */
export const DEFAULT_EVICTION: EvictionPolicy = {
  thresholds: parseThresholds({ hard: DEFAULT_EVICTION_HARD }),
  maxPodGracePeriodSeconds: 0,
  pressureTransitionMs: 300_000,
};

/** An invalid eviction setting, with upstream's message. */
export class EvictionSettingError extends Error {
  override readonly name = "EvictionSettingError";
}

export function isHard({ gracePeriodMs }: Threshold): boolean {
  return gracePeriodMs === 0;
}

export function resourceOf(signal: Signal): StarvedResource {
  if (signal === "pid.available") return "pids";
  if (signal.endsWith("inodesFree")) return "inodes";
  return signal.startsWith("memory") || signal.startsWith("allocatable") ? "memory" : "ephemeral-storage";
}

export function conditionOfSignal(signal: Signal): PressureCondition {
  const resource = resourceOf(signal);
  if (resource === "memory") return "MemoryPressure";
  return resource === "pids" ? "PIDPressure" : "DiskPressure";
}

/** Returns the threshold as an amount, truncated to an integer. Source: eviction/api/types.go GetThresholdQuantity. */
export function amountOf(value: ThresholdValue, capacity: number): number {
  return "amount" in value ? value.amount : Math.trunc(capacity * value.share);
}

/**
 * Parses `memory.available<1Gi,nodefs.available<10%`; `separator` is `<` for thresholds, and `=` for grace periods and minimum reclaims.
 * Source: component-base/cli/flag/langle_separated_map_string_string.go, map_string_string.go. @throws {EvictionSettingError}
 */
export function parseStatements(text: string, separator: "<" | "="): Statements {
  const pairs = text.split(",").filter((pair) => pair !== "");
  return new Map(
    pairs.map((pair) => {
      const at = pair.indexOf(separator);
      if (at < 0) throw new EvictionSettingError(`malformed pair, expect string${separator}string`);
      return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()];
    }),
  );
}

/** Parses all thresholds. Source: helpers.go ParseThresholdConfig. @throws {EvictionSettingError} */
export function parseThresholds({
  hard,
  soft = new Map(),
  softGracePeriods = new Map(),
  minimumReclaims = new Map(),
  enforcesPods = false,
}: {
  readonly hard: Statements;
  readonly soft?: Statements;
  readonly softGracePeriods?: Statements;
  readonly minimumReclaims?: Statements;
  /** Whether pod limits are enforced (§7.6.1), so that hard memory thresholds also apply to the pods' cgroup. */
  readonly enforcesPods?: boolean;
}): readonly Threshold[] {
  const hardOnes = [...hard].flatMap(([signal, text]) => threshold(signal, text) ?? []);
  const softOnes = [...soft].flatMap(([signal, text]) => threshold(signal, text) ?? []);
  const graces = new Map([...softGracePeriods].map(([signal, text]) => [knownSignal(signal), gracePeriodMs(text)]));
  const reclaims = new Map([...minimumReclaims].map(([signal, text]) => [knownSignal(signal), minimumReclaim(knownSignal(signal), text)]));
  const graced = softOnes.map((one) => {
    const grace = graces.get(one.signal);
    if (grace === undefined) throw new EvictionSettingError(`grace period must be specified for the soft eviction threshold ${one.signal}`);
    return { ...one, gracePeriodMs: grace };
  });
  const all = [...hardOnes, ...graced].map((one) => {
    const minReclaim = reclaims.get(one.signal);
    return minReclaim === undefined ? one : { ...one, minReclaim };
  });
  return enforcesPods ? [...all, ...ofAllocatable(all)] : all;
}

/** Source: helpers.go addAllocatableThresholds. */
function ofAllocatable(thresholds: readonly Threshold[]): readonly Threshold[] {
  const ofMemory = thresholds.filter((one) => one.signal === "memory.available" && isHard(one));
  return ofMemory.map((one) => ({ ...one, signal: "allocatableMemory.available" }));
}

/** Parses one threshold. Returns undefined for `0%` and `100%`, which disable it. */
function threshold(name: string, text: string): Threshold | undefined {
  const signal = knownSignal(name);
  if (!text.endsWith("%")) {
    const amount = quantity(text);
    if (amount <= 0) throw new EvictionSettingError(`eviction threshold ${signal} must be positive: ${text}`);
    return { signal, value: { amount }, gracePeriodMs: 0 };
  }
  if (text === "0%" || text === "100%") return undefined;
  const share = percentage(text);
  if (share < 0) throw new EvictionSettingError(`eviction percentage threshold ${signal} must be >= 0%: ${text}`);
  if (share > 1) throw new EvictionSettingError(`eviction percentage threshold ${signal} must be <= 100%: ${text}`);
  return { signal, value: { share }, gracePeriodMs: 0 };
}

function minimumReclaim(signal: Signal, text: string): ThresholdValue {
  if (text.endsWith("%")) {
    const share = percentage(text);
    if (share <= 0) throw new EvictionSettingError(`eviction percentage minimum reclaim ${signal} must be positive: ${text}`);
    return { share };
  }
  const amount = quantity(text);
  if (amount < 0) throw new EvictionSettingError(`negative eviction minimum reclaim specified for ${signal}`);
  return { amount };
}

function knownSignal(name: string): Signal {
  const signal = SIGNALS.find((one) => one === name);
  if (signal === undefined) throw new EvictionSettingError(`unsupported eviction signal ${name}`);
  return signal;
}

/** Parses a quantity; returns whole units, rounded up as in Quantity.Value. */
function quantity(text: string): number {
  const nanos = numericQuantity(text);
  if (nanos === undefined)
    throw new EvictionSettingError("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
  return Math.ceil(Number(nanos) / 1e9);
}

function percentage(text: string): number {
  const digits = text.replace(/%+$/u, "");
  const value = Number(digits);
  if (digits.trim() === "" || Number.isNaN(value))
    throw new EvictionSettingError(`strconv.ParseFloat: parsing ${JSON.stringify(digits)}: invalid syntax`);
  return Math.fround(Math.fround(value) / 100);
}

const UNIT_MS: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1, us: 1e-3, µs: 1e-3, ns: 1e-6 };

/** Parses a Go duration: `1m30s`, `1.5h`, `0`. */
function gracePeriodMs(text: string): number {
  const [, sign = "", parts = ""] = /^([+-]?)((?:(?:\d+\.?\d*|\.\d+)(?:h|ms|m|s|us|µs|ns))+|0)$/u.exec(text) ?? [];
  if (parts === "") throw new EvictionSettingError(`time: invalid duration ${JSON.stringify(text)}`);
  const sum = [...parts.matchAll(/([\d.]+)(h|ms|m|s|us|µs|ns)/gu)].reduce(
    (ms, [, n, unit = ""]) => ms + Number(n) * (UNIT_MS[unit] ?? 0),
    0,
  );
  if (sign === "-" && sum > 0) throw new EvictionSettingError(`invalid eviction grace period specified: ${text}, must be a positive value`);
  return sum;
}

/** Which of the node's file systems are shared. */
export interface Disks {
  /** Whether images are on a different file system from volumes and logs. */
  readonly hasImageFs: boolean;
  /** Whether writable layers are on the file system of volumes and logs, although images are not. */
  readonly splitsContainerFs: boolean;
}

/**
 * Derives the `containerfs` thresholds from those of `imagefs` or `nodefs`, depending on where containers are stored. Overrides
 * configured `containerfs` thresholds. Source: helpers.go UpdateContainerFsThresholds. Differs from upstream: if the source has no
 * threshold, none is added; upstream adds a threshold of 0, which is never met.
 */
export function withContainerFs(thresholds: readonly Threshold[], { hasImageFs, splitsContainerFs }: Disks): readonly Threshold[] {
  const like = hasImageFs && !splitsContainerFs ? "imagefs" : "nodefs";
  const copies = thresholds.flatMap((one): readonly Threshold[] => {
    if (one.signal === `${like}.available`) return [{ ...one, signal: "containerfs.available" }];
    return one.signal === `${like}.inodesFree` ? [{ ...one, signal: "containerfs.inodesFree" }] : [];
  });
  return [...thresholds.filter(({ signal }) => !signal.startsWith("containerfs.")), ...copies];
}

/** An observation, in bytes or as another count. */
export interface Observation {
  readonly available: number;
  readonly capacity: number;
  /** Time of the measurement; if absent, the time of the call. */
  readonly takenMs?: number;
}
