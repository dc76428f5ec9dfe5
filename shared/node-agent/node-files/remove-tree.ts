/**
 * Removes a directory tree in which containers could create files and mounts (NF4).
 *
 * RT1 each step uses a name in an open directory, never a path or a link. A concurrent rename cannot redirect it, and no tree is too deep.
 * RT2 non-empty subdirectories are moved up to the top of the tree, and then their parent is removed. Each directory is therefore read
 *     once, and four descriptors are enough. Only the agent can enter the top, so no container sees the moved directories.
 * RT3 entries on a different file system from the top are never removed. A concurrent mount causes an error, but its content is not lost.
 */
import { randomBytes } from "node:crypto";
import { closeSync } from "node:fs";
import { rename, rmdir, unlink } from "node:fs/promises";
import { join } from "node:path";
import { NodeFilesError } from "../ports/node-files.ts";
import { errorCode, ifExists } from "./errors.ts";
import { unmountWithin } from "./mounts.ts";
import { entriesOf, openDirectory, pathOf, placeIn } from "./open-directory.ts";
import type { Entry, OpenPlace } from "./open-directory.ts";

/** Number of passes over the top. Entries that a concurrent writer keeps adding are left to the next call. */
const PASSES_MAX = 10;

/**
 * Unmounts all mounts at or below `directory`, then removes it.
 *
 * Source: pkg/util/removeall RemoveAllOneFilesystem. Differs from upstream, which uses paths and fails if they are too long.
 */
export async function removeTree(directory: string): Promise<void> {
  await unmountWithin(directory);
  await removeUnmounted(directory);
}

/** Same as `removeTree`, for trees without mounts. */
export async function removeUnmounted(directory: string): Promise<void> {
  const top = await ifExists(openDirectory(directory));
  try {
    if (top === undefined) await ifExists(unlink(directory));
    else await new Removal(directory, top).empty();
  } finally {
    if (top !== undefined) closeSync(top.fd);
  }
  if (top !== undefined) await ifExists(rmdir(directory));
}

class Removal {
  readonly #directory: string;
  readonly #top: OpenPlace;
  /** Prefix of moved directories. It is unique per call, because an earlier call may have left moved directories. */
  readonly #prefix = `removed-${randomBytes(8).toString("hex")}-`;
  #moved = 0;

  constructor(directory: string, top: OpenPlace) {
    this.#directory = directory;
    this.#top = top;
  }

  async empty(): Promise<void> {
    for (let pass = 0; pass < PASSES_MAX; pass++) {
      let isEmpty = true;
      for await (const entry of entriesOf(this.#top)) {
        isEmpty = false;
        if (!(await this.#remove(this.#top, entry)) && entry.isDirectory) await this.#removeWithAllBelow(entry.name);
      }
      if (isEmpty) return;
    }
    throw new NodeFilesError(`${this.#directory} keeps getting new entries: end the process that writes there, or free space`);
  }

  /** Removes a subdirectory of the top, and then each directory that was moved up to the top meanwhile. */
  async #removeWithAllBelow(name: string): Promise<void> {
    let next = this.#moved;
    for (let own = name; ; own = this.#movedName(next++)) {
      await this.#removeWithFiles(own);
      if (next === this.#moved) return;
    }
  }

  async #removeWithFiles(name: string): Promise<void> {
    const directory = await ifExists(openDirectory(placeIn(this.#top, name)));
    if (directory === undefined) return;
    try {
      if (directory.stats.dev !== this.#top.stats.dev)
        throw new NodeFilesError(`${await this.#shown(this.#top, name)} is on another file system: unmount it by hand`);
      for await (const entry of entriesOf(directory))
        if (!(await this.#remove(directory, entry)) && entry.isDirectory && !(await this.#moveUp(directory, entry.name))) break;
    } finally {
      closeSync(directory.fd);
    }
    await this.#remove(this.#top, { name, isDirectory: true });
  }

  /** @returns false for a non-empty directory, or for an entry whose type has changed since it was read */
  async #remove(directory: OpenPlace, { name, isDirectory }: Entry): Promise<boolean> {
    const place = placeIn(directory, name);
    try {
      await (isDirectory ? rmdir(place) : unlink(place));
      return true;
    } catch (error) {
      const code = errorCode(error) ?? "";
      if (code === "ENOENT") return true;
      if (isDirectory ? HOLDS_SOMETHING.has(code) : code === "EISDIR") return false;
      throw await this.#explained(error, directory, name);
    }
  }

  /** @returns false if the disk is full; a later pass retries after space was freed */
  async #moveUp(directory: OpenPlace, name: string): Promise<boolean> {
    try {
      await rename(placeIn(directory, name), placeIn(this.#top, this.#movedName(this.#moved)));
      this.#moved++;
    } catch (error) {
      const code = errorCode(error) ?? "";
      if (NO_ROOM.has(code)) return false;
      if (code !== "ENOENT") throw await this.#explained(error, directory, name);
    }
    return true;
  }

  #movedName(number: number): string {
    return `${this.#prefix}${number}`;
  }

  /** Replaces the descriptor number in a system error with the path. */
  async #explained(error: unknown, directory: OpenPlace, name: string): Promise<unknown> {
    const code = errorCode(error);
    if (code === undefined) return error;
    const advice = code === "EBUSY" ? "unmount it by hand, or end the processes that use it" : "inspect this path";
    return new NodeFilesError(`failed to remove ${await this.#shown(directory, name)} (${code}): ${advice}`, { cause: error });
  }

  async #shown(directory: OpenPlace, name: string): Promise<string> {
    const above = await pathOf(directory);
    const text = Buffer.from(name, "latin1").toString("utf8");
    return above === undefined ? `${JSON.stringify(text)} far below ${this.#directory}` : join(above, text);
  }
}

const HOLDS_SOMETHING: ReadonlySet<string> = new Set(["ENOTEMPTY", "EEXIST", "ENOTDIR"]);
const NO_ROOM: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT"]);
