/** Directory trees that a container has created and may still change. */
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  realpathSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { rename, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { createNodeFiles } from "../../shared/node-agent/node-files/node-files.ts";
import { giveToGroup } from "../../shared/node-agent/node-files/ownership.ts";
import { removeUnmounted } from "../../shared/node-agent/node-files/remove-tree.ts";
import { walkTree } from "../../shared/node-agent/node-files/walk-tree.ts";
import type { VolumePlace } from "../../shared/node-agent/ports/node-files.ts";
import { recordingLog } from "../unit/recording-log.ts";

const TOP = realpathSync(mkdtempSync(join(tmpdir(), "deltaloop-trees-")));
const IS_ROOT = process.getuid?.() === 0;
const LEVELS = 3_000;
const NAME = "n".repeat(200);
const GROUP = 4321;
const NOT_TEXT = Buffer.from([0xff, 0xfe, 0x66]);

const files = createNodeFiles({ rootDir: TOP, podLogsDir: join(TOP, "logs"), containerLogsDir: join(TOP, "links"), log: recordingLog() });
const emptyDir = (uid: string): VolumePlace => ({ uid, plugin: "kubernetes.io~empty-dir", name: "e" });

// Uses the machine's own `rm`, which also works with directory descriptors.
afterAll(() => void machine("rm", "-rf", TOP));

let count = 0;
async function newVolume(): Promise<{ readonly uid: string; readonly volume: string }> {
  const uid = `pod-${count++}`;
  return { uid, volume: await files.makeEmptyDir(emptyDir(uid)) };
}

/** Creates nested directories; calls `each` for every level with a short path that is valid only during the call. */
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

function machine(command: string, ...args: readonly string[]): string {
  return execFileSync(command, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
}

/** Usage as `du` reports it. */
function machineUsage(directory: string): object {
  const figure = (...options: readonly string[]): number => Number.parseInt(machine("du", "-s", ...options, directory), 10);
  return { usedBytes: figure("--block-size=1"), inodesUsed: figure("--inodes") };
}

/** Of the whole process. Files that run before may still close some, so a count is compared with an upper bound. */
const descriptors = (): number => readdirSync("/proc/self/fd").length;

it("[node-agent 490] NF4 removes a pod whose volume exceeds the path length limit, with four descriptors", async () => {
  const { uid, volume } = await newVolume();
  makeDeep(volume, LEVELS, (place, level) => {
    if (level % 10 === 0) mkdirSync(join(place, "beside/below"), { recursive: true });
  });
  const before = descriptors();
  let most = 0;
  const looking = setInterval(() => (most = Math.max(most, descriptors())), 5);
  await files.removePodDirectory(uid);
  clearInterval(looking);
  expect(existsSync(join(TOP, "pods", uid))).toBe(false);
  expect([descriptors() <= before, most - before <= 8]).toEqual([true, true]);
});

it("[node-agent 490] NF4 removes names that are not UTF-8, links without their targets, and a directory of many entries", async () => {
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

it("[node-agent 490] NF4 does not follow a link that replaces a directory during the removal", async () => {
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

it("[node-agent 490] NF4 does not remove files of another file system, and reports its path", async () => {
  const directory = mkdtempSync(join(TOP, "mounted-"));
  const inside = join(directory, "a/b");
  mkdirSync(inside, { recursive: true });
  try {
    machine("mount", "-t", "tmpfs", "tmpfs", inside);
  } catch {
    return; // this machine does not allow mounts
  }
  try {
    writeFileSync(join(inside, "precious"), "x");
    await expect(removeUnmounted(directory)).rejects.toThrow(/failed to remove .*\/a\/b \(.*unmount it by hand/u);
    expect(readFileSync(join(inside, "precious"), "utf8")).toBe("x");
  } finally {
    machine("umount", inside);
  }
  await removeUnmounted(directory);
  expect(existsSync(directory)).toBe(false);
});

it("[node-agent 491] measures a volume with arbitrary names that exceeds the path length limit, and counts each file once", async () => {
  const { uid, volume } = await newVolume();
  makeDeep(volume, LEVELS, (place, level) => {
    if (level % 10 === 0) mkdirSync(join(place, "beside"));
    if (level % 100 === 0) writeFileSync(join(place, "beside/file"), Buffer.alloc(10_000, 1));
  });
  mkdirSync(Buffer.concat([Buffer.from(`${volume}/`), NOT_TEXT]));
  writeFileSync(join(volume, "file"), Buffer.alloc(10_000, 1));
  for (const name of ["again", NAME + NAME.slice(0, 20)]) linkSync(join(volume, "file"), join(volume, name));
  mkdirSync(join(volume, "wide"));
  makeWide(join(volume, "wide"), 4_000);
  symlinkSync("/usr", join(volume, "usr"));
  const before = descriptors();
  let most = 0;
  const looking = setInterval(() => (most = Math.max(most, descriptors())), 5);
  const usage = await files.volumeUsage(emptyDir(uid));
  clearInterval(looking);
  expect([usage, descriptors() <= before, most - before <= 6]).toEqual([machineUsage(volume), true, true]);
  expect(await files.volumeUsage(emptyDir("gone"))).toBeUndefined();
});

it("[node-agent 491] WT3 visits all subdirectories with bounded memory, however many there are", async () => {
  const directory = mkdtempSync(join(TOP, "many-"));
  for (let i = 0; i < 350; i++) mkdirSync(join(directory, `d${i}`));
  for (let i = 0; i < 250; i++) mkdirSync(join(directory, `d7/d${i}/below`), { recursive: true });
  const inodes = new Set<number>();
  let visits = 0;
  const failure = await walkTree(
    directory,
    {
      visit: ({ stats }) => {
        inodes.add(stats.ino);
        visits++;
      },
    },
    0,
  );
  expect([failure, inodes.size, visits]).toEqual([undefined, 851, 851]);
});

it("[node-agent 491] WT2 WT4 skips at most a directory that is moved during the walk, and never leaves the tree", async () => {
  const directory = mkdtempSync(join(TOP, "moved-"));
  mkdirSync(join(directory, "elsewhere"));
  for (const name of ["a", "b", "c"]) mkdirSync(join(directory, `d/${name}/below/far`), { recursive: true });
  const seen = new Set<number>();
  const expected = ["a", "b", "c"].map((name) => statSync(join(directory, `d/${name}`)).ino);
  const below = new Set(["a", "b", "c"].map((name) => statSync(join(directory, `d/${name}/below`)).ino));
  let isMoved = false;
  const failure = await walkTree(directory, {
    visit: ({ stats }) => {
      seen.add(stats.ino);
      if (isMoved || !below.has(stats.ino)) return;
      isMoved = true;
      const name = ["a", "b", "c"].find((one) => statSync(join(directory, `d/${one}/below`)).ino === stats.ino) ?? "";
      renameSync(join(directory, `d/${name}`), join(directory, "elsewhere/away"));
    },
  });
  expect([isMoved, failure, expected.filter((ino) => !seen.has(ino))]).toEqual([true, undefined, []]);
});

it("[node-agent 491] WT4 reports an unreadable entry by its path, and measures all others", async () => {
  const directory = mkdtempSync(join(TOP, "refused-"));
  for (const name of ["a", "b", "c"]) mkdirSync(join(directory, `d/${name}/below`), { recursive: true });
  let visits = 0;
  const failure = await walkTree(directory, {
    visit: ({ place }) => {
      visits++;
      if (String(place).endsWith("/b")) throw Object.assign(new Error("not allowed"), { code: "EACCES" });
    },
  });
  expect([visits, failure?.message]).toEqual([8, 'EACCES in "./d": inspect this path']);
  const broken = walkTree(directory, {
    visit: () => {
      throw new Error("a bug");
    },
  });
  await expect(broken).rejects.toThrow("a bug");
});

it.skipIf(IS_ROOT)("[node-agent 491] WT4 reports a directory without permission, and measures the rest", async () => {
  const { uid, volume } = await newVolume();
  mkdirSync(join(volume, "closed"));
  writeFileSync(join(volume, "file"), "x");
  chmodSync(join(volume, "closed"), 0);
  const usage = await files.volumeUsage(emptyDir(uid));
  chmodSync(join(volume, "closed"), 0o755);
  expect(usage).toMatchObject({ inodesUsed: 3, failure: expect.stringContaining("EACCES") });
});

it("[node-agent 493] measures other volumes during the measurement of a large one, whose pod can be removed at the same time", async () => {
  const [great, small] = [await newVolume(), await newVolume()];
  makeWide(great.volume, 6_000);
  const order: string[] = [];
  const measured = async (uid: string, name: string): Promise<void> => {
    const usage = await files.volumeUsage(emptyDir(uid));
    order.push(usage === undefined ? `${name}: removed` : name);
  };
  const others = Array.from({ length: 3 }, () => measured(great.uid, "great"));
  await measured(small.uid, "small");
  await files.removePodDirectory(great.uid);
  await Promise.all(others);
  expect(order).toEqual(["small", ...Array<string>(3).fill("great: removed")]);
});

it.skipIf(!IS_ROOT)(
  "[node-agent 495] sets the group of a volume beyond the path length limit, but not of link targets (needs root)",
  async () => {
    const outside = join(mkdtempSync(join(TOP, "outside-")), "shadow");
    writeFileSync(outside, "x", { mode: 0o600 });
    const directory = mkdtempSync(join(TOP, "given-"));
    makeDeep(directory, LEVELS / 10, (place) => symlinkSync(outside, join(place, "link")));
    await giveToGroup(directory, GROUP, "readWrite");
    const shown = (path: string): string => `${(statSync(path).mode & 0o7777).toString(8)} ${statSync(path).gid}`;
    const groups = machine("find", directory, "-not", "-group", String(GROUP));
    expect([groups, shown(join(directory, NAME)), shown(outside)]).toEqual(["", `2775 ${GROUP}`, "600 0"]);
  },
);
