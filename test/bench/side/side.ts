/**
 * deltaloop's controllers compared with upstream's: `deltaloop dev --act` as it is installed (dist/cli, bundled here), and a
 * kube-controller-manager that runs only the three workload controllers, without client limits. Both use one real control plane whose own
 * three workload controllers are off. In each of five rounds the systems take turns, each with fresh processes; the next round begins with
 * another system. `--rounds N` sets the number of rounds, `--rows single,rolling` selects rows, which then run in a less warm process.
 * `--before FILE` also runs another version of the command (dist/cli/deltaloop.js of an older checkout). `--profile FOLDER` runs only
 * deltaloop, once; its processes write CPU profiles there for test/bench/flame.ts. `--pieces` accounts for single requests (pieces.ts).
 * All takes 12 minutes, with `--before` 19.
 *
 * CPU is user and system time of functions, watcher, queue and Redis, or of the controller manager. Writes are those in the API server's
 * audit log. Memory is the PSS of functions and watcher. rows.ts describes each row.
 */
import { startCluster } from "../../support/e2e.ts";
import { controlPlaneBinaries } from "../../envtest/binaries.ts";
import { ensureRedisServer } from "../../support/redis.ts";
import type { BenchOptions, BenchResult } from "../result.ts";
import { othersAtWork } from "../others.ts";
import { MEASUREMENTS, Samples } from "./measurements.ts";
import type { MeasurementName } from "./measurements.ts";
import { partiesOn } from "./parties.ts";
import type { Party, PartyName } from "./parties.ts";
import { pieces } from "./pieces.ts";
import { crowd, ROWS } from "./rows.ts";
import type { Play } from "./rows.ts";

export { table } from "./measurements.ts";

const ROUNDS = 5;
const CROWD = "crowd";

/** @throws {Error} with the reason why the benchmark cannot run here, or for an unknown row */
export async function bench({ rows, rounds = ROUNDS, profiles, before, pieces: isAccount }: BenchOptions = {}): Promise<
  readonly BenchResult[]
> {
  const all = [...Object.keys(ROWS), CROWD];
  const unknown = rows?.filter((name) => !all.includes(name)) ?? [];
  if (unknown.length > 0) throw new Error(`no row ${unknown.join(", ")}; there are ${all.join(", ")}`);
  const binaries = await controlPlaneBinaries();
  const missing = "missing" in binaries ? binaries.missing : ensureRedisServer();
  if (missing !== undefined) throw new Error(missing);
  const wants = (name: string): boolean => rows === undefined || rows.includes(name);
  const cluster = await startCluster({ machines: false });
  try {
    if (isAccount) {
      await pieces(cluster);
      return [];
    }
    const parties = await partiesOn(cluster, { profiles, before });
    const samples: Record<PartyName, Samples> = { ours: new Samples(), upstream: new Samples(), before: new Samples() };
    const inTurns = async (play: (one: Play) => Promise<void>): Promise<void> => {
      for (let round = 0; round < (profiles === undefined ? rounds : 1); round++)
        for (const party of profiles === undefined ? rotated(parties, round) : parties.slice(0, 1)) {
          process.stderr.write(`  round ${round + 1}, ${party.name}: ${await othersAtWork()}\n`);
          await play({ cluster, party, samples: samples[party.name] });
        }
    };
    const selected = Object.entries(ROWS).filter(([name]) => wants(name));
    if (selected.length > 0)
      await inTurns(async (play) => {
        const work = await play.party.start();
        try {
          for (const [, row] of selected) await row(play, work);
        } finally {
          await work.stop();
        }
      });
    if (wants(CROWD)) await inTurns(crowd);
    return results(samples);
  } finally {
    await cluster.stop();
  }
}

function rotated(parties: readonly Party[], by: number): readonly Party[] {
  const first = by % parties.length;
  return [...parties.slice(first), ...parties.slice(0, first)];
}

function results(samples: Readonly<Record<PartyName, Samples>>): readonly BenchResult[] {
  return Object.keys(MEASUREMENTS).flatMap((key) => {
    const name = key as MeasurementName; // a key of MEASUREMENTS
    const upstream = samples.upstream.result(name, "upstream");
    const others = (["ours", "before"] as const).map((party) => samples[party].result(name, party, upstream?.value));
    return [upstream, ...others].filter((result) => result !== undefined);
  });
}
