/**
 * NodeFiles on this machine's own file systems, in a temporary directory: with the test's own permissions, and without permission to mount.
 */
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  rmdirSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { readFile, readlink } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { createNodeFiles } from "../../shared/node-agent/node-files/node-files.ts";
import { NodeFilesError } from "../../shared/node-agent/ports/node-files.ts";
import type { NodeFiles, VolumeFile, VolumePlace } from "../../shared/node-agent/ports/node-files.ts";
import { recordingLog } from "../unit/recording-log.ts";

const TOP = realpathSync(mkdtempSync(join(tmpdir(), "deltaloop-files-")));
const PATH = process.env["PATH"] ?? "";
const IS_ROOT = process.getuid?.() === 0;
const ALLOWS_MOUNTS = allowsMounts();
const GROUP = 4321;
const UID = "11111111-2222-3333-4444-555555555555";

/** Runs a command of the machine by its original PATH, whatever PATH a test has set. */
function machine(command: string, ...args: readonly string[]): void {
  execFileSync(command, args, { stdio: "ignore", env: { PATH } });
}

/** Like `machine`, with an open file as file descriptor 3. */
function machineWith(file: number, command: string, ...args: readonly string[]): void {
  execFileSync(command, args, { stdio: ["ignore", "ignore", "ignore", file], env: { PATH } });
}

function allowsMounts(): boolean {
  const directory = mkdtempSync(join(TOP, "try-"));
  try {
    machine("mount", "-t", "tmpfs", "tmpfs", directory);
    machine("umount", directory);
    return true;
  } catch {
    return false;
  }
}

/** A directory with `mount` and `umount` commands that fail as without the permission to mount. */
function refusingPath(): string {
  const directory = mkdtempSync(join(TOP, "bin-"));
  for (const command of ["mount", "umount"])
    writeFileSync(join(directory, command), `#!/bin/sh\necho "${command}: only root can do that: permission denied." >&2\nexit 32\n`, {
      mode: 0o755,
    });
  return directory;
}

interface NodeFilesUnderTest {
  readonly files: NodeFiles;
  readonly root: string;
  readonly logs: string;
  readonly links: string;
  readonly warnings: () => number;
}

let count = 0;
function nodeFiles(): NodeFilesUnderTest {
  const top = join(TOP, `rig ${count++}`);
  const [root, logs, links] = [join(top, "kubelet"), join(top, "pods"), join(top, "containers")];
  for (const directory of [root, logs]) mkdirSync(directory, { recursive: true });
  const log = recordingLog();
  const files = createNodeFiles({ rootDir: root, podLogsDir: logs, containerLogsDir: links, log });
  return { files, root, logs, links, warnings: () => log.lines.filter(({ level }) => level === "warn").length };
}

function place(name: string, kind = "configmap"): VolumePlace {
  return { uid: UID, plugin: `kubernetes.io~${kind}`, name };
}

function file(path: string, content: string, fields: Partial<VolumeFile> = {}): VolumeFile {
  return { path, content: Buffer.from(content), mode: 0o644, ...fields };
}

const mode = (path: string) => (statSync(path).mode & 0o7777).toString(8);
const text = (path: string) => readFileSync(path, "utf8");
const visible = (directory: string) => readdirSync(directory).filter((name) => !name.startsWith(".."));
const versions = (directory: string) => readdirSync(directory).filter((name) => name.startsWith("..2"));
/** Returns the mount, such as `tmpfs size=64k`, or undefined if nothing is mounted there. */
function mounted(directory: string): string | undefined {
  const escaped = directory.replaceAll(" ", "\\040");
  return readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .findLast((line) => line.split(" ")[4] === escaped)
    ?.split(" - ")[1];
}

function unmountAll(): void {
  const points = readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .map((line) => (line.split(" ")[4] ?? "").replaceAll("\\040", " "));
  for (const point of points.filter((path) => path.startsWith(`${TOP}/`)).toReversed()) machine("umount", point);
}

afterAll(() => {
  unmountAll();
  rmSync(TOP, { recursive: true, force: true });
});

const machines = [
  {
    machine: ALLOWS_MOUNTS ? "on this machine, with mounts" : "on this machine, WITHOUT mounts",
    path: PATH,
    mounts: ALLOWS_MOUNTS,
  },
  { machine: "where every mount fails", path: refusingPath(), mounts: false },
  { machine: "where there is no mount command", path: mkdtempSync(join(TOP, "bin-")), mounts: false },
];

