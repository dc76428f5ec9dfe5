/**
 * Catches: a capture with secrets that other users of the machine can read, an invalid path that causes a stack trace, a killed process
 * whose flushed lines are unreadable, and more files than requested.
 */
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { constants, gunzipSync } from "node:zlib";

import { afterAll, beforeAll, expect, it } from "vitest";

import { CaptureFile } from "../../../../cli/capture/capture-file.ts";
import { bytes, UsageError } from "../../../../shared/base/usage-error.ts";
import { eventually } from "../../../support/eventually.ts";

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "deltaloop-capture-"))));
afterAll(() => rm(folder, { recursive: true }));

async function modeAfter(path: string, isWhole: boolean): Promise<number> {
  const file = new CaptureFile(path, { isWhole, existing: "overwritten" }, 0);
  file.write("a line");
  await file.end();
  return (await stat(path)).mode & 0o777;
}

it("makes an unredacted capture readable by its owner only, even if it replaces an existing file", async () => {
  expect(await modeAfter(join(folder, "new.jsonl"), true)).toBe(0o600);
  await writeFile(join(folder, "old.jsonl"), "before", { mode: 0o644 });
  expect(await modeAfter(join(folder, "old.jsonl"), true)).toBe(0o600);
  expect(await readFile(join(folder, "old.jsonl"), "utf8")).toBe("a line\n");
});

it.each([
  { existing: "refused", says: "exists and is not empty", before: "before", after: "before" },
  { existing: "overwritten", before: "before", after: "a line\n" },
  { existing: "replaced", before: "before", after: "a line\n" },
] as const)(
  "CF4 an existing file is handled as `existing: $existing` requires, at the first line and at the end",
  async ({ existing, says, before, after }) => {
    const path = join(await mkdtemp(join(folder, "there-")), "c.jsonl");
    const content = async (): Promise<string> => await readFile(path, "utf8");
    await writeFile(path, before);
    const make = (): CaptureFile => new CaptureFile(path, { isWhole: true, existing }, 0);
    if (says !== undefined) expect(make).toThrow(says);
    else {
      await make().discard();
      expect(await content()).toBe(before);
      const file = make();
      file.write("a line");
      if (existing === "replaced") expect(await content()).toBe(before);
      await file.end();
    }
    expect(await content()).toBe(after);
    expect(await readdir(dirname(path))).toEqual(["c.jsonl"]);
  },
);

it("CF1 passes lines to gzip in large chunks, and all of them on a flush", async () => {
  const path = join(folder, "chunks.jsonl.gz");
  const file = new CaptureFile(path, { isWhole: false }, 0);
  for (let i = 0; i < 100; i++) expect(file.write(`line ${i}`)).toBe(true);
  await file.settled();
  const text = gunzipSync(await readFile(path), { finishFlush: constants.Z_SYNC_FLUSH }).toString();
  expect(text).toBe(Array.from({ length: 100 }, (_, i) => `line ${i}\n`).join(""));
  expect(file.write("x".repeat(2 ** 16))).toBe(false);
  await file.room();
  await file.end();
  expect(gunzipSync(await readFile(path)).length).toBe(text.length + 2 ** 16 + 1);
});

it("gives a stripped capture the default file mode", async () => {
  expect(await modeAfter(join(folder, "stripped.jsonl"), false)).toBe(0o666 & ~process.umask());
});

it("reports a path that cannot be written as a usage error", () => {
  expect(() => new CaptureFile(join(folder, "no", "folder"), { isWhole: true }, 0)).toThrow(UsageError);
});

it("CF1 makes flushed lines readable while the file is open, even if compressed", async () => {
  const path = join(folder, "open.jsonl.gz");
  const file = new CaptureFile(path, { isWhole: false }, 0);
  file.write("one");
  file.flush();
  await eventually("the line is there", async () => {
    const text = gunzipSync(await readFile(path), { finishFlush: constants.Z_SYNC_FLUSH }).toString();
    return text === "one\n";
  });
  file.write("two");
  await file.end();
  expect(gunzipSync(await readFile(path)).toString()).toBe("one\ntwo\n");
});

it("CF3 rotates by size or by time, and keeps the newest files", async () => {
  const own = await mkdtemp(join(folder, "rotated-"));
  await writeFile(join(own, "c.0000.jsonl.gz"), "somebody else's");
  const file = new CaptureFile(join(own, "c.jsonl.gz"), { isWhole: false, rotateBytes: 10, rotateMs: 60_000, keep: 2 }, 0);
  file.write("123456789");
  expect([file.isFull(0), file.path]).toEqual([true, join(own, "c.0001.jsonl.gz")]);
  for (const [number, atMs] of [
    [2, 1000],
    [3, 2000],
  ] as const) {
    file.next(atMs);
    file.write(String(number));
    await file.settled();
  }
  expect([file.isFull(2000), file.isFull(61_999), file.isFull(62_000)]).toEqual([false, false, true]);
  await file.end();
  expect((await readdir(own)).toSorted()).toEqual(["c.0000.jsonl.gz", "c.0002.jsonl.gz", "c.0003.jsonl.gz"]);
  expect(gunzipSync(await readFile(join(own, "c.0003.jsonl.gz"))).toString()).toBe("3\n");
});

