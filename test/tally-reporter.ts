/** What test/run.ts asks vitest for: numbers, and the reason for everything that did not run. */
import { writeFileSync } from "node:fs";

import type { Reporter, SerializedError, TestCase, TestModule } from "vitest/node";

/** Variable that names the file to write; without the product's prefix, which children would refuse. */
export const TALLY_FILE = "TALLY_FILE";

export interface Tally {
  readonly passed: number;
  readonly failed: number;
  /** Each test that did not run, and why: the note it gave to `skip`, else the name of its suite, which should say it. */
  readonly skipped: readonly { readonly test: string; readonly why: string }[];
  /** Test files that held tests, and how long each took; absent for steps that are no tests. */
  readonly files?: readonly { readonly path: string; readonly ms: number }[];
}

/** A file that cannot be loaded and an error outside every test count as one failure each. Vitest wants a class by default. */
export default class TallyReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const broken = modules.filter((module) => module.errors().length > 0).length;
    const tally: Tally = {
      passed: tests.filter((test) => test.result().state === "passed").length,
      failed: tests.filter((test) => test.result().state === "failed").length + broken + unhandled.length,
      skipped: tests.flatMap(skipReason),
      files: modules
        .filter(({ children }) => children.size > 0)
        .map((module) => ({ path: module.moduleId, ms: module.diagnostic().duration })),
    };
    writeFileSync(process.env[TALLY_FILE] ?? "", JSON.stringify(tally));
  }
}

function skipReason(test: TestCase): Tally["skipped"] {
  const result = test.result();
  if (result.state === "passed" || result.state === "failed") return [];
  const note = result.state === "skipped" ? result.note : undefined;
  return [{ test: test.fullName, why: note ?? test.fullName.split(" > ")[0] ?? test.name }];
}
