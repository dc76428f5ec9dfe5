/** Resources reserved by command-line flags (node-agent §14.3). */
import { parseQuantity, quantityNanos } from "@deltaloop/kube/quantity";
import type { Reserved } from "../types/node-options.ts";

const FIELDS = {
  cpu: "cpuMilli",
  memory: "memoryBytes",
  "ephemeral-storage": "ephemeralStorageBytes",
  pid: "pids",
} as const satisfies Readonly<Record<string, keyof Reserved>>;
const NANOS = { cpuMilli: 1_000_000n, memoryBytes: 10n ** 9n, ephemeralStorageBytes: 10n ** 9n, pids: 10n ** 9n } as const;

/** An invalid reservation; the message names the problem. */
export class ReservedError extends Error {
  override readonly name = "ReservedError";
}

/**
 * Parses a reservation; the last of several values for one resource applies. CPU is rounded to the nearest millicore, other resources are
 * rounded up.
 *
 *     cpu=200m,memory=500Mi,pid=1000 → { cpuMilli: 200, memoryBytes: 524288000, pids: 1000 }
 *     cpu=1400u                      → { cpuMilli: 1 }
 *
 * Source: cmd/kubelet/app/server.go parseResourceList. @throws {ReservedError}
 */
export function parseReserved(text: string): Reserved {
  const pairs = text.split(",").filter((pair) => pair.trim() !== "");
  return Object.fromEntries(
    pairs.map((pair) => {
      const [name = "", value] = pair.split("=", 2).map((part) => part.trim());
      if (value === undefined) throw new ReservedError(`"${pair}" is not of the form resource=amount`);
      if (!isField(name)) throw new ReservedError(`cannot reserve "${name}" resource`);
      const quantity = parseQuantity(value);
      if (quantity === undefined) throw new ReservedError(`failed to parse quantity "${value}" for "${name}" resource`);
      const nanos = quantityNanos(quantity);
      if (nanos < 0n) throw new ReservedError(`resource quantity for "${name}" cannot be negative: ${value}`);
      const unit = NANOS[FIELDS[name]];
      if (name === "cpu") return [FIELDS[name], Number(((nanos + 999n) / 1000n + 500n) / 1000n)]; // rounds up to microcores first
      return [FIELDS[name], Number((nanos + unit - 1n) / unit)];
    }),
  );
}

/** The sum of two reservations. */
export function together(a: Reserved, b: Reserved): Reserved {
  const fields = Object.values(FIELDS).filter((field) => a[field] !== undefined || b[field] !== undefined);
  return Object.fromEntries(fields.map((field) => [field, (a[field] ?? 0) + (b[field] ?? 0)]));
}

function isField(name: string): name is keyof typeof FIELDS {
  return Object.hasOwn(FIELDS, name);
}
