import type { Judged } from "./life.ts";

/** Formats a difference: the lines that only one side has. */
export function reportOf({ nth, faults, upstream, ours }: Judged): string {
  const lines = [`sync ${nth}${faults.length > 0 ? ` with ${JSON.stringify(faults)}` : ""}`];
  for (const part of ["writes", "events"] as const) {
    for (const line of upstream[part]) if (!ours[part].includes(line)) lines.push(`  upstream: ${line}`);
    for (const line of ours[part]) if (!upstream[part].includes(line)) lines.push(`  ours:     ${line}`);
    const isPermuted = upstream[part].toSorted().join("\n") === ours[part].toSorted().join("\n");
    if (isPermuted && upstream[part].join("\n") !== ours[part].join("\n"))
      lines.push(`  the same ${part} in another order; upstream's: ${upstream[part].join(" | ")}`);
  }
  if (upstream.ending !== ours.ending) lines.push(`  upstream ends ${upstream.ending}, ours ${ours.ending}`);
  return lines.join("\n");
}