describe.each(machines)("volumes $machine", ({ path, mounts }) => {
  let r: NodeFilesUnderTest;
  beforeEach(() => {
    process.env["PATH"] = path;
    r = nodeFiles();
    return () => {
      process.env["PATH"] = PATH;
      unmountAll();
    };
  });

  it("[node-agent 108] NF2 exposes each file through a link, with the given content and mode", async () => {
    const files = [
      file("a", "1", { mode: 0o400 }),
      file("d/e/b", "2"),
      file("d/c", "3", { mode: 0o755 }),
      file("empty", "", { mode: 0o666 }),
    ];
    const directory = await r.files.writeVolume(place("v"), files);
    expect(directory).toBe(join(r.root, "pods", UID, "volumes/kubernetes.io~configmap/v"));
    expect(visible(directory)).toEqual(["a", "d", "empty"]);
    expect(readlinkSync(join(directory, "d"))).toBe("..data/d");
    expect(["a", "d/e/b", "d/c", "empty"].map((name) => `${mode(join(directory, name))} ${text(join(directory, name))}`)).toEqual([
      "400 1",
      "644 2",
      "755 3",
      "666 ",
    ]);
    expect([mode(directory), mode(join(directory, "..data/d"))]).toEqual(["777", "755"]);
  });

  it("[node-agent 108] NF2 replaces the payload, exposes no removed files, and deletes the old payload", async () => {
    await r.files.writeVolume(place("v"), [file("a", "1"), file("b", "1"), file("d/x", "1"), file("d/y", "1")]);
    const directory = await r.files.writeVolume(place("v"), [file("a", "2"), file("c", "2"), file("d/y", "1")]);
    expect(visible(directory)).toEqual(["a", "c", "d"]);
    expect([text(join(directory, "a")), readdirSync(join(directory, "d"))]).toEqual(["2", ["y"]]);
    expect(versions(directory)).toEqual([readlinkSync(join(directory, "..data"))]);
  });

  it("NF2 writes only changed payloads, even when just one file was added or removed", async () => {
    const write = async (...files: readonly VolumeFile[]) => readlinkSync(join(await r.files.writeVolume(place("v"), files), "..data"));
    const first = await write(file("a", "1"), file("b/c", "1"));
    expect(await write(file("b/c", "1"), file("a", "1"))).toBe(first);
    const second = await write(file("a", "1"));
    expect(second).not.toBe(first);
    expect(await write(file("a", "1"), file("z", ""))).not.toBe(second);
  });

  it("NF2 a concurrent reader never sees a mixture of two payloads", async () => {
    const write = (version: number) => r.files.writeVolume(place("v"), [file("a", `${version}`), file("b", `${version}`)]);
    const directory = await write(0);
    let done = false;
    const seen: string[] = [];
    const reader = async (): Promise<void> => {
      while (!done) {
        const version = join(directory, await readlink(join(directory, "..data")));
        const pair = await Promise.all(["a", "b"].map((name) => readFile(join(version, name), "utf8").catch(() => "gone")));
        seen.push(pair.join(" "));
        // The file always exists; only one path resolution by the kernel may race with the swap.
        await readFile(join(directory, "a"), "utf8").catch(() => readFile(join(directory, "a"), "utf8"));
      }
    };
    const reading = reader();
    for (let version = 1; version <= 40; version++) await write(version);
    done = true;
    await reading;
    const mixed = seen.filter((pair) => !pair.includes("gone") && new Set(pair.split(" ")).size !== 1);
    expect([mixed, text(join(directory, "b"))]).toEqual([[], "40"]);
    expect(seen.length).toBeGreaterThan(0);
  });

  it("NF1 continues after an interrupted call", async () => {
    const directory = await r.files.writeVolume(place("v"), [file("a", "1"), file("old", "1")]);
    mkdirSync(join(directory, "..2026_01_01_00_00_00.0abc"));
    writeFileSync(join(directory, "..2026_01_01_00_00_00.0abc/a"), "half");
    symlinkSync("..2026_01_01_00_00_00.0abc", join(directory, "..data_tmp"));
    rmSync(join(directory, "a"));
    await r.files.writeVolume(place("v"), [file("a", "1"), file("old", "1")]);
    expect([visible(directory), versions(directory).length]).toEqual([["a", "old"], 1]);
    await r.files.writeVolume(place("v"), [file("a", "2")]);
    expect([visible(directory), text(join(directory, "a"))]).toEqual([["a"], "2"]);
    expect(existsSync(join(directory, "..data_tmp"))).toBe(false);
  });

  it("NF2 keeps links that a container created", async () => {
    const directory = await r.files.writeVolume(place("v"), [file("a", "1")]);
    symlinkSync("/nowhere", join(directory, "mine"));
    await r.files.writeVolume(place("v"), [file("a", "2")]);
    expect(visible(directory)).toEqual(["a", "mine"]);
  });

  it("sets the requested modes, whatever the umask", async () => {
    const before = process.umask(0o077);
    try {
      const directory = await r.files.writeVolume(place("v"), [file("d/a", "1", { mode: 0o664 })]);
      const emptyDir = await r.files.makeEmptyDir(place("e", "empty-dir"));
      expect([mode(directory), mode(join(directory, "d")), mode(join(directory, "d/a")), mode(emptyDir)]).toEqual([
        "777",
        "755",
        "664",
        "777",
      ]);
    } finally {
      process.umask(before);
    }
  });

  it.each(["", ".", "/abs", "..", "../up", "a/../../up", "..data", "..x/y", `${"n".repeat(256)}`, "a\0b"])(
    "rejects the path %j in a volume, and writes nothing",
    async (name) => {
      await expect(r.files.writeVolume(place("v"), [file("good", "1"), file(name, "2")])).rejects.toThrow(NodeFilesError);
      expect(readdirSync(join(r.root, "pods", UID, "volumes/kubernetes.io~configmap/v"))).toEqual([]);
    },
  );

  it("[node-agent 108] NF3 stores secrets on tmpfs, or rejects the volume with a remedy", async () => {
    const write = (name: string, content: string): Promise<string> =>
      r.files.writeVolume(place(name, "secret"), [file("pass", content, { mode: 0o400 })], { tmpfs: true });
    if (!mounts) {
      for (let twice = 0; twice < 2; twice++)
        await expect(write("s", "hunter2")).rejects.toThrow(/^cannot mount a tmpfs for volume "s", .* run the node agent as root/u);
      const all = readdirSync(r.root, { recursive: true, withFileTypes: true });
      expect(all.filter((entry) => entry.isFile())).toEqual([]);
      return;
    }
    const directory = await write("s", "x");
    await write("t", "y");
    await write("s", "z");
    expect([mounted(directory)?.split(" ")[0], r.warnings()]).toEqual(["tmpfs", 0]);
    expect([text(join(directory, "pass")), mode(join(directory, "pass"))]).toEqual(["z", "400"]);
  });

  it("NF3 removes a secret from disk that an earlier agent left there", async () => {
    const directory = await r.files.writeVolume(place("s", "secret"), [file("pass", "old")]);
    await expect(r.files.writeVolume(place("s", "secret"), [file("pass", "new")], { tmpfs: true })).rejects.toThrow(NodeFilesError);
    expect(text(join(directory, "pass"))).toBe("old");
  });

  it("[node-agent 110] creates a world-writable emptyDir", async () => {
    const directory = await r.files.makeEmptyDir(place("e", "empty-dir"), { sizeLimitBytes: 65_536 });
    expect([directory, mode(directory), mounted(directory)]).toEqual([
      join(r.root, "pods", UID, "volumes/kubernetes.io~empty-dir/e"),
      "777",
      undefined,
    ]);
  });

  it("[node-agent 110] NF3 creates a memory-backed emptyDir with the requested size limit", async () => {
    const directory = await r.files.makeEmptyDir(place("m", "empty-dir"), { medium: "Memory", sizeLimitBytes: 65_536 });
    expect(statSync(directory).mode & 0o777).toBe(0o777);
    if (mounts) expect(mounted(directory)).toContain("size=64k");
    else expect([mounted(directory), r.warnings()]).toEqual([undefined, 1]);
  });

  it("NF1 does not change an emptyDir in use", async () => {
    for (const options of [{}, { medium: "Memory" }] as const) {
      const name = place(`e${options.medium ?? ""}`, "empty-dir");
      const directory = await r.files.makeEmptyDir(name, options);
      writeFileSync(join(directory, "data"), "kept");
      chmodSync(directory, 0o700);
      expect(await r.files.makeEmptyDir(name, options)).toBe(directory);
      expect([mode(directory), text(join(directory, "data"))]).toEqual(["700", "kept"]);
    }
  });

  it("recreates an emptyDir that was removed", async () => {
    const directory = await r.files.makeEmptyDir(place("e", "empty-dir"));
    rmdirSync(directory);
    await r.files.makeEmptyDir(place("e", "empty-dir"));
    expect(mode(directory)).toBe("777");
  });

  it.skipIf(!IS_ROOT)("sets the pod's group on a volume (needs root)", async () => {
    const payload = [file("a", "1", { mode: 0o600, uid: 1000 }), file("d/b", "2", { mode: 0o400 })];
    const medium = mounts ? ({ tmpfs: true } as const) : {};
    const volume = await r.files.writeVolume(place("v", "projected"), payload, { ...medium, fsGroup: GROUP });
    const shown = (path: string) => `${mode(path).slice(-4)} ${statSync(path).uid} ${statSync(path).gid}`;
    expect(["a", "d", "d/b"].map((name) => shown(join(volume, name)))).toEqual([`640 1000 ${GROUP}`, `2755 0 ${GROUP}`, `440 0 ${GROUP}`]);
    const emptyDir = await r.files.makeEmptyDir(place("e", "empty-dir"), { fsGroup: GROUP });
    await r.files.makeSubPath(UID, emptyDir, "sub/path");
    expect(shown(join(emptyDir, "sub/path"))).toBe(`2777 0 ${GROUP}`);
    expect([shown(volume), shown(emptyDir)]).toEqual([mounts ? `3777 0 ${GROUP}` : `2777 0 ${GROUP}`, `2777 0 ${GROUP}`]);
    await r.files.writeVolume(place("v", "projected"), [file("a", "new", { mode: 0o600, uid: 1000 })], { ...medium, fsGroup: GROUP });
    expect(shown(join(volume, "a"))).toBe(`640 1000 ${GROUP}`);
  });

  it.skipIf(!IS_ROOT)("does not set the pod's group on link targets (needs root)", async () => {
    const outside = mkdtempSync(join(TOP, "host-"));
    const volume = await r.files.makeEmptyDir(place("e", "empty-dir"));
    symlinkSync(outside, join(volume, "link"));
    rmSync(join(r.root, "pods", UID, "plugins"), { recursive: true });
    await r.files.makeEmptyDir(place("e", "empty-dir"), { fsGroup: GROUP });
    expect([mode(outside), statSync(outside).gid, lstatSync(join(volume, "link")).gid]).toEqual(["700", 0, GROUP]);
  });

  it("creates a subPath with the volume's mode, and returns the same path each time", async () => {
    const volume = await r.files.makeEmptyDir(place("e", "empty-dir"));
    const first = await r.files.makeSubPath(UID, volume, "a/b");
    writeFileSync(join(volume, "a/b/data"), "x");
    expect([mode(join(volume, "a")), mode(join(volume, "a/b")), text(join(first, "data"))]).toEqual(["777", "777", "x"]);
    expect(await r.files.makeSubPath(UID, volume, "a/b")).toBe(first);
    expect(first === join(volume, "a/b")).toBe(!mounts);
  });

  it.each([0o1777, 0o2775, 0o3770, 0o755])("creates a subPath with all mode bits of its volume, even setgid (%d)", async (bits) => {
    const volume = await r.files.makeEmptyDir(place("e", "empty-dir"));
    chmodSync(volume, bits);
    await r.files.makeSubPath(UID, volume, "a/b");
    expect(["a", "a/b"].map((path) => statSync(join(volume, path)).mode & 0o7777)).toEqual([bits, bits]);
  });

  it("[node-agent 108] mounts a single file of a volume as subPath, and its newer version for the next container", async () => {
    const volume = await r.files.writeVolume(place("c"), [file("key", "1")]);
    const first = await r.files.makeSubPath(UID, volume, "key");
    expect(text(first)).toBe("1");
    await r.files.writeVolume(place("c"), [file("key", "2")]);
    expect(text(await r.files.makeSubPath(UID, volume, "key"))).toBe("2");
  });

  it("mounts the newer version of a file for the next container while a process uses the older one", async ({ skip }) => {
    skip(!mounts, "without mounts a subPath is its checked path");
    const volume = await r.files.writeVolume(place("c"), [file("key", "1")]);
    const used = openSync(await r.files.makeSubPath(UID, volume, "key"), "r");
    try {
      await r.files.writeVolume(place("c"), [file("key", "2")]);
      expect(text(await r.files.makeSubPath(UID, volume, "key"))).toBe("2");
      expect(readFileSync(used, "utf8")).toBe("1");
    } finally {
      closeSync(used);
    }
  });

  it("replaces a subPath whose mount is dead", async ({ skip }) => {
    skip(!mounts || !existsSync("/dev/fuse"), "needs mounts and FUSE");
    const volume = await r.files.makeEmptyDir(place("e", "empty-dir"));
    const path = await r.files.makeSubPath(UID, volume, "sub");
    const server = openSync("/dev/fuse", "r+");
    const options = "fd=3,rootmode=40000,user_id=0,group_id=0";
    machineWith(server, "mount", "-i", "-t", "fuse", "-o", options, "fuse", path);
    closeSync(server);
    expect(() => statSync(path)).toThrow("ENOTCONN");
    writeFileSync(join(volume, "sub/data"), "x");
    expect(text(join(await r.files.makeSubPath(UID, volume, "sub"), "data"))).toBe("x");
  });

  it("creates no subPath outside of its volume", async () => {
    const volume = await r.files.makeEmptyDir(place("e", "empty-dir"));
    const outside = join(r.root, "outside");
    mkdirSync(outside);
    symlinkSync(outside, join(volume, "out"));
    symlinkSync("../../../..", join(volume, "up"));
    symlinkSync(join(volume, "nothing"), join(volume, "dangling"));
    for (const subPath of ["out", "out/new", "up", "up/new", "dangling", "dangling/x", "/etc", "..", "a/../..", "a/../b", "x\0y"])
      await expect(r.files.makeSubPath(UID, volume, subPath), subPath).rejects.toThrow(NodeFilesError);
    expect(readdirSync(outside)).toEqual([]);
  });

  it("keeps the mount of a subPath that a container later replaces with a link", async ({ skip }) => {
    skip(!mounts, "without mounts a subPath is its checked path, which can be exchanged");
    const volume = await r.files.makeEmptyDir(place("e", "empty-dir"));
    const path = await r.files.makeSubPath(UID, volume, "sub");
    writeFileSync(join(volume, "sub/data"), "x");
    renameSync(join(volume, "sub"), join(volume, "moved"));
    symlinkSync("/etc", join(volume, "sub"));
    expect(readdirSync(path)).toEqual(["data"]);
    await expect(r.files.makeSubPath(UID, volume, "sub")).rejects.toThrow(/is a link to a target outside the volume/u);
    rmSync(join(volume, "sub"));
    writeFileSync(join(volume, "sub"), "now a file");
    expect(text(await r.files.makeSubPath(UID, volume, "sub"))).toBe("now a file");
  });

  it("[node-agent 225] keeps the mount of a subPath in a hostPath that another pod replaces", async () => {
    const host = mkdtempSync(join(TOP, "host-"));
    const path = await r.files.makeSubPath(UID, host, "a");
    expect(path === join(host, "a")).toBe(!mounts);
    writeFileSync(join(host, "a/data"), "x");
    renameSync(join(host, "a"), join(host, "moved"));
    symlinkSync("/etc", join(host, "a"));
    if (mounts) expect(readdirSync(path)).toEqual(["data"]);
    await expect(r.files.makeSubPath(UID, host, "a")).rejects.toThrow(/is a link to a target outside the volume/u);
    await r.files.removePodDirectory(UID);
    expect([existsSync(path) && mounts, text(join(host, "moved/data"))]).toEqual([false, "x"]);
  });

  it("[node-agent 226] measures a pod's disk usage, counts each file once, and counts no file outside the pod", async () => {
    const volume = await r.files.makeEmptyDir(place("e", "empty-dir"));
    writeFileSync(join(volume, "file"), Buffer.alloc(100_000, 1));
    linkSync(join(volume, "file"), join(volume, "again"));
    symlinkSync("/usr", join(volume, "usr"));
    mkdirSync(join(r.logs, "ns_p_uid/app"), { recursive: true });
    writeFileSync(join(r.logs, "ns_p_uid/app/0.log"), Buffer.alloc(9000, 1));
    await r.files.writeHostsFile(UID, "127.0.0.1 localhost");
    const { logs, hostsFile } = await r.files.podDiskUsage(UID, "ns_p_uid");
    const ofVolume = await r.files.volumeUsage(place("e", "empty-dir"));
    const used = [ofVolume, logs.get("app"), hostsFile].map((one) => Math.trunc((one?.usedBytes ?? 0) / 4096));
    expect([used[0], used[1], used[2], ofVolume?.inodesUsed, logs.get("app")?.inodesUsed]).toEqual([
      expect.toSatisfy((pages: number) => pages >= 24 && pages <= 26),
      expect.toSatisfy((pages: number) => pages >= 2 && pages <= 4),
      expect.toSatisfy((pages: number) => pages <= 1),
      3,
      2,
    ]);
    const nothing = await r.files.podDiskUsage("gone", "gone");
    expect([nothing.logs.size, nothing.hostsFile.usedBytes]).toEqual([0, 0]);
  });

  it("[node-agent 135] NF7 merges waiting checkpoint writes into one with the last content", async () => {
    let state = 0;
    const asked: number[] = [];
    const write = async (): Promise<void> => {
      const own = ++state;
      await r.files.writeCheckpoint("state.json", async () => {
        asked.push(state);
        return String(state);
      });
      expect(Number(await r.files.readCheckpoint("state.json"))).toBeGreaterThanOrEqual(own);
    };
    await Promise.all([write(), write(), write(), write()]);
    expect([asked.length, asked.at(-1)]).toEqual([expect.toSatisfy((times: number) => times <= 2), 4]);
    await write();
    expect([asked.at(-1), await r.files.readCheckpoint("state.json")]).toEqual([5, "5"]);
    await Promise.all(["a", "b", "c"].map((own) => r.files.writeCheckpoint("state.json", async () => own)));
    expect(await r.files.readCheckpoint("state.json")).toBe("c");
    await expect(r.files.writeCheckpoint("state.json", async () => Promise.reject(new Error("nothing to say")))).rejects.toThrow(
      "nothing to say",
    );
    await write();
    expect(await r.files.readCheckpoint("state.json")).toBe("6");
  });

  it("[node-agent 135] rewrites a huge hosts file without reading it", async () => {
    const path = await r.files.writeHostsFile(UID, "127.0.0.1 localhost");
    truncateSync(path, 64 * 2 ** 30); // a sparse file: uses no blocks until it is written
    expect(await r.files.writeHostsFile(UID, "127.0.0.1 localhost")).toBe(path);
    expect(text(path)).toBe("127.0.0.1 localhost");
    writeFileSync(path, "127.0.0.1 Localhost");
    await r.files.writeHostsFile(UID, "127.0.0.1 localhost");
    expect(text(path)).toBe("127.0.0.1 localhost");
  });

  it("[node-agent 135] NF2 rewrites a volume of many files only when one of them has changed", async () => {
    const many = (of: string) => Array.from({ length: 150 }, (_, i) => file(`key-${i}`, i === 149 ? of : "same"));
    const directory = await r.files.writeVolume(place("many"), many("old"));
    const before = versions(directory);
    await r.files.writeVolume(place("many"), many("old"));
    expect(versions(directory)).toEqual(before);
    await r.files.writeVolume(place("many"), many("new"));
    expect([versions(directory).length, versions(directory)[0] === before[0], text(join(directory, "key-149"))]).toEqual([1, false, "new"]);
    await r.files.writeVolume(place("many"), [file("key-1", "left")]);
    expect(visible(directory)).toEqual(["key-1"]);
  });

  it("[node-agent 226] reports the space and the inodes of a file system, and which paths share one", async () => {
    const [root, logs] = [await r.files.diskSpace(r.root), await r.files.diskSpace(r.logs)];
    expect([root?.device, root?.inodes]).toEqual([logs?.device, expect.any(Number)]);
    expect((root?.capacityBytes ?? 0) >= (root?.availableBytes ?? Infinity)).toBe(true);
    expect(await r.files.diskSpace(join(r.root, "nothing"))).toBeUndefined();
    if (mounts) {
      const memory = await r.files.makeEmptyDir(place("m", "empty-dir"), { medium: "Memory" });
      expect((await r.files.diskSpace(memory))?.device).not.toBe(root?.device);
    }
  });

  it("NF1 NF4 removes a pod's directory with all its mounts, and may be called repeatedly", async () => {
    await r.files.makePodDirectories(UID);
    if (mounts) await r.files.writeVolume(place("s", "secret"), [file("pass", "x")], { tmpfs: true });
    const volume = await r.files.makeEmptyDir(place("m", "empty-dir"), { medium: "Memory" });
    await r.files.makeSubPath(UID, volume, "sub");
    symlinkSync("/etc", join(volume, "etc"));
    expect(await r.files.podsWithDirectories()).toEqual([UID]);
    await r.files.removePodDirectory(UID);
    expect([await r.files.podsWithDirectories(), existsSync("/etc/passwd"), mounted(volume)]).toEqual([[], true, undefined]);
    await r.files.removePodDirectory(UID);
  });
});

