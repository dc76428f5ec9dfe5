/**
 * `node infra/nodejs-runtime/run.js FILE …`: runs FILE for npm scripts on Node 24, whichever Node runs npm. npm puts
 * node_modules/.bin first in PATH, where the platform's package (package.json beside this file) has linked it.
 * Without it, the installed Node runs FILE with a warning, or a too old one is rejected in one line.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { keepCompiledCode, tooOld } from "@deltaloop/base/nodejs";

const TESTED_MAJOR = "24.";
const { node } = process.versions;
const problem = tooOld(node);
const platform = `${process.platform}-${process.arch}`;
const isBrought = existsSync(fileURLToPath(new URL("../../node_modules/.bin/node", import.meta.url)));
const remedy = isBrought
  ? "start it by npm (npm run -s deltaloop -- …), or put node_modules/.bin first in PATH: the Node 24 that npm brought is there"
  : `npm brought no Node 24 for ${platform}; try npm ci again, or install Node 24`;
if (problem !== undefined) {
  process.stderr.write(`deltaloop: ${problem}: ${remedy}\n`);
  process.exit(2);
}
if (!node.startsWith(TESTED_MAJOR)) process.stderr.write(`deltaloop: runs on your own Node ${node}: ${remedy}\n`);

// Of sources their types are taken out before they are compiled, which is most of a start: the processes that this starts keep theirs, too.
const compiled = keepCompiledCode();
if (compiled !== undefined) process.env.NODE_COMPILE_CACHE ??= compiled;
process.argv.splice(1, 2, resolve(process.argv[2]));
await import(pathToFileURL(process.argv[1]).href);
