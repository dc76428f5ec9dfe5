/**
 * Trees that a container has made, and may go on changing. Would catch: one that is too deep, or has names that are no text, so that
 * its pod stays for ever, or is not measured, and so never evicted; a walk that is led out of its volume; descriptors or names that
 * grow with the tree.
 */
import { execFileSync } from "node:child_process";
import {
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { rename, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { createNodeFiles } from "../../shared/adapters/node-files/node-files.ts";
import { removeUnmounted } from "../../shared/adapters/node-files/remove-tree.ts";
import type { VolumePlace } from "../../shared/ports/node-files.ts";
import { recordingLog } from "../unit/recording-log.ts";

const TOP = realpathSync(mkdtempSync(join(tmpdir(), "deltaloop-trees-")));
const LEVELS = 3_000;
const NAME = "n".repeat(200);
const NOT_TEXT = Buffer.from([0xff, 0xfe, 0x66]);

const files = createNodeFiles({ rootDir: TOP, podLogsDir: join(TOP, "logs"), containerLogsDir: join(TOP, "links"), log: recordingLog() });
const emptyDir = (uid: string): VolumePlace => ({ uid, plugin: "kubernetes.io~empty-dir", name: "e" });

// By the machine's own program, which goes by descriptors as well.
afterAll(() => void execFileSync("rm", ["-rf", TOP]));

let count = 0;
async function newVolume(): Promise<{ readonly uid: string; readonly volume: string }> {
  const uid = `pod-${count++}`;
  return { uid, volume: await files.makeEmptyDir(emptyDir(uid)) };
}

/** `each` is called with each level, as a short path that holds as long as the call. */
function makeDeep(directory: string, levels: number, each: (place: string, level: number) => void): void {
  let fd = openSync(directory, constants.O_RDONLY);
  for (let level = 0; level < levels; level++) {
    const place = `/proc/self/fd/${fd}`;
    mkdirSync(join(place, NAME));
    each(place, level);
    const below = openSync(join(place, NAME), constants.O_RDONLY);
    closeSync(fd);
    fd = below;
  }
  closeSync(fd);
}

function makeWide(directory: string, entries: number): void {
  for (let i = 0; i < entries; i++) writeFileSync(join(directory, `entry ${i}`), "");
}

const descriptors = (): number => readdirSync("/proc/self/fd").length;

it("[node-agent 490] NF4 removes a pod whose volume is deeper than a path may be, with four descriptors", async () => {
  const { uid, volume } = await newVolume();
  makeDeep(volume, LEVELS, (place, level) => {
    if (level % 10 === 0) mkdirSync(join(place, "beside/below"), { recursive: true });
  });
  const before = descriptors();
  let most = 0;
  const looking = setInterval(() => (most = Math.max(most, descriptors())), 5);
  await files.removePodDirectory(uid);
  clearInterval(looking);
  expect([existsSync(join(TOP, "pods", uid)), descriptors(), most - before]).toEqual([
    false,
    before,
    expect.toSatisfy((more: number) => more <= 8),
  ]);
});

it("[node-agent 490] NF4 removes what has no name that is text, links and not what they lead to, and a directory of many entries", async () => {
  const { uid, volume } = await newVolume();
  const outside = mkdtempSync(join(TOP, "outside-"));
  writeFileSync(join(outside, "precious"), "x");
  for (const above of [Buffer.from(`${volume}/`), Buffer.from(`${volume}/directory/`)]) {
    mkdirSync(above, { recursive: true });
    mkdirSync(Buffer.concat([above, NOT_TEXT]));
    writeFileSync(Buffer.concat([above, NOT_TEXT, Buffer.from("/"), NOT_TEXT]), "");
    symlinkSync(outside, Buffer.concat([above, Buffer.from("link")]));
  }
  mkdirSync(join(volume, "wide"));
  makeWide(join(volume, "wide"), 4_000);
  await files.removePodDirectory(uid);
  expect([existsSync(join(TOP, "pods", uid)), readFileSync(join(outside, "precious"), "utf8")]).toEqual([false, "x"]);
});

it("[node-agent 490] NF4 is led nowhere else by somebody who exchanges directories for links meanwhile", async () => {
  const outside = mkdtempSync(join(TOP, "outside-"));
  mkdirSync(join(outside, "keep"));
  makeWide(outside, 20);
  const { uid, volume } = await newVolume();
  for (let i = 0; i < 50; i++) {
    mkdirSync(join(volume, `d${i}/keep`), { recursive: true });
    makeWide(join(volume, `d${i}`), 20);
  }
  let isOver = false;
  const tenant = async (): Promise<void> => {
    for (let i = 0; !isOver; i = (i + 1) % 50) {
      const own = join(volume, `d${i}`);
      await rename(own, `${own} away`).catch(() => undefined);
      await symlink(outside, own).catch(() => undefined);
      await rm(own).catch(() => undefined);
      await rename(`${own} away`, own).catch(() => undefined);
    }
  };
  const tenants = [tenant(), tenant()];
  const removed = async (): Promise<boolean> => {
    await files.removePodDirectory(uid).catch(() => undefined);
    return existsSync(join(TOP, "pods", uid));
  };
  await expect.poll(removed, { timeout: 20_000 }).toBe(false);
  isOver = true;
  await Promise.all(tenants);
  expect(readdirSync(outside).length).toBe(21);
});

it("[node-agent 490] NF4 removes no part of another file system, and says where it is", async () => {
  const directory = mkdtempSync(join(TOP, "mounted-"));
  const inside = join(directory, "a/b");
  mkdirSync(inside, { recursive: true });
  try {
    execFileSync("mount", ["-t", "tmpfs", "tmpfs", inside], { stdio: "ignore" });
  } catch {
    return; // this machine allows no mounts
  }
  try {
    writeFileSync(join(inside, "precious"), "x");
    await expect(removeUnmounted(directory)).rejects.toThrow(/\/a\/b cannot be removed .*unmount it by hand/u);
    expect(readFileSync(join(inside, "precious"), "utf8")).toBe("x");
  } finally {
    execFileSync("umount", [inside]);
  }
  await removeUnmounted(directory);
  expect(existsSync(directory)).toBe(false);
});
