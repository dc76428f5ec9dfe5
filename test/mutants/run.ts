/**
 * `npm run mutants [-- TEXT]`: plants each mistake of decisions.ts and imports.ts (or those whose file or words hold TEXT) in a copy, lets `deltaloop shadow`'s judge look at
 * all of test/captures, and says what it saw. Where it sees nothing, the same recordings are lived once more (test/golden/closed.test.ts), then
 * upstream's answers to random objects are asked (test/golden/differential.test.ts), and at last the controller's unit tests. Exit code 1: none saw it.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { MUTANTS } from "./decisions.ts";
import { IMPORT_MUTANTS } from "./imports.ts";

const ROOT = join(import.meta.dirname, "../..");
const OTHERS = [
  { name: "closed", tests: () => "test/golden/closed.test.ts" },
  { name: "differential", tests: () => "test/golden/differential.test.ts" },
  { name: "unit", tests: (file: string) => `test/unit/${file.split("/")[0] ?? ""}` },
] as const;

/** Of imports: one scene recorded in three ways must be one, and what each file means stands in tables. */
const IMPORTS = [
  { name: "scenes", tests: () => "test/golden/import.test.ts" },
  { name: "unit", tests: () => "test/unit/replay/import.test.ts" },
] as const;

const folder = mkdtempSync(join(tmpdir(), "deltaloop-mutants-"));
const chosen = [...MUTANTS, ...IMPORT_MUTANTS].filter(({ what, file }) => `${file} ${what}`.includes(process.argv[2] ?? ""));
let missed = 0;
try {
  for (const part of ["shared", "cli", "functions", "test", "infra", "package.json", "tsconfig.json", "vitest.config.ts"])
    cpSync(join(ROOT, part), join(folder, part), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  const clean = seen();
  process.stdout.write(`as it is: ${clean}\n`);
  for (const { what, file, from, to } of chosen) {
    const path = join(folder, "shared", file);
    const text = readFileSync(path, "utf8");
    writeFileSync(
      path,
      text.replace(from, () => to),
    );
    const isImport = file.startsWith("replay/import/");
    const found = isImport ? clean : seen();
    const judge = found === clean ? (isImport ? IMPORTS : OTHERS).find(({ tests }) => isRed(tests(file))) : { name: "shadow" };
    writeFileSync(path, text);
    if (judge === undefined) missed++;
    process.stdout.write(`${(judge?.name ?? "UNSEEN").padEnd(12)}  ${what}${isImport ? "" : `: ${found}`}\n`);
  }
} finally {
  rmSync(folder, { recursive: true });
}
process.stdout.write(`${missed} of ${chosen.length} were not seen\n`);
if (missed > 0) process.exitCode = 1;

function isRed(tests: string): boolean {
  const args = [join(folder, "node_modules/vitest/vitest.mjs"), "run", "--project", "check", tests];
  return spawnSync(process.execPath, args, { cwd: folder, stdio: "ignore" }).status !== 0;
}

function seen(): string {
  const { stdout, stderr, status } = spawnSync(process.execPath, ["test/mutants/recordings.ts"], { cwd: folder, encoding: "utf8" });
  if (status !== 0) return `failed: ${stderr.trim().split("\n").at(-1) ?? ""}`;
  const [unexplained, atRest] = stdout.trim().split(" ");
  return `${unexplained} of upstream's writes not explained, ${atRest} of ours at rest`;
}
