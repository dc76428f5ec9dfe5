// Concurrent clean-up and creation of volumes.
import { mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { createNodeFiles } from "../../shared/node-agent/node-files/node-files.ts";
import type { VolumeFile, VolumeOptions, VolumePlace } from "../../shared/node-agent/ports/node-files.ts";
import { recordingLog } from "../unit/recording-log.ts";

const TOP = realpathSync(mkdtempSync(join(tmpdir(), "deltaloop-places-")));
const files = createNodeFiles({ rootDir: TOP, podLogsDir: join(TOP, "logs"), containerLogsDir: join(TOP, "links"), log: recordingLog() });
const UIDS = Array.from({ length: 10 }, (_, index) => `pod-${index}`);

const volume = (uid: string): VolumePlace => ({ uid, plugin: "kubernetes.io~secret", name: "v" });
const payload = (content: string): readonly VolumeFile[] =>
  ["a", "b/c"].map((path) => ({ path, content: Buffer.from(content), mode: 0o644 }));

afterAll(async () => {
  for (const uid of UIDS) await files.removePodDirectory(uid);
  rmSync(TOP, { recursive: true });
});

it.each<{ name: string; options: VolumeOptions }>([
  { name: "a tmpfs", options: { tmpfs: true } },
  { name: "a volume on disk", options: {} },
])("[node-agent 135] NF6 applies the last requested state of $name", async ({ options }) => {
  const rounds = UIDS.map(async (uid) => {
    const write = (content: string): Promise<string> => files.writeVolume(volume(uid), payload(content), options);
    const remove = (): Promise<void> => files.removePodDirectory(uid);
    const calls = [files.makePodDirectories(uid), write("1"), remove(), remove(), write("2"), write("3"), remove(), write("4")];
    await Promise.all(calls);
    const directory = await files.volumePath(volume(uid));
    return ["a", "b/c"].map((path) => readFileSync(join(directory ?? "", path), "utf8"));
  });
  expect(await Promise.all(rounds)).toEqual(UIDS.map(() => ["4", "4"]));
});

it("[node-agent 135] NF6 lets two concurrent removals of a pod's directory succeed", async () => {
  for (const uid of UIDS) {
    await Promise.all(["v", "w", "x"].map((name) => files.makeEmptyDir({ ...volume(uid), name }, { medium: "Memory" })));
    await Promise.all([1, 2, 3].map(() => files.removePodDirectory(uid)));
  }
  expect(await files.podsWithDirectories()).toEqual([]);
});
