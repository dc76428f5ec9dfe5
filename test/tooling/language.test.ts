/**
 * The text of README and docs/. Catches: words that docs/internals/style.md forbids, long sentences, table cells that are paragraphs, and
 * pages that grow.
 */
import { globSync, readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

const SPECIFICATIONS = "docs/internals/spec/";
const PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", ...globSync("docs/**/*.md")]
  .filter((page) => !page.startsWith(SPECIFICATIONS))
  .toSorted();
/** Pages for new readers, which have a stricter limit for sentences. */
const READ_FIRST = PAGES.filter((page) => page === "README.md" || /^docs\/(?:start|guides|concepts)\//.test(page));
const [SENTENCE_WORDS_MAX, CELL_WORDS_MAX] = [30, 40];

/** Forbidden phrases, each with its replacement. */
const DIALECT: readonly (readonly [phrase: RegExp, write: string])[] = [
  [/\b(?:told|tells|telling)\b/i, "reports, exposes, publishes"],
  [/\b(?:is|was|are|were) said\b|\bis looked at\b/i, "an active verb with its actor"],
  [/\bjudges?\b/i, "reference implementation, oracle, conformance suite"],
  [/\b(?:manners|etiquette|deeds)\b|\brude\b/i, "fault profile, fault-injecting"],
  [/\bpatience\b|\bpatient\b/i, "retry budget, deadline"],
  [/\b(?:goes|going|gone|go) on(?: to)?\b/i, "follow-up sync; continues"],
  [/\bhanded on\b/i, "read-your-writes cache"],
  [/\blingers?\b|\bwaits for company\b/i, "batching window"],
  [/\b(?:heals?|mends?|mended)\b/i, "repair, fix"],
  [/\bworlds?\b|\brigs?\b/i, "test environment, harness"],
  [/\bpersons?\b|\bwhat people did\b/i, "user, user requests"],
  [/\b(?:strikes|endures)\b/i, "injects faults, soak test"],
  [/\b(?:wakes?|woken)\b/i, "enqueues, is enqueued"],
  [/\bwhom\b/i, "affected keys; the object"],
  [/\bstands? (?:there|in|beside|for)\b/i, "is, exists, is stored"],
  [/\bstrangers'?\b|\bforeign\b/i, "another controller's, unowned"],
  [/\bfigures\b/i, "metrics, measurements; or name the drawings"],
  [/\bwhat idle costs\b/i, "idle cost"],
  [/\bis named\b|\bby name alone\b|\bknown by name\b/i, "is logged, is identified by"],
  [/\b(?:is|are|was) let (?:go|in)\b|\blets? go of\b/i, "is released"],
  [/\basked wrongly\b/i, "usage error"],
  [/\bwithout end\b/i, "unbounded"],
  [/\bso (?:many|much|long)\b(?! as\b)/i, "N, a duration"],
  [/\blooks? again\b/i, "requeue"],
  [/\b(?:somebody|nobody|whoever)\b/i, "name the actor"],
  [/\banew\b/i, "again, new"],
];

it("finds the pages to check", () => {
  expect(PAGES.length).toBeGreaterThan(30);
  expect(READ_FIRST.length).toBeGreaterThan(17);
});

describe("words that DIALECT replaces", () => {
  it.each(PAGES)("%s contains none", (page) => {
    const found = prose(readFileSync(page, "utf8"))
      .split("\n")
      .flatMap((line, i) =>
        DIALECT.flatMap(([phrase, write]) => {
          const [word] = phrase.exec(line) ?? [];
          return word === undefined ? [] : [`${page}:${i + 1}: “${word}”: ${write}`];
        }),
      );
    expect(found).toEqual([]);
  });
});

describe("short sentences", () => {
  it.each(READ_FIRST)("%s", (page) => {
    const long = sentencesOf(prose(readFileSync(page, "utf8"))).filter((sentence) => words(sentence) > SENTENCE_WORDS_MAX);
    expect(long).toEqual([]);
  });
});

describe("table cells are phrases", () => {
  it.each(PAGES)("%s", (page) => {
    const cells = prose(readFileSync(page, "utf8"))
      .split("\n")
      .flatMap((line) => (line.startsWith("|") ? line.split(/(?<!\\)\|/) : []));
    expect(cells.filter((cell) => words(cell) > CELL_WORDS_MAX)).toEqual([]);
  });
});

it.each([
  { pages: "specifications", wordsMax: 70_000, is: (page: string) => page.startsWith(SPECIFICATIONS) },
  { pages: "all other pages", wordsMax: 45_000, is: (page: string) => !page.startsWith(SPECIFICATIONS) },
])("$pages have fewer than $wordsMax words", ({ wordsMax, is }) => {
  const pages = globSync("**/*.md", { exclude: ["**/node_modules/**", "**/dist/**"] }).filter(is);
  expect(pages.length).toBeGreaterThan(3);
  const counts = pages.map((page) => readFileSync(page, "utf8").match(/\S+/g)?.length ?? 0);
  expect(counts.reduce((sum, count) => sum + count, 0)).toBeLessThan(wordsMax);
});

it.each([
  { text: "The watcher tells the metric.", found: "tells" },
  { text: 'See `what stands there` and "nobody\'s".', found: "nothing" },
  { text: "```sh\ntold\n```", found: "nothing" },
])("finds $found in “$text”", ({ text, found }) => {
  expect(DIALECT.flatMap(([phrase]) => phrase.exec(prose(text)) ?? [])[0] ?? "nothing").toBe(found);
});

it("counts sentences across lines, and each list item alone", () => {
  expect(sentencesOf("One two\nthree. Four [five](six.md):\n\n- seven\n- eight")).toEqual([
    "One two three.",
    "Four five:",
    "seven",
    "eight",
  ]);
});

/** Returns the text line by line, without code and without quotations from programs and tests. */
function prose(text: string): string {
  const blank = (match: string): string => match.replaceAll(/[^\n]/g, "");
  return text
    .replaceAll(/^ *```[\s\S]*?^ *```$/gm, blank)
    .replaceAll(/`[^`]*`/g, (match) => `CODE${blank(match)}`)
    .replaceAll(/"[^"\n]*"/g, "QUOTED")
    .replaceAll(/\]\([^)]*\)/g, "]");
}

function sentencesOf(text: string): readonly string[] {
  const paragraphs = text
    .replaceAll(/\]\([^)]*\)/g, "]")
    .replaceAll(/[![\]*]/g, "")
    .replaceAll(/^\|.*$/gm, "")
    .replaceAll(/^ *(?:-|\d+\.|#+) /gm, "\n\n")
    .split(/\n\s*\n/);
  return paragraphs
    .flatMap((paragraph) => paragraph.replaceAll(/\s+/g, " ").split(/(?<=[.:;?!]) /))
    .map((sentence) => sentence.trim())
    .filter((sentence) => sentence !== "");
}

function words(text: string): number {
  return text.split(/\s+/).filter((word) => /\w/.test(word)).length;
}
