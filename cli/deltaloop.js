#!/usr/bin/env node
/** The packaged command's first file: turns away a Node that could not even load the others. */
import { keepCompiledCode, tooOld } from "@deltaloop/base/nodejs";

const problem = tooOld(process.versions.node);
if (problem === undefined) {
  // A node agent starts seldom, and would have what it read in memory, 3 MiB, as long as it lives.
  if (process.argv[2] !== "node") keepCompiledCode();
  await import("./main.ts");
} else {
  process.stderr.write(`deltaloop: ${problem}\n`);
  process.exitCode = 2;
}
