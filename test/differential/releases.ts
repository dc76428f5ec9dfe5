/**
 * `npm run releases [-- v1.37.2 …]`: for each release that can be built, compares our template hashes, decoded pods, syncs and sequences with
 * upstream's; then runs `deltaloop capture` and `shadow` on its control plane, handovers between its controllers and ours, and upstream's own
 * tests with deltaloop's controllers. Prints a table with minutes and disk space; exits with 1 if anything differs.
 */
import { spawnSync } from "node:child_process";
import { statfsSync } from "node:fs";
import { homedir } from "node:os";

import { BUILDABLE } from "../envtest/release-module.ts";
import { ACTING_RELEASES, releaseOf } from "../../shared/kube/releases.ts";

const RUN = ["infra/nodejs-runtime/run.js"];
const VITEST = [...RUN, "node_modules/vitest/vitest.mjs", "run", "--project"];
const SUITES = {
  templates: [...VITEST, "adapters", "test/differential/templates.test.ts"],
  keys: [...VITEST, "adapters", "test/differential/keys.test.ts"],
  protobuf: [...VITEST, "adapters", "test/differential/protobuf.test.ts"],
  syncs: [...RUN, "test/differential/run.ts", "--seeds", "100"],
  sequences: [...RUN, "test/differential/run.ts", "--sequence", "--seeds", "25"],
  live: [...VITEST, "e2e", "test/e2e/shadow.test.ts"],
  "hand-over": [...VITEST, "e2e", "test/e2e/hand-over.test.ts"],
  "e2e tests": [...RUN, "test/upstream/run.ts"],
} as const;
/** Suites that run only for releases that deltaloop's controllers support. */
const ACTING_ONLY: readonly (keyof typeof SUITES)[] = ["keys", "protobuf", "syncs", "sequences", "hand-over", "e2e tests"];

const asked = process.argv.slice(2);
const unknown = asked.filter((version) => !BUILDABLE.includes(version));
if (unknown.length > 0) {
  process.stderr.write(`npm run releases: ${unknown.join(", ")} cannot be built; choose from ${BUILDABLE.join(", ")}\n`);
  process.exit(2);
}

const rows: Record<string, string>[] = [];
for (const version of asked.length > 0 ? asked : BUILDABLE) {
  const [startedAt, freeBefore] = [performance.now(), freeBytes()];
  const isActing = releaseOf(version, ACTING_RELEASES) !== undefined;
  const results = Object.entries(SUITES).map(([suite, command]): [string, string] => {
    if (!isActing && ACTING_ONLY.some((each) => each === suite)) return [suite, "–"];
    process.stdout.write(`${version}: ${suite}\n`);
    const env = { ...process.env, DIFFERENTIAL_RELEASE: version };
    return [suite, spawnSync(process.execPath, command, { env, stdio: "inherit" }).status === 0 ? "same" : "DIFFERS"];
  });
  const minutes = ((performance.now() - startedAt) / 60_000).toFixed(1);
  const gigabytes = (Math.max(0, freeBefore - freeBytes()) / 2 ** 30).toFixed(1);
  rows.push({ release: version, ...Object.fromEntries(results), minutes, "disk GiB": gigabytes });
}
for (const cells of [Object.keys(rows[0] ?? {}), ...rows.map((row) => Object.values(row))])
  process.stdout.write(`${cells.map((cell) => cell.padEnd(10)).join("  ")}\n`);
if (rows.some((row) => Object.values(row).includes("DIFFERS"))) process.exitCode = 1;

function freeBytes(): number {
  const { bavail, bsize } = statfsSync(homedir());
  return bavail * bsize;
}
