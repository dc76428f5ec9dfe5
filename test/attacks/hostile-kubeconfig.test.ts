/**
 * Threat: a kubeconfig that is expensive to parse. Who: the administrator of another cluster, whose file the operator keeps in the folder of
 * clusters. Before: a megabyte of brackets or quotes kept the process that watches all clusters busy for more than ten seconds, every five
 * seconds, because a file that could not be parsed was parsed again with each read of the folder.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

import { readFolder } from "../../shared/local/clusters/read-folder.ts";
import type { FolderOptions } from "../../shared/local/clusters/read-folder.ts";
import { kubeconfigOf } from "../support/kubeconfig.ts";

const BYTES = 1024 * 1024 - 16;
/** The parser took 33 s; now 0.4 s on a quiet machine, and 2 s beside other work with a full heap. */
const MICROSECONDS_MAX = 8_000_000;
const AGAIN_MICROSECONDS_MAX = 20_000;

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "deltaloop-attack-"))));
afterAll(async () => await rm(folder, { recursive: true }));

async function cpuOf(work: () => Promise<unknown>): Promise<number> {
  const from = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(from);
  return user + system;
}

it.each([
  { name: "brackets", text: "[".repeat(BYTES) },
  { name: "quotes", text: '"'.repeat(BYTES) },
  { name: "keys", text: ": ".repeat(BYTES / 2) },
  { name: "the greatest accepted number of anchors", text: "&a ".repeat(19_999) },
])("a file of $name costs little, and nothing when it is read again", async ({ text }) => {
  await writeFile(join(folder, "liar"), text);
  await writeFile(join(folder, "honest"), kubeconfigOf({ server: "https://honest.example.com" }, { token: "t" }));
  const parsed: FolderOptions["parsed"] = new Map();
  const read = async () => await readFolder({ folder, parsed, allowed: new Set(), resolve: async () => await Promise.resolve([]) });
  expect(await cpuOf(read)).toBeLessThan(MICROSECONDS_MAX);
  // The least of three, because the collector may free the first read's garbage meanwhile.
  expect(Math.min(await cpuOf(read), await cpuOf(read), await cpuOf(read))).toBeLessThan(AGAIN_MICROSECONDS_MAX);
  expect((await read()).map(({ kind, name }) => `${kind} ${name}`)).toEqual(["vetted honest", "rejected liar"]);
});
