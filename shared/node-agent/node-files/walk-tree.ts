/**
 * Visits every entry of a tree once, while containers change it.
 *
 * WT1 each step uses a name in an open directory, and never follows a link or enters another file system.
 * WT2 four descriptors are enough, however deep the tree. The walk goes up through `..`. If its inode differs from the expected directory
 *     because of a concurrent rename, the walk descends from the top again by name.
 * WT3 the walk keeps at most `NAMES_MAX` names of pending directories, plus a few per level. A larger directory is read
 *    again, and continues after the last kept name.
 * WT4 entries that disappear are skipped. Unreadable entries are skipped and reported at the end; all other entries are visited.
 */
import { closeSync, lstat } from "node:fs";
import type { Stats } from "node:fs";
import { promisify } from "node:util";
import { NodeFilesError } from "../ports/node-files.ts";
import { errorCode, ifExists } from "./errors.ts";
import { entriesOf, openDirectory, placeIn } from "./open-directory.ts";
import type { OpenPlace } from "./open-directory.ts";

/** The callback version costs half as much as the promise version. */
const lstatAsync = promisify(lstat);
const NAMES_MAX = 50_000;
const NAMES_OF_LEVEL_MIN = 100;
/** Maximum length of a path that is opened in one step. It leaves room for one more name (PATH_MAX is 4096). */
const PATH_BYTES_MAX = 3_700;
const SHOWN_NAMES_MAX = 3;

/** An entry. `place` is valid only until the visit ends. */
export interface Found {
  readonly place: Buffer;
  readonly stats: Stats;
}

export interface Visitor {
  /** Visits one entry. A system error counts as an unreadable entry (WT4); any other error ends the walk. */
  visit(found: Found): Promise<void> | void;
  /** Called before each step that may wait for the disk. It can yield, or throw to end the walk. */
  step?(): Promise<void> | undefined;
}

/** A directory with subdirectories that have not been visited yet. */
interface Level {
  readonly depth: number;
  readonly ino: number;
  readonly names: string[];
  /** Number of the directory's subdirectories whose names were already in `names`; undefined if all names were. */
  taken: number | undefined;
}

/** @returns the error of the first entry that was skipped @throws the error if `path` itself cannot be read */
export async function walkTree(path: string, visitor: Visitor, namesMax = NAMES_MAX): Promise<Error | undefined> {
  const top = await openDirectory(path).catch((error: unknown) => {
    if (errorCode(error) === "ENOTDIR") return undefined;
    throw error;
  });
  if (top === undefined) {
    await visitor.visit({ place: Buffer.from(path), stats: await lstatAsync(path) });
    return undefined;
  }
  try {
    return await new Walk(top, visitor, namesMax).run();
  } finally {
    closeSync(top.fd);
  }
}

class Walk {
  readonly #top: OpenPlace;
  readonly #visitor: Visitor;
  readonly #namesMax: number;
  readonly #levels: Level[] = [];
  /** Names of the directories from the top down to the current one. */
  readonly #path: string[] = [];
  #here: OpenPlace;
  #kept = 0;
  #failure: Error | undefined;

  constructor(top: OpenPlace, visitor: Visitor, namesMax: number) {
    this.#namesMax = namesMax;
    this.#top = top;
    this.#here = top;
    this.#visitor = visitor;
  }