it.each(["jsonl", "jsonl.gz"])("CF2 keeps the older file until the newer one contains all current objects (%s)", async (ending) => {
  const own = await mkdtemp(join(folder, "kept-"));
  const path = join(own, `c.${ending}`);
  const file = new CaptureFile(path, { isWhole: false, rotateMs: 1, keep: 1 }, 0);
  file.write("before");
  file.next(1);
  const line = "x".repeat(2 ** 20);
  file.write(line);
  expect((await readdir(own)).toSorted()).toEqual([`c.0001.${ending}`, `c.0002.${ending}`]);
  await file.settled();
  expect(await readdir(own)).toEqual([`c.0002.${ending}`]);
  const bytes = await readFile(join(own, `c.0002.${ending}`));
  expect((ending === "jsonl" ? bytes : gunzipSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH })).toString()).toBe(`${line}\n`);
  await file.end();
});

it("continues the numbering of an earlier run's files, and counts them towards the number to keep", async () => {
  const path = join(await mkdtemp(join(folder, "continued-")), "c.jsonl");
  const run = async (...lines: readonly string[]): Promise<readonly string[]> => {
    const file = new CaptureFile(path, { isWhole: false, rotateMs: 1, keep: 2, existing: "continued" }, 0);
    for (const [index, line] of lines.entries()) {
      if (index > 0) file.next(0);
      file.write(line);
      await file.settled();
    }
    await file.end();
    return (await readdir(dirname(path))).toSorted();
  };
  expect(await run("a", "b")).toEqual(["c.0001.jsonl", "c.0002.jsonl"]);
  expect(await run("c")).toEqual(["c.0002.jsonl", "c.0003.jsonl"]);
  // Ends before its first line, as in a crash loop.
  expect(await run()).toEqual(["c.0002.jsonl", "c.0003.jsonl", "c.0004.jsonl"]);
  expect(await run("d", "e")).toEqual(["c.0004.jsonl", "c.0005.jsonl"]);
  expect(await readFile(path.replace("c.", "c.0004."), "utf8")).toBe("d\n");
});

it("CF4 reports a failed replacement at the end, and leaves no temporary file", async () => {
  const path = join(await mkdtemp(join(folder, "there-")), "c.jsonl");
  const file = new CaptureFile(path, { isWhole: false, existing: "replaced" }, 0);
  file.write("a line");
  await mkdir(path);
  await file.end();
  expect(file.error?.message).toMatch(/c\.jsonl cannot be replaced: EISDIR/);
  expect(await readdir(dirname(path))).toEqual(["c.jsonl"]);
});

it("reports a full device instead of an unhandled error", async () => {
  const file = new CaptureFile("/dev/full", { isWhole: false }, 0);
  file.write("x");
  await file.settled();
  await file.end();
  expect(file.error?.message).toContain("/dev/full: ");
});

it.each(["jsonl", "jsonl.gz"])("reports a full device to each caller that waits for buffer space (%s)", async (ending) => {
  const path = join(folder, `full.${ending}`);
  await symlink("/dev/full", path);
  const file = new CaptureFile(path, { isWhole: false }, 0);
  const line = randomBytes(2 ** 20).toString("base64");
  for (let i = 0; i < 3; i++) if (!file.write(line)) await file.drained();
  await file.end();
  expect(file.error?.message).toContain("full.jsonl");
});

it("leaves no listener behind after waiting for buffer space", async () => {
  const path = join(folder, "long.jsonl.gz");
  const file = new CaptureFile(path, { isWhole: false }, 0);
  const warnings: Error[] = [];
  const warned = (warning: Error): void => void warnings.push(warning);
  process.on("warning", warned);
  const line = randomBytes(2 ** 16).toString("base64");
  let waits = 0;
  while (waits < 20) {
    if (file.write(line)) continue;
    await file.drained();
    waits++;
  }
  await file.end();
  process.off("warning", warned);
  expect(warnings).toEqual([]);
});

it.each([
  ["64Mi", 64 * 2 ** 20],
  ["1Gi", 2 ** 30],
  ["1048576", 2 ** 20],
])("accepts %s as a size", (text, want) => expect(bytes("--s", 2 ** 20)(text)).toBe(want));

it.each(["", "64", "64MB", "1.5Gi", "-1Mi", "9007199254740993"])("rejects %j as a size", (text) => {
  expect(() => bytes("--s", 2 ** 20)(text)).toThrow("--s takes a size of at least 1Mi");
});
