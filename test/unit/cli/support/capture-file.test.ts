/** Catches a capture with everything secret in it that others on the machine may read, and a path that ends in a stack trace. */
import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

import { openCapture } from "../../../../cli/support/capture-file.ts";
import { UsageError } from "../../../../cli/support/usage-error.ts";

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "deltaloop-capture-"))));
afterAll(() => rm(folder, { recursive: true }));

async function modeAfter(path: string, raw: boolean): Promise<number> {
  await (await openCapture(path, { raw })).close();
  return (await stat(path)).mode & 0o777;
}

it("a raw capture is its owner's alone, also where a file was before", async () => {
  expect(await modeAfter(join(folder, "new.jsonl"), true)).toBe(0o600);
  await writeFile(join(folder, "old.jsonl"), "", { mode: 0o644 });
  expect(await modeAfter(join(folder, "old.jsonl"), true)).toBe(0o600);
});

it("a stripped one is made as other files are", async () => {
  expect(await modeAfter(join(folder, "stripped.jsonl"), false)).toBe(0o666 & ~process.umask());
});

it("a path that cannot be written is a mistake of whoever gave it", async () => {
  await expect(openCapture(join(folder, "no", "folder"), { raw: true })).rejects.toThrow(UsageError);
});
