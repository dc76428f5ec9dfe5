/**
 * Reports of saved controller files, in a real folder. Catches: a save that is reported twice or never, and a file that is loaded while it
 * is empty.
 */
import { mkdtempSync, renameSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { watchFiles } from "../../../cli/own/watch-files.ts";
import type { WatchedFiles } from "../../../cli/own/watch-files.ts";
import { eventually } from "../../support/eventually.ts";

/** A time in ms longer than the window within which changes count as one save. */
const QUIET_MS = 200;
const PAUSE_MS = 10;

let folder: string;
let file: string;
let saved: string[];
let watched: WatchedFiles;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "deltaloop-watch-"));
  file = join(folder, "c.ts");
  writeFileSync(file, "1");
  saved = [];
  watched = watchFiles((path) => void saved.push(path));
  watched.set([file]);
});
afterEach(() => {
  watched.close();
  rmSync(folder, { recursive: true });
});

it.each([
  {
    what: "several writes",
    act: async () => {
      for (const text of ["2", "23", "234"]) {
        writeFileSync(file, text);
        await sleep(PAUSE_MS);
      }
    },
  },
  {
    what: "a replacement of the file",
    act: async () => {
      writeFileSync(`${file}.tmp`, "2");
      renameSync(`${file}.tmp`, file);
    },
  },
])("reports $what as one save", async ({ act }) => {
  await act();
  await eventually("it is reported", async () => saved.length > 0);
  await sleep(QUIET_MS);
  expect(saved).toEqual([file]);
});

it("reports an empty file only when it has content, and ignores other files", async () => {
  truncateSync(file);
  writeFileSync(join(folder, "other.ts"), "1");
  await sleep(QUIET_MS);
  expect(saved).toEqual([]);
  writeFileSync(file, "2");
  await eventually("it is reported", async () => saved.length > 0);
  expect(saved).toEqual([file]);
});

it("reports nothing once it is closed", async () => {
  watched.close();
  writeFileSync(file, "2");
  await sleep(QUIET_MS);
  expect(saved).toEqual([]);
});