  async run(): Promise<Error | undefined> {
    try {
      await this.#visitor.visit({ place: placeIn(this.#top, "."), stats: this.#top.stats });
      await this.#enter();
      for (let level = this.#levels.at(-1); level !== undefined; level = this.#levels.at(-1)) {
        if (!(await this.#backTo(level))) this.#dropLevel();
        else if (level.names.length === 0) await this.#readMore(level);
        else await this.#down(level);
      }
    } finally {
      this.#go(this.#top);
    }
    return this.#failure;
  }

  /** Visits all entries that are not directories, and keeps the names of directories. */
  async #enter(): Promise<void> {
    const level: Level = { depth: this.#path.length, ino: this.#here.stats.ino, names: [], taken: 0 };
    await this.#tolerant(() => this.#read(level, (name) => this.#visit(name)));
    if (level.names.length > 0) this.#levels.push(level);
  }

  async #readMore(level: Level): Promise<void> {
    if (level.taken !== undefined) await this.#tolerant(() => this.#read(level));
    if (level.names.length === 0) this.#levels.pop();
  }

  /** @param visit absent on a second read, because the other entries have already been visited */
  async #read(level: Level, visit?: (name: string) => Promise<void>): Promise<void> {
    const before = level.taken ?? 0;
    const namesMax = Math.max(NAMES_OF_LEVEL_MIN, this.#namesMax - this.#kept);
    level.taken = undefined; // also after a failure
    let directories = 0;
    for await (const { name, isDirectory } of entriesOf(this.#here)) {
      if (!isDirectory) await visit?.(name);
      else if (++directories > before && directories <= before + namesMax) level.names.push(name);
      else if (visit === undefined && directories > before) break;
    }
    this.#kept += level.names.length;
    if (directories > before + namesMax) level.taken = before + namesMax;
  }

  async #visit(name: string): Promise<void> {
    await this.#visitor.step?.();
    await this.#tolerant(async () => {
      const place = placeIn(this.#here, name);
      const stats = await lstatAsync(place);
      if (stats.dev === this.#top.stats.dev) await this.#visitor.visit({ place, stats });
    });
  }

  async #down(level: Level): Promise<void> {
    const name = level.names.pop() ?? "";
    this.#kept--;
    if (level.names.length === 0 && level.taken === undefined) this.#levels.pop();
    await this.#visitor.step?.();
    const place = placeIn(this.#here, name);
    const below = await this.#tolerant(() => openDirectory(place));
    if (below === undefined) return;
    if (below.stats.dev !== this.#top.stats.dev) return closeSync(below.fd);
    try {
      await this.#tolerant(async () => this.#visitor.visit({ place, stats: below.stats }));
    } finally {
      this.#go(below);
    }
    this.#path.push(name);
    await this.#enter();
  }

  /** @returns whether the level is now the current directory */
  async #backTo(level: Level): Promise<boolean> {
    const stepsUp = this.#path.length - level.depth;
    this.#path.length = level.depth;
    if (this.#here.stats.ino === level.ino) return true;
    if (level.depth === 0) {
      this.#go(this.#top);
      return true;
    }
    const up = Array.from({ length: stepsUp }, () => "..");
    const found = (await this.#follow(this.#here, up, level)) ?? (await this.#follow(this.#top, this.#path, level));
    if (found === undefined) this.#failure ??= new NodeFilesError("a directory was moved during the walk; the next walk retries");
    else this.#go(found);
    return found !== undefined;
  }

  /** Opens as many names in one step as a path can contain. Links do no harm, because the inode at the end must match. */
  async #follow(from: OpenPlace, names: readonly string[], { ino }: Level): Promise<OpenPlace | undefined> {
    let at = from;
    try {
      for (let first = 0; first < names.length;) {
        let [last, bytes] = [first, 0];
        while (last < names.length && bytes < PATH_BYTES_MAX) bytes += (names[last++]?.length ?? 0) + 1;
        await this.#visitor.step?.();
        const next = await this.#tolerant(() => openDirectory(placeIn(at, names.slice(first, last).join("/"))));
        if (at !== from) closeSync(at.fd);
        if (next === undefined) return undefined;
        [at, first] = [next, last];
      }
    } catch (error) {
      if (at !== from) closeSync(at.fd);
      throw error;
    }
    if (at.stats.ino === ino && at.stats.dev === this.#top.stats.dev) return at;
    if (at !== from) closeSync(at.fd);
    return undefined;
  }

  #dropLevel(): void {
    this.#kept -= this.#levels.pop()?.names.length ?? 0;
  }

  #go(next: OpenPlace): void {
    if (this.#here !== this.#top && this.#here !== next) closeSync(this.#here.fd);
    this.#here = next;
  }

  /** Returns undefined for an entry that has disappeared or is unreadable, and keeps the first error. */
  async #tolerant<T>(act: () => Promise<T>): Promise<T | undefined> {
    try {
      return await ifExists(act());
    } catch (error) {
      const code = errorCode(error);
      if (code === undefined) throw error;
      // A system error contains only the number of the open descriptor, so the path is added.
      this.#failure ??= new NodeFilesError(`${code} in "${this.#shownPath()}": inspect this path`, { cause: error });
      return undefined;
    }
  }

  /** Returns the end of the path from the top. */
  #shownPath(): string {
    const path = Buffer.from(`./${this.#path.slice(-SHOWN_NAMES_MAX).join("/")}`, "latin1").toString("utf8");
    return this.#path.length > SHOWN_NAMES_MAX ? `…${path.slice(1)}` : path;
  }
}