describe.runIf(ALLOWS_MOUNTS)("changing mounts", () => {
  let r: NodeFilesUnderTest;
  beforeEach(() => {
    r = nodeFiles();
    return () => {
      process.env["PATH"] = PATH;
      unmountAll();
    };
  });

  it("NF3 mounts again after a reboot", async () => {
    const name = place("s", "secret");
    const directory = await r.files.writeVolume(name, [file("pass", "x")], { tmpfs: true });
    machine("umount", directory);
    expect(readdirSync(directory)).toEqual([]);
    await r.files.writeVolume(name, [file("pass", "x")], { tmpfs: true });
    expect([mounted(directory)?.split(" ")[0], text(join(directory, "pass"))]).toEqual(["tmpfs", "x"]);
  });

  it("NF3 mounts nothing over files that containers have open", async () => {
    process.env["PATH"] = refusingPath();
    const directory = await r.files.makeEmptyDir(place("m", "empty-dir"), { medium: "Memory" });
    writeFileSync(join(directory, "data"), "kept");
    process.env["PATH"] = PATH;
    await r.files.makeEmptyDir(place("m", "empty-dir"), { medium: "Memory" });
    expect([mounted(directory), text(join(directory, "data"))]).toEqual([undefined, "kept"]);
  });

  it("NF1 mounts once, even when the first call was interrupted", async () => {
    const directory = await r.files.makeEmptyDir(place("m", "empty-dir"), { medium: "Memory" });
    rmSync(join(r.root, "pods", UID, "plugins"), { recursive: true });
    await r.files.makeEmptyDir(place("m", "empty-dir"), { medium: "Memory" });
    machine("umount", directory);
    expect(mounted(directory)).toBeUndefined();
  });

  it("NF4 unmounts a directory of the node, even if it is mounted several times, and keeps its content", async () => {
    const host = mkdtempSync(join(TOP, "host-"));
    writeFileSync(join(host, "precious"), "x");
    const volume = await r.files.makeEmptyDir(place("m", "empty-dir"), { medium: "Memory" });
    const inside = join(volume, "a b");
    mkdirSync(inside);
    for (let layer = 0; layer < 2; layer++) machine("mount", "--bind", host, inside);
    await r.files.removePodDirectory(UID);
    expect([text(join(host, "precious")), existsSync(join(r.root, "pods", UID))]).toEqual(["x", false]);
  });

  it("NF4 NF5 removes nothing below a mount, and reports the mount", async () => {
    const host = mkdtempSync(join(TOP, "host-"));
    writeFileSync(join(host, "precious"), "x");
    const volume = await r.files.makeEmptyDir(place("e", "empty-dir"));
    machine("mount", "--bind", host, volume);
    process.env["PATH"] = refusingPath();
    await expect(r.files.removePodDirectory(UID)).rejects.toThrow(new RegExp(`failed to unmount ${volume} .*by hand`, "u"));
    expect(text(join(host, "precious"))).toBe("x");
  });
});

