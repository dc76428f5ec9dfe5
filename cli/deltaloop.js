#!/usr/bin/env node
/** The packaged command's first file: rejects a Node version that could not even load the others. */
import { keepCompiledCode, tooOld } from "@deltaloop/base/nodejs";

const problem = tooOld(process.versions.node);
if (problem === undefined) {
  // A node agent rarely starts, and the code read from the cache would occupy 3 MiB as long as it runs.
  if (process.argv[2] !== "node") keepCompiledCode();
  await import("./main.ts");
} else {
  process.stderr.write(`deltaloop: ${problem}\n`);
  process.exitCode = 2;
}
