/** A copy of this checkout, into which mistakes are planted. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { linkModules } from "../support/copied-modules.ts";
import type { Mutant } from "./decisions.ts";

const ROOT = join(import.meta.dirname, "../..");
const PARTS = ["shared", "cli", "functions", "test", "infra", "package.json", "tsconfig.json", "vitest.config.ts"];

/** Runs `use` with the path of a copy, and removes the copy afterwards. */
export function withCopy<T>(use: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-mutants-"));
  try {
    for (const part of PARTS) cpSync(join(ROOT, part), join(folder, part), { recursive: true });
    linkModules(ROOT, folder);
    return use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Runs `use` while the copy contains the mistake. */
export function planted<T>(folder: string, { file, from, to }: Mutant, use: () => T): T {
  const path = join(folder, "shared", file);
  const text = readFileSync(path, "utf8");
  writeFileSync(
    path,
    text.replace(from, () => to),
  );
  try {
    return use();
  } finally {
    writeFileSync(path, text);
  }
}
