/**
 * Removing a directory that others could mount in, and whose content others have made (NF4).
 *
 * RT1 each step is a name in an open directory, never a path and never through a link: a concurrent rename cannot redirect
 *    it, and no tree is too deep.
 * RT2 a directory that holds directories which are not empty has them moved up, to the top of the tree, and goes. So each is read
 *    once, no way back is needed, and four descriptors are enough. The top is the agent's own: no container
 *    sees what has been moved there.
 * RT3 what is on another file system than the top is never touched: a mount that came meanwhile costs an error and not its content.
 */
import { randomBytes } from "node:crypto";
import { closeSync } from "node:fs";
import { rename, rmdir, unlink } from "node:fs/promises";
import { join } from "node:path";
import { NodeFilesError } from "../ports/node-files.ts";
import { errorCode, ifThere } from "./errors.ts";
import { unmountWithin } from "./mounts.ts";
import { entriesOf, openDirectory, pathOf, placeIn } from "./open-directory.ts";
import type { Entry, OpenPlace } from "./open-directory.ts";

/** Passes over the top of a tree. Entries that a concurrent writer adds remain for the next call. */
const PASSES_MAX = 10;

/**
 * Unmounts what is mounted at or below `directory`, then removes it.
 *
 * Source: pkg/util/removeall RemoveAllOneFilesystem. Differs from upstream, which goes by paths, and fails where they are too long.
 */
export async function removeTree(directory: string): Promise<void> {
  await unmountWithin(directory);
  await removeUnmounted(directory);
}

/** The same for trees without mounts. */
export async function removeUnmounted(directory: string): Promise<void> {
  const top = await ifThere(openDirectory(directory));
  try {
    if (top === undefined) await ifThere(unlink(directory));
    else await new Removal(directory, top).empty();
  } finally {
    if (top !== undefined) closeSync(top.fd);
  }
  if (top !== undefined) await ifThere(rmdir(directory));
}

class Removal {
  readonly #directory: string;
  readonly #top: OpenPlace;
  /** Of this call: an earlier one may have left some that it moved. */
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
    throw new NodeFilesError(`${this.#directory} does not get empty: end what still writes there, or free space`);
  }

  /** A directory of the top, then each that was moved up meanwhile. */
  async #removeWithAllBelow(name: string): Promise<void> {
    let next = this.#moved;
    for (let own = name; ; own = this.#movedName(next++)) {
      await this.#removeWithFiles(own);
      if (next === this.#moved) return;
    }
  }

  async #removeWithFiles(name: string): Promise<void> {
    const directory = await ifThere(openDirectory(placeIn(this.#top, name)));
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

  /** @returns whether it is gone; not, where it is a directory that holds something, or is no more what it was when it was read */
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

  /** @returns whether there was room; if not, there is when more is gone, and the next pass finds it */
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

  /** A system error names the open directory by its number, which says nothing to people. */
  async #explained(error: unknown, directory: OpenPlace, name: string): Promise<unknown> {
    const code = errorCode(error);
    if (code === undefined) return error;
    const advice = code === "EBUSY" ? "unmount it by hand, or end what uses it" : "look at what stands there";
    return new NodeFilesError(`${await this.#shown(directory, name)} cannot be removed (${code}): ${advice}`, { cause: error });
  }

  async #shown(directory: OpenPlace, name: string): Promise<string> {
    const above = await pathOf(directory);
    const text = Buffer.from(name, "latin1").toString("utf8");
    return above === undefined ? `${JSON.stringify(text)} far below ${this.#directory}` : join(above, text);
  }
}

const HOLDS_SOMETHING: ReadonlySet<string> = new Set(["ENOTEMPTY", "EEXIST", "ENOTDIR"]);
const NO_ROOM: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT"]);
