/** The file of `npm run sim -- --resume FILE`: the passed seeds by commit, and the failed seeds. */
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import type { SeedResult } from "./levels.ts";

interface FailedSeed {
  readonly seed: number;
  readonly commit: string;
  readonly mix: string | undefined;
  readonly violations: readonly string[];
}

interface Content {
  /** The options that affect results. A file is valid for one set of options. */
  readonly options: string;
  /** Ranges such as "1-40 42 50-60", by commit. */
  readonly passed: Readonly<Record<string, string>>;
  readonly failed: readonly FailedSeed[];
  /** Sums of the statistics of all seeds, and how often each excuse was used. */
  readonly totals: Readonly<Record<string, number>>;
}

const VIOLATIONS_MAX = 6;

export class ProgressFile {
  readonly #file: string;
  readonly #options: string;
  readonly #commit: string;
  readonly #passed: Map<string, Set<number>>;
  readonly #failed: Map<number, FailedSeed>;
  readonly #totals: Record<string, number>;

  /** @throws {Error} if the file was written with other options */
  constructor(file: string, options: string, commit: string) {
    const given = existsSync(file)
      ? (JSON.parse(readFileSync(file, "utf8")) as Content) // written by `save`
      : { options, passed: {}, failed: [], totals: {} };
    if (given.options !== options) throw new Error(`${file} is of "${given.options}", not of "${options}"`);
    [this.#file, this.#options, this.#commit] = [file, options, commit];
    this.#passed = new Map(Object.entries(given.passed).map(([at, ranges]) => [at, new Set(numbersIn(ranges))]));
    this.#failed = new Map(given.failed.map((each) => [each.seed, each]));
    this.#totals = { ...given.totals };
  }

  /** Returns whether the seed passed on any commit, or failed on this one. A seed that failed on another commit runs again. */
  has(seed: number): boolean {
    return this.#failed.get(seed)?.commit === this.#commit || [...this.#passed.values()].some((seeds) => seeds.has(seed));
  }

  add({ seed, mix, violations, stats }: SeedResult, isExcused: (rule: string) => boolean): void {
    const bad = violations.filter(({ rule }) => !isExcused(rule));
    if (bad.length === 0) {
      this.#failed.delete(seed);
      this.#passed.set(this.#commit, (this.#passed.get(this.#commit) ?? new Set()).add(seed));
    } else {
      const texts = bad.slice(0, VIOLATIONS_MAX).map(({ rule, what }) => `${rule} ${what}`);
      this.#failed.set(seed, { seed, commit: this.#commit, mix, violations: texts });
    }
    const excuses = violations.filter(({ rule }) => isExcused(rule)).map(({ rule }) => [`excused: ${rule}`, 1] as const);
    for (const [name, count] of [...Object.entries(stats), ...excuses]) this.#totals[name] = (this.#totals[name] ?? 0) + count;
  }

  /** Replaces the file in one step. */
  save(): void {
    const content: Content = {
      options: this.#options,
      passed: Object.fromEntries([...this.#passed].map(([commit, seeds]) => [commit, rangesOf(seeds)])),
      failed: [...this.#failed.values()].toSorted((a, b) => a.seed - b.seed),
      totals: this.#totals,
    };
    writeFileSync(`${this.#file}.new`, `${JSON.stringify(content, undefined, 2)}\n`);
    renameSync(`${this.#file}.new`, this.#file);
  }

  summary(): readonly string[] {
    const passed = [...this.#passed].map(([commit, seeds]) => `${seeds.size} seeds passed on ${commit}`);
    return [...passed, `${this.#failed.size} failed: ${[...this.#failed.keys()].toSorted((a, b) => a - b).join(" ") || "none"}`];
  }
}

function rangesOf(seeds: ReadonlySet<number>): string {
  const ranges: { readonly first: number; last: number }[] = [];
  for (const seed of [...seeds].toSorted((a, b) => a - b)) {
    const range = ranges.at(-1);
    if (range?.last === seed - 1) range.last = seed;
    else ranges.push({ first: seed, last: seed });
  }
  return ranges.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`)).join(" ");
}

function numbersIn(ranges: string): readonly number[] {
  return ranges.split(" ").flatMap((range) => {
    const [first = 0, last = first] = range.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}
