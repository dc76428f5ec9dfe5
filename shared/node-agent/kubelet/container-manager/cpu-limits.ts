/** Converts CPU amounts to the kernel's shares and quotas (node-agent §7.6). */

export const SHARES_MAX = 262_144;

const SHARES_PER_CPU = 1024;

const MILLI_PER_CPU = 1000;

/** The CFS period in microseconds. */
export const QUOTA_PERIOD = 100_000;

/** The kernel's minimum CFS quota in microseconds. */
const QUOTA_MIN = 1000;

/**
 * Converts millicores to cpu.shares.
 *
 *     0 → 2        10m → 10        500m → 512        1 → 1024        300 → 262144
 *
 * Source: pkg/kubelet/cm/helpers_linux.go MilliCPUToShares.
 */
export function cpuShares(milliCpu: number): number {
  return Math.min(Math.max(Math.trunc((milliCpu * SHARES_PER_CPU) / MILLI_PER_CPU), SHARES_MIN), SHARES_MAX);
}

/**
 * Converts millicores to microseconds per 100 ms period; 0 is unlimited.
 *
 *     0 → 0        1m → 1000 (minimum)        500m → 50000        300 → 30000000
 *
 * Source: pkg/kubelet/cm/helpers_linux.go MilliCPUToQuota.
 */
export function cpuQuota(milliCpu: number): number {
  return milliCpu === 0 ? 0 : Math.max(Math.trunc((milliCpu * QUOTA_PERIOD) / MILLI_PER_CPU), QUOTA_MIN);
}

/** The kernel's minimum for `cpu.shares`. */
export const SHARES_MIN = 2;
