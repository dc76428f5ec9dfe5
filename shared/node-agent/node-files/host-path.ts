/** Checks the type of a hostPath, and creates the path if its type allows that (node-agent §10). */
import type { Stats } from "node:fs";
import { mkdir, open, stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { ownAt } from "@deltaloop/base";
import { NodeFilesError } from "../ports/node-files.ts";
import { errorCode, ifExists } from "./errors.ts";

interface Kind {
  readonly is: (stats: Stats) => boolean;
  readonly words: string;
}

const DIRECTORY: Kind = { is: (stats) => stats.isDirectory(), words: "directory" };
const FILE: Kind = { is: (stats) => stats.isFile(), words: "file" };
const KINDS: Readonly<Record<string, Kind>> = {
  DirectoryOrCreate: DIRECTORY,
  Directory: DIRECTORY,
  FileOrCreate: FILE,
  File: FILE,
  Socket: { is: (stats) => stats.isSocket(), words: "socket file" },
  CharDevice: { is: (stats) => stats.isCharacterDevice(), words: "character device" },
  BlockDevice: { is: (stats) => stats.isBlockDevice(), words: "block device" },
};

/** @throws {NodeFilesError} if the path does not match the type. Source: pkg/volume/hostpath/host_path.go checkType. */
export async function checkHostPath(path: string, type: string): Promise<void> {
  if (!isAbsolute(path) || path.split("/").includes("..")) throw new NodeFilesError(`hostPath ${path} must be absolute and without ".."`);
  if (type === "") return;
  const kind = ownAt(KINDS, type);
  if (kind === undefined) throw new NodeFilesError(`${type} is an invalid volume type`);
  const stats = (await ifExists(stat(path))) ?? (await make(path, type));
  if (stats === undefined) throw new NodeFilesError(`hostPath ${path} doesn't exist: create it, or use a volume type that creates it`);
  if (kind.is(stats)) return;
  const found = typeOf(stats);
  throw new NodeFilesError(
    found === undefined
      ? `hostPath type check failed, ${path} is not a ${kind.words}, unable to determine its type`
      : `hostPath type check failed: ${path} is not a ${kind.words}, it's a ${found}`,
  );
}

/** Returns the API's name for the type of a file. Source: pkg/volume/util/hostutil/hostutil_linux.go GetFileType. */
function typeOf(stats: Stats): string | undefined {
  return Object.entries(KINDS).find(([name, { is }]) => !name.endsWith("OrCreate") && is(stats))?.[0];
}

/** Creates a directory or a file if the type allows it. Never creates the parent directory of a file. */
async function make(path: string, type: string): Promise<Stats | undefined> {
  if (type === "DirectoryOrCreate") await mkdir(path, { recursive: true, mode: 0o755 });
  else if (type === "FileOrCreate") await makeFile(path);
  else return undefined;
  return stat(path);
}

async function makeFile(path: string): Promise<void> {
  try {
    await (await open(path, "wx", 0o644)).close();
  } catch (error) {
    if (errorCode(error) !== "EEXIST") throw error; // created concurrently; the caller checks its type
  }
}
