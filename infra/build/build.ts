/**
 * `npm run build`: writes a minified bundle and a zip of each function to dist/functions, the command to dist/cli and what controllers
 * import to dist/sdk, and prints the sizes.
 * Fails if a bundle exceeds its budget.
 */
import { chmod, rm } from "node:fs/promises";
import { join } from "node:path";

import { BUNDLE_KIB_MAX } from "./budgets.ts";
import { bundleCli, bundleFunction, bundleSdk, functionNames } from "./bundle.ts";
import { importMs } from "./import-time.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const DIST = join(ROOT, "dist");
const KIB = 1024;

const [cli, sdk, functions] = [join(DIST, "cli"), join(DIST, "sdk"), join(DIST, "functions")];
// Keeps dist/image, which `npm run image` writes.
for (const folder of [cli, sdk, functions]) await rm(folder, { recursive: true, force: true });
await bundleCli(ROOT, cli);
await bundleSdk(ROOT, sdk);
await chmod(join(cli, "deltaloop.js"), 0o755);

console.log(`${"function".padEnd(28)}bundle KiB   at most   own KiB   zip KiB   import ms`);
let tooLarge = false;
for (const name of await functionNames(ROOT)) {
  const { bytes, ownBytes, zipBytes, bundle } = await bundleFunction(ROOT, name, functions);
  const bytesMax = (BUNDLE_KIB_MAX[name] ?? 0) * KIB;
  const ms = await importMs(bundle);
  const sizes = [bytes, bytesMax, ownBytes, zipBytes].map((size) => kib(size).padStart(10));
  const isTooLarge = bytes > bytesMax;
  tooLarge ||= isTooLarge;
  const note = isTooLarge ? "  TOO LARGE: see infra/build/budgets.ts" : "";
  console.log(`${name.padEnd(28)}${sizes.join("")}${ms.toFixed(0).padStart(12)}${note}`);
}
if (tooLarge) process.exitCode = 1;

function kib(bytes: number): string {
  return (bytes / KIB).toFixed(0);
}
