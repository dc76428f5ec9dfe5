/**
 * Everything of a tree that others have made and go on changing, each once.
 *
 * WT1 each step is a name in an open directory, never through a link, never into another file system.
 * WT2 four descriptors are enough, however deep the tree. The way up is `..`. If a concurrent rename makes
 *    its inode differ from the directory that was left, the names from the top are used.
 * WT3 of directories to come the names are kept, `NAMES_MAX` and for each level a few more. One that has more is read again, to where
 *    the last names ended and on.
 * WT4 vanished entries are skipped. Unreadable entries are skipped and reported at the end; the rest is visited.
 */
import { closeSync, lstat } from "node:fs";
import type { Stats } from "node:fs";
import { promisify } from "node:util";
import { NodeFilesError } from "../ports/node-files.ts";
import { errorCode, ifThere } from "./errors.ts";
import { entriesOf, openDirectory, placeIn } from "./open-directory.ts";
import type { OpenPlace } from "./open-directory.ts";

/** Half the price of the one of promises. */
const look = promisify(lstat);
const NAMES_MAX = 50_000;
const NAMES_OF_LEVEL_MIN = 100;
/** Of names that are taken at once, and one more: a path may have 4096. */
const PATH_BYTES_MAX = 3_700;

const SHOWN_NAMES_MAX = 3;

/** One thing of the tree: `place` is good until the visit ends. */
export interface Found {
  readonly place: Buffer;
  readonly stats: Stats;
}

export interface Visitor {
  /** A system error is as one of the walk's own (WT4); anything else ends it. */
  visit(found: Found): Promise<void> | void;
  /** Before each step that may wait for the disk: to rest, or to end the walk by what it throws. */
  step?(): Promise<void> | undefined;
}

/** A directory with others that were not walked yet. */
interface Level {
  readonly depth: number;
  readonly ino: number;
  readonly names: string[];
  /** Of its directories, how many have been in `names`; undefined: all. */
  taken: number | undefined;
}

/** @returns the first failure of those by which something was left out. @throws what keeps it from looking at `path` itself */
export async function walkTree(path: string, visitor: Visitor, namesMax = NAMES_MAX): Promise<Error | undefined> {
  const top = await openDirectory(path).catch((error: unknown) => {
    if (errorCode(error) === "ENOTDIR") return undefined;
    throw error;
  });
  if (top === undefined) {
    await visitor.visit({ place: Buffer.from(path), stats: await look(path) });
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
  /** Names of the directories that lead from the top to where it is. */
  readonly #way: string[] = [];
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
      await this.#lookHere();
      for (let level = this.#levels.at(-1); level !== undefined; level = this.#levels.at(-1)) {
        if (!(await this.#backTo(level))) this.#forget();
        else if (level.names.length === 0) await this.#readOn(level);
        else await this.#down(level);
      }
    } finally {
      this.#go(this.#top);
    }
    return this.#failure;
  }

  /** All that is no directory is visited, once; directories are kept for later. */
  async #lookHere(): Promise<void> {
    const level: Level = { depth: this.#way.length, ino: this.#here.stats.ino, names: [], taken: 0 };
    await this.#tolerant(() => this.#read(level, (name) => this.#visit(name)));
    if (level.names.length > 0) this.#levels.push(level);
  }

  async #readOn(level: Level): Promise<void> {
    if (level.taken !== undefined) await this.#tolerant(() => this.#read(level));
    if (level.names.length === 0) this.#levels.pop();
  }

  /** @param visit absent: what is no directory has been visited */
  async #read(level: Level, visit?: (name: string) => Promise<void>): Promise<void> {
    const before = level.taken ?? 0;
    const namesMax = Math.max(NAMES_OF_LEVEL_MIN, this.#namesMax - this.#kept);
    level.taken = undefined; // also when it fails
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
      const stats = await look(place);
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
    this.#way.push(name);
    await this.#lookHere();
  }

  /** @returns whether it is there now */
  async #backTo(level: Level): Promise<boolean> {
    const stepsUp = this.#way.length - level.depth;
    this.#way.length = level.depth;
    if (this.#here.stats.ino === level.ino) return true;
    if (level.depth === 0) {
      this.#go(this.#top);
      return true;
    }
    const up = Array.from({ length: stepsUp }, () => "..");
    const found = (await this.#lead(this.#here, up, level)) ?? (await this.#lead(this.#top, this.#way, level));
    if (found === undefined) this.#failure ??= new NodeFilesError("a directory was moved while it was looked at: it is tried again");
    else this.#go(found);
    return found !== undefined;
  }

  /** By as many names at a time as a path may have. Links may be among them: what counts is where they lead. */
  async #lead(from: OpenPlace, names: readonly string[], { ino }: Level): Promise<OpenPlace | undefined> {
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

  #forget(): void {
    this.#kept -= this.#levels.pop()?.names.length ?? 0;
  }

  #go(next: OpenPlace): void {
    if (this.#here !== this.#top && this.#here !== next) closeSync(this.#here.fd);
    this.#here = next;
  }

  /** What vanished is undefined; so is what cannot be looked at, and the first such failure is kept. */
  async #tolerant<T>(act: () => Promise<T>): Promise<T | undefined> {
    try {
      return await ifThere(act());
    } catch (error) {
      const code = errorCode(error);
      if (code === undefined) throw error;
      // A system error names the open directory by its number, which says nothing to people.
      this.#failure ??= new NodeFilesError(`${code} in "${this.#shownWay()}": look at what stands there`, { cause: error });
      return undefined;
    }
  }

  /** From the top to where it is, or the end of that. */
  #shownWay(): string {
    const way = Buffer.from(`./${this.#way.slice(-SHOWN_NAMES_MAX).join("/")}`, "latin1").toString("utf8");
    return this.#way.length > SHOWN_NAMES_MAX ? `…${way.slice(1)}` : way;
  }
}
