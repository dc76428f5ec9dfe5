/**
 * `npm run build`: one minified bundle and one zip per function under dist/functions, the command under dist/cli, and what
 * they weigh. A bundle beyond its size fails the build; our own share of it and the import time are goals.
 */
import { chmod, rm } from "node:fs/promises";
import { join } from "node:path";

import { BUNDLE_KIB_MAX } from "./budgets.ts";
import { bundleCli, bundleFunction, functionNames } from "./bundle.ts";
import { importMs } from "./import-time.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const DIST = join(ROOT, "dist");
const KIB = 1024;
/** Of our own code in a bundle: what was measured before anything was built, and room to grow (design.md). */
const OWN_BYTES_GOAL = 100 * KIB;
const IMPORT_MS_GOAL = 100;

await rm(DIST, { recursive: true, force: true });
const cli = join(DIST, "cli");
await bundleCli(ROOT, cli);
await chmod(join(cli, "deltaloop.js"), 0o755);

console.log(`${"function".padEnd(28)}bundle KiB   own KiB   zip KiB   import ms`);
let tooLarge = false;
for (const name of await functionNames(ROOT)) {
  const { bytes, ownBytes, zipBytes, bundle } = await bundleFunction(ROOT, name, join(DIST, "functions"));
  const bytesMax = (BUNDLE_KIB_MAX[name] ?? 0) * KIB;
  const ms = await importMs(bundle);
  const cells = [kib(bytes).padStart(10), kib(ownBytes).padStart(10), kib(zipBytes).padStart(10), ms.toFixed(0).padStart(12)];
  const notes = [
    ...(bytes > bytesMax ? [`TOO LARGE: over ${kib(bytesMax)} KiB (infra/build/budgets.ts)`] : []),
    ...(ownBytes > OWN_BYTES_GOAL ? [`own code over the goal of ${kib(OWN_BYTES_GOAL)} KiB`] : []),
    ...(ms > IMPORT_MS_GOAL ? [`import over the goal of ${IMPORT_MS_GOAL} ms`] : []),
  ];
  tooLarge ||= bytes > bytesMax;
  console.log([name.padEnd(28) + cells.join(""), ...notes].join("  "));
}
if (tooLarge) process.exitCode = 1;

function kib(bytes: number): string {
  return (bytes / KIB).toFixed(0);
}