describe("hostPath", () => {
  const host = mkdtempSync(join(TOP, "host-"));
  mkdirSync(join(host, "dir"));
  writeFileSync(join(host, "file"), "");
  symlinkSync("dir", join(host, "link"));
  const { files } = nodeFiles();

  it.each([
    { type: "", path: "nothing" },
    { type: "Directory", path: "dir" },
    { type: "Directory", path: "link" },
    { type: "DirectoryOrCreate", path: "dir" },
    { type: "DirectoryOrCreate", path: "new/dir", made: "755" },
    { type: "File", path: "file" },
    { type: "FileOrCreate", path: "file" },
    { type: "FileOrCreate", path: "newFile", made: "644" },
  ])("[node-agent 110] a hostPath of type “$type” accepts the path “$path”", async ({ type, path, made }) => {
    await expect(files.checkHostPath(join(host, path), type)).resolves.toBeUndefined();
    if (made !== undefined) expect(mode(join(host, path))).toBe(made);
    else if (type === "") expect(existsSync(join(host, path))).toBe(false);
  });

  it.each([
    { type: "Directory", path: "file", want: /is not a directory, it's a File$/u },
    { type: "Directory", path: "none", want: /doesn't exist/u },
    { type: "DirectoryOrCreate", path: "file", want: /is not a directory/u },
    { type: "File", path: "dir", want: /is not a file, it's a Directory$/u },
    { type: "File", path: "none", want: /doesn't exist/u },
    { type: "FileOrCreate", path: "dir", want: /is not a file/u },
    { type: "FileOrCreate", path: "none/file", want: /none\/file/u },
    { type: "Socket", path: "file", want: /is not a socket file/u },
    { type: "CharDevice", path: "file", want: /is not a character device/u },
    { type: "BlockDevice", path: "dir", want: /is not a block device/u },
    { type: "Pipe", path: "file", want: /Pipe is an invalid volume type/u },
    { type: "constructor", path: "none", want: /constructor is an invalid volume type/u },
    { type: "", path: "../x/../y", want: /must be absolute/u },
  ])("[node-agent 110] a hostPath of type “$type” rejects the path “$path”", async ({ type, path, want }) => {
    await expect(files.checkHostPath(`${host}/${path}`, type)).rejects.toThrow(want);
    await expect(files.checkHostPath(`${host}/${path}`, type)).rejects.toThrow(NodeFilesError);
  });

  it("recognizes sockets and devices", async () => {
    const socket = join(host, "s");
    const server = createServer();
    await new Promise<void>((resolve) => void server.listen(socket, resolve));
    await expect(files.checkHostPath(socket, "Socket")).resolves.toBeUndefined();
    await new Promise((resolve) => void server.close(resolve));
    await expect(files.checkHostPath("/dev/null", "CharDevice")).resolves.toBeUndefined();
    await expect(files.checkHostPath("/dev/null", "File")).rejects.toThrow("/dev/null is not a file, it's a CharDevice");
  });
});

describe("pod files", () => {
  it("creates a pod's directories without access for other users", async () => {
    const { files, root } = nodeFiles();
    await files.makePodDirectories(UID);
    await files.makePodDirectories(UID);
    const pod = join(root, "pods", UID);
    expect([pod, join(pod, "volumes"), join(pod, "plugins")].map(mode)).toEqual(["750", "750", "750"]);
  });

  it("returns no pods for an empty root", async () => {
    expect(await nodeFiles().files.podsWithDirectories()).toEqual([]);
  });

  it("writes the hosts file in place, because containers have it open", async () => {
    const { files, root } = nodeFiles();
    const path = await files.writeHostsFile(UID, "127.0.0.1 localhost\n");
    const { ino, mtimeMs } = statSync(path);
    linkSync(path, join(root, "as the container sees it"));
    await files.writeHostsFile(UID, "127.0.0.1 localhost\n");
    expect(statSync(path).mtimeMs).toBe(mtimeMs);
    await files.writeHostsFile(UID, "x\n");
    expect([path, statSync(path).ino, text(join(root, "as the container sees it")), mode(path)]).toEqual([
      join(root, "pods", UID, "etc-hosts"),
      ino,
      "x\n",
      "644",
    ]);
  });

  it("reads the node's own files", async () => {
    expect(await nodeFiles().files.readHostFile("hosts")).toBe(readFileSync("/etc/hosts", "utf8"));
  });

  it("rotates a large log, compresses the previous file, and removes the oldest file", async () => {
    const { files } = nodeFiles();
    const folder = await files.makeLogDirectory("shop_web_u/main");
    const path = join(folder, "0.log");
    const rotate = async (second: number, line = `line ${second}\n`): Promise<boolean> => {
      writeFileSync(path, line);
      return (await files.rotateLog(path, { bytesMax: 4, filesMax: 3, nowMs: Date.UTC(2026, 0, 2, 3, 4, second) })) !== undefined;
    };
    expect([await rotate(0, "abcd"), readdirSync(folder)]).toEqual([false, ["0.log"]]);
    expect([await rotate(1), readdirSync(folder)]).toEqual([true, ["0.log.20260102-030401"]]);
    writeFileSync(join(folder, "0.log.20260102-030401.tmp"), "half");
    expect([await rotate(2), readdirSync(folder).toSorted()]).toEqual([true, ["0.log.20260102-030401.gz", "0.log.20260102-030402"]]);
    expect([await rotate(3), readdirSync(folder).toSorted()]).toEqual([true, ["0.log.20260102-030402.gz", "0.log.20260102-030403"]]);
    expect(gunzipSync(readFileSync(join(folder, "0.log.20260102-030402.gz"))).toString()).toBe("line 2\n");
    await files.removeContainerLogs(path, "a.log");
    expect(readdirSync(folder)).toEqual([]);
  });

  it("ignores files that are not rotated logs [node-agent 503]", async () => {
    const { files } = nodeFiles();
    const folder = await files.makeLogDirectory("shop_web_u/main");
    const path = join(folder, "0.log");
    execFileSync("mkfifo", [join(folder, "0.log.20260102-030400")]);
    symlinkSync("/dev/zero", join(folder, "0.log.20260102-030401"));
    writeFileSync(join(folder, "0.log.20260102-030402"), "line\n");
    writeFileSync(path, "line\n");
    const limits = { bytesMax: 4, filesMax: 6, nowMs: Date.UTC(2026, 0, 2, 3, 4, 5) };
    expect(await files.rotateLog(path, limits)).toBeDefined();
    const left = ["030400", "030401", "030402.gz", "030405"].map((end) => `0.log.20260102-${end}`);
    expect(readdirSync(folder).toSorted()).toEqual(left);
  });

  it("restores a log that the runtime did not reopen, and reads only its own logs", async () => {
    const { files, root } = nodeFiles();
    const path = join(await files.makeLogDirectory("shop_web_u/main"), "0.log");
    const limits = { bytesMax: 0, filesMax: 5, nowMs: 0 };
    writeFileSync(path, "old\n");
    await (await files.rotateLog(path, limits))?.undo();
    expect(readFileSync(path, "utf8")).toBe("old\n");
    const rotated = await files.rotateLog(path, limits);
    writeFileSync(path, "new\n");
    await rotated?.undo();
    expect(readFileSync(path, "utf8")).toBe("new\n");
    writeFileSync(join(root, "other.log"), "long");
    expect(await files.rotateLog(join(root, "other.log"), limits)).toBeUndefined();
  });

  it("[node-agent 93] accepts a termination message of any user, up to its length limit", async () => {
    const { files, root } = nodeFiles();
    const path = await files.makeTerminationLog(UID, "app");
    expect(path).toMatch(new RegExp(`^${root}/pods/${UID}/containers/app/[0-9a-f]{8}$`, "u"));
    expect([mode(path), await files.readTerminationLog(path, 4096), (await files.makeTerminationLog(UID, "app")) === path]).toEqual([
      "666",
      "",
      false,
    ]);
    writeFileSync(path, "0123456789");
    expect([await files.readTerminationLog(path, 4096), await files.readTerminationLog(path, 4)]).toEqual(["0123456789", "6789"]);
  });

  it("[node-agent 93] reads no termination message that is missing, not a regular file, or outside of its roots", async () => {
    const { files, root } = nodeFiles();
    const path = await files.makeTerminationLog(UID, "app");
    const directory = join(path, "..");
    symlinkSync("/etc/passwd", join(directory, "link"));
    symlinkSync("/etc", join(directory, "etc"));
    writeFileSync(join(root, "other"), "x");
    machine("mkfifo", join(directory, "fifo"));
    const none = ["gone", "fifo", "link", "etc/passwd", ".", "../../../../../other"].map((name) => join(directory, name));
    for (const name of [...none, "/etc/passwd"]) expect(await files.readTerminationLog(name, 10), name).toBeUndefined();
  });

  it("NF5 reports the path and a remedy, and never a file's content", async () => {
    const { files, root } = nodeFiles();
    mkdirSync(join(root, "pods"), { recursive: true });
    writeFileSync(join(root, "pods", UID), "in the way");
    const failed = files.writeVolume(place("s", "secret"), [file("pass", "hunter2")], { tmpfs: true });
    await expect(failed).rejects.toThrow(NodeFilesError);
    await expect(failed).rejects.toThrow(new RegExp(`${join(root, "pods", UID)}.*move it away`, "u"));
    await expect(failed).rejects.not.toThrow(/hunter2|in the way/u);
  });

  it.each(["", ".", "..", "../..", "a/b", "/etc", "a\0b"])("rejects the log name %j", async (name) => {
    const { files, root } = nodeFiles();
    const calls = [
      files.makePodDirectories(name),
      files.removePodDirectory(name),
      files.writeVolume({ ...place("v"), uid: name }, []),
      files.writeVolume({ ...place("v"), plugin: name }, []),
      files.makeEmptyDir(place(name)),
      files.writeHostsFile(name, ""),
      files.makeTerminationLog(name, "c"),
      files.makeTerminationLog(UID, name),
    ];
    for (const call of await Promise.allSettled(calls))
      expect(call).toMatchObject({ status: "rejected", reason: { name: "NodeFilesError" } });
    expect(readdirSync(root)).toEqual([]);
  });
});

describe("container logs", () => {
  const line = (message: string, tag = "F", stream = "stdout") => `2026-03-01T10:00:00.000000001Z ${stream} ${tag} ${message}\n`;

  it("creates log directories that other programs can read, and finds the newest log in them", async () => {
    const { files, logs } = nodeFiles();
    const directory = await files.makeLogDirectory("ns_pod_uid/app");
    expect([directory, mode(directory), mode(join(logs, "ns_pod_uid"))]).toEqual([join(logs, "ns_pod_uid/app"), "755", "755"]);
    expect(await files.highestLogNumber("ns_pod_uid/app")).toBeUndefined();
    for (const name of ["0.log", "2.log.20260301-100000.gz", "10.log", "11.txt", "x12.log", "13.logs"])
      writeFileSync(join(directory, name), "");
    expect([await files.highestLogNumber("ns_pod_uid/app"), await files.highestLogNumber(directory)]).toEqual([10, 10]);
    expect(await files.highestLogNumber("ns_pod_uid/nothing")).toBeUndefined();
  });

  const tails: { name: string; log: string; linesMax?: number; bytesMax?: number; want: string }[] = [
    { name: "all lines of a short log", log: line("a") + line("b", "F", "stderr"), want: "a\nb\n" },
    { name: "the last lines", log: line("a") + line("b") + line("c"), linesMax: 2, want: "b\nc\n" },
    { name: "the last bytes of the last lines", log: line("aaaa") + line("bbbb"), bytesMax: 7, want: "aa\nbbbb\n".slice(-7) },
    { name: "the joined parts of a line that the runtime split", log: line("a", "P") + line("b", "P") + line("c"), want: "abc\n" },
    { name: "a message without a newline at its end", log: line("DONE", "P"), want: "DONE" },
    { name: "a line with more than one tag", log: line("a", "F:x"), want: "a\n" },
    { name: "a line that is still being written", log: line("a") + line("b").trimEnd(), linesMax: 1, want: "a\nb\n" },
    { name: "no line that is not in the log format", log: `rubbish\n${line("a")}`, want: "a\n" },
    { name: "spaces and empty lines", log: line("  a  ") + line(""), want: "  a  \n\n" },
    { name: "nothing if the log is empty", log: "", want: "" },
    {
      name: "lines in Docker's format",
      log: ["a\n", "b", "c\n"].map((log) => `${JSON.stringify({ log, stream: "stdout", time: "2026-03-01T10:00:00Z" })}\n`).join(""),
      linesMax: 2,
      want: "bc\n",
    },
    { name: "a truncated character as U+FFFD", log: line("aü"), bytesMax: 2, want: "\ufffd\n" },
    {
      name: "the end of a message that is longer than a block",
      log: line("x".repeat(16_000)).repeat(20) + line("end"),
      linesMax: 2,
      bytesMax: 8,
      want: "xxx\nend\n",
    },
  ];
  it.each(tails)("[node-agent 93] the tail of a container log contains $name", async ({ log, linesMax = 80, bytesMax = 2048, want }) => {
    const { files } = nodeFiles();
    const path = join(await files.makeLogDirectory("p/c"), "0.log");
    writeFileSync(path, log);
    expect(await files.tailLog(path, { linesMax, bytesMax })).toBe(want);
  });

  it("[node-agent 93] returns nothing for a log that is missing or outside of the log directory", async () => {
    const { files, logs } = nodeFiles();
    const limits = { linesMax: 80, bytesMax: 2048 };
    writeFileSync(join(TOP, "other.log"), line("a"));
    expect([await files.tailLog(join(logs, "x/0.log"), limits), await files.tailLog(join(TOP, "other.log"), limits)]).toEqual(["", ""]);
  });

  it("links to an existing log, and removes only this log, its rotated files and its link", async () => {
    const { files, links } = nodeFiles();
    const directory = await files.makeLogDirectory("p/c");
    const path = join(directory, "1.log");
    await files.linkContainerLog("early.log", path);
    expect(existsSync(links)).toBe(false);
    for (const name of ["1.log", "1.log.20260301-100000", "1.log.20260301-090000.gz", "11.log", "0.log"])
      writeFileSync(join(directory, name), "");
    for (let time = 0; time < 2; time++) await files.linkContainerLog("app-1.log", path);
    await files.linkContainerLog("app-0.log", path);
    await files.linkContainerLog("app-0.log", join(directory, "0.log"));
    await files.removeContainerLogs(join(directory, "2.log"), "app-0.log");
    expect(readlinkSync(join(links, "app-1.log"))).toBe(path);
    for (let time = 0; time < 2; time++) await files.removeContainerLogs(path, "app-1.log");
    expect([readdirSync(directory), readdirSync(links)]).toEqual([["0.log", "11.log"], ["app-0.log"]]);
  });

  it("removes logs of removed pods, and dangling links", async () => {
    const { files, logs, links } = nodeFiles();
    const directory = await files.makeLogDirectory("a/c");
    await files.makeLogDirectory("b/c");
    writeFileSync(join(logs, "a file"), "");
    writeFileSync(join(directory, "0.log"), "");
    await files.linkContainerLog("a.log", join(directory, "0.log"));
    writeFileSync(join(links, "no link"), "");
    expect((await files.logDirectories()).toSorted()).toEqual(["a", "b"]);
    await files.removeDeadLinks();
    expect(readdirSync(links)).toEqual(["a.log", "no link"]);
    for (let time = 0; time < 2; time++) await files.removeLogDirectory("a");
    await files.removeDeadLinks();
    expect([await files.logDirectories(), readdirSync(links)]).toEqual([["b"], ["no link"]]);
  });

  it.each(["..", "../x", "/etc", "", "a/../../x"])("changes nothing outside of the log directory: %j", async (directory) => {
    const { files, logs } = nodeFiles();
    writeFileSync(join(logs, "../keep.log"), "");
    const calls = [files.makeLogDirectory(directory), files.removeLogDirectory(directory), files.linkContainerLog("l", directory)];
    for (const call of await Promise.allSettled(calls))
      expect(call).toMatchObject({ status: "rejected", reason: { name: "NodeFilesError" } });
    await files.removeContainerLogs(join(logs, "../keep.log"), "keep.log");
    expect([existsSync(join(logs, "../keep.log")), lstatSync(logs).isDirectory()]).toEqual([true, true]);
  });
});
