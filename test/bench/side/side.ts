/**
 * deltaloop's controllers compared with upstream's: `deltaloop dev --act` as it is installed (dist/cli, bundled here), and a
 * kube-controller-manager that runs only the three workload controllers, without client limits. Both use one real control plane whose own
 * three workload controllers are off, and run each row one after the other. `--rows single,rolling` selects rows; `--profile FOLDER` runs
 * only deltaloop, whose processes write CPU profiles there for test/bench/flame.ts; `--before FILE` also runs another version of the command
 * (dist/cli/deltaloop.js of an older checkout), to compare both on one machine.
 *
 * CPU is user and system time of processes. "own" counts what a deployment pays for: functions and watcher, or the controller manager.
 * "Stand-ins" are Redis, dev itself, and the queue, which polls itself as AWS does. Writes are those in the API server's audit log, without
 * Leases. Memory is PSS. rows.ts describes each row.
 */
import { startCluster } from "../../support/e2e.ts";
import { controlPlaneBinaries } from "../../envtest/binaries.ts";
import { ensureRedisServer } from "../../support/redis.ts";
import { benchResult } from "../result.ts";
import type { BenchResult } from "../result.ts";
import { othersAtWork } from "../others.ts";
import { partiesOn } from "./parties.ts";
import type { PartyName } from "./parties.ts";
import { ROWS } from "./rows.ts";
import type { Figures } from "./rows.ts";

/** @throws {Error} with the reason why the benchmark cannot run here, or for an unknown row */
export async function bench(asked: readonly string[] = [], profiles?: string, before?: string): Promise<readonly BenchResult[]> {
  const unknown = asked.filter((name) => !(name in ROWS));
  if (unknown.length > 0) throw new Error(`no row ${unknown.join(", ")}; there are ${Object.keys(ROWS).join(", ")}`);
  const binaries = await controlPlaneBinaries();
  const missing = "missing" in binaries ? binaries.missing : ensureRedisServer();
  if (missing !== undefined) throw new Error(missing);
  const cluster = await startCluster({ machines: false });
  try {
    const parties = await partiesOn(cluster, { profiles, before });
    const figures: Record<PartyName, Figures> = { ours: new Map(), upstream: new Map(), before: new Map() };
    for (const [name, row] of Object.entries(ROWS)) {
      if (asked.length > 0 && !asked.includes(name)) continue;
      for (const party of profiles === undefined ? parties : parties.slice(0, 1)) {
        process.stderr.write(`  ${name}, ${party.name}: ${await othersAtWork()}\n`);
        await row({ cluster, party, figures: figures[party.name] });
      }
    }
    return results(figures);
  } finally {
    await cluster.stop();
  }
}

function results({ ours, upstream, before }: Readonly<Record<PartyName, Figures>>): readonly BenchResult[] {
  return [...ours].flatMap(([title, values]) => {
    const { name, unit } = /^(?<name>.*?)(?:, (?<unit>ms|s|MiB))?$/.exec(title)?.groups ?? {};
    const [what, measure] = [name ?? title, unit ?? "writes"];
    const of = (party: PartyName, figures: Figures): readonly BenchResult[] =>
      figures.has(title) ? [benchResult(`${what}, ${party}`, measure, figures.get(title) ?? [])] : [];
    const [theirs] = of("upstream", upstream);
    const earlier = of("before", before);
    if (theirs === undefined || title.includes("stand-ins")) return [benchResult(what, measure, values), ...earlier];
    return [benchResult(what, measure, values, { name: "upstream in the same run", value: theirs.value }), theirs, ...earlier];
  });
}
