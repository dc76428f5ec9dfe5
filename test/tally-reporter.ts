/** What test/run.ts needs from vitest: counts, and the reason for everything that did not run. */
import { writeFileSync } from "node:fs";

import type { Reporter, SerializedError, TestCase, TestModule } from "vitest/node";

/** The variable with the path of the output file; it lacks the product's prefix, because child processes would reject it. */
export const TALLY_FILE = "TALLY_FILE";

export interface Tally {
  readonly passed: number;
  readonly failed: number;
  /** Each test that did not run, with the reason: the note given to `skip`, or the name of its suite, which should state it. */
  readonly skipped: readonly { readonly path?: string; readonly test: string; readonly why: string }[];
  /** Test files with tests, and the duration of each; absent for steps that are not tests. */
  readonly files?: readonly { readonly path: string; readonly ms: number; readonly passed: number; readonly failed: number }[];
}

/**
 * A file that cannot be loaded, and an error outside of tests, count as one failure each. The default export is a class because vitest
 * requires one.
 */
export default class TallyReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const files = modules.map((module) => {
      const states = [...module.children.allTests()].map((test) => test.result().state);
      return {
        path: module.moduleId,
        ms: module.diagnostic().duration,
        passed: states.filter((state) => state === "passed").length,
        failed: states.filter((state) => state === "failed").length + (module.errors().length > 0 ? 1 : 0),
        hasTests: states.length > 0,
      };
    });
    const tally: Tally = {
      passed: files.reduce((sum, { passed }) => sum + passed, 0),
      failed: files.reduce((sum, { failed }) => sum + failed, unhandled.length),
      skipped: modules.flatMap((module) => [...module.children.allTests()].flatMap((test) => skipReason(test, module.moduleId))),
      files: files.filter(({ hasTests }) => hasTests),
    };
    writeFileSync(process.env[TALLY_FILE] ?? "", JSON.stringify(tally));
  }
}

function skipReason(test: TestCase, path: string): Tally["skipped"] {
  const result = test.result();
  if (result.state === "passed" || result.state === "failed") return [];
  const note = result.state === "skipped" ? result.note : undefined;
  return [{ path, test: test.fullName, why: note ?? test.fullName.split(" > ")[0] ?? test.name }];
}
