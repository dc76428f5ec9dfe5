/**
 * READMEs and docs/ as maps. Catches: a table of files that lists missing files or omits existing ones, and broken links, anchors and
 * paths.
 */
import { existsSync, globSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { expect, it } from "vitest";

const DOCUMENTS = globSync(["**/*.md"], { exclude: ["**/node_modules/**", "**/dist/**", "test/captures/**"] }).toSorted();
/** Names that a folder's table must list: sources, and folders with sources. */
const SOURCE = /\.(ts|lua|c|py|yml)$/;
const PATH = /(?<![\w./@{}<>-])(?:shared|functions|cli|infra|test|docs|\.ci)\/[\w./-]*\w/g;

/** For each document, the names in backticks in the first column of tables with the heading "file". */
const TABLES = DOCUMENTS.flatMap((document) => {
  const names = namedFiles(readFileSync(document, "utf8"));
  return names.length === 0 ? [] : [{ document, names }];
});

it("reads documents and tables", () => {
  expect(DOCUMENTS.length).toBeGreaterThan(20);
  expect(TABLES.length).toBeGreaterThan(5);
});

it.each(TABLES)("the table of files in $document lists the files of the folder", ({ document, names }) => {
  const folder = dirname(document);
  const there = readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? [`${entry.name}/`] : SOURCE.test(entry.name) ? [entry.name] : [],
  );
  expect(names.filter((name) => !existsSync(join(folder, name)))).toEqual([]);
  expect(there.filter((name) => !names.includes(name))).toEqual([]);
});

it.each(DOCUMENTS)("links and paths in %s have a target", (document) => {
  const text = readFileSync(document, "utf8");
  const links = [...text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)].flatMap(([, to = ""]) =>
    to.includes("://") ? [] : [join(dirname(document), to)],
  );
  const paths = [...text.matchAll(PATH)].map(([path]) => path);
  expect([...links, ...paths].filter((path) => !existsSync(path) && !existsSync(join(dirname(document), path)))).toEqual([]);
});

it.each(DOCUMENTS)("anchors of links in %s are headings", (document) => {
  const missing = [...readFileSync(document, "utf8").matchAll(/\]\(([^)#\s]*)#([^)\s]+)\)/g)].flatMap(([link, to = "", anchor = ""]) => {
    if (to.includes("://")) return [];
    const target = to === "" ? document : join(dirname(document), to);
    return existsSync(target) && !anchorsOf(readFileSync(target, "utf8")).has(anchor) ? [link] : [];
  });
  expect(missing).toEqual([]);
});

it.each([
  { heading: "## Gate shut", anchor: "gate-shut" },
  { heading: "### 11.9 The guard: `another` controller at work", anchor: "119-the-guard-another-controller-at-work" },
  { heading: "## Twice\n## Twice", anchor: "twice-1" },
])("the anchor of $heading is $anchor", ({ heading, anchor }) => {
  expect(anchorsOf(heading)).toContain(anchor);
});

const SOURCES = globSync("{cli,functions,infra,shared,test}/**/*.ts", { exclude: ["**/node_modules/**", "**/dist/**"] }).map(
  (path) => `/${path}`,
);
const READMES = DOCUMENTS.filter((document) => /^(shared|functions)\/.*README\.md$/.test(document));

it.each(READMES)("source files that %s names exist", (document) => {
  const named = [...readFileSync(document, "utf8").matchAll(/(?<![\w./@{}<>*-])(?:[a-z0-9-]+\/)*[a-z0-9.-]+\.ts\b/g)].map(([name]) => name);
  expect(named.filter((name) => !SOURCES.some((path) => path.endsWith(`/${name}`)))).toEqual([]);
});

/** Anchors as GitHub derives them from headings. */
function anchorsOf(text: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, title = ""] of text.replaceAll(/^ *```[\s\S]*?^ *```$/gm, "").matchAll(/^#+ (.+)$/gm)) {
    const slug = title
      .toLowerCase()
      .replaceAll(/\]\([^)]*\)/g, "]")
      .replaceAll(/[^\p{L}\p{N}\p{M}_ -]/gu, "")
      .replaceAll(" ", "-");
    let anchor = slug;
    for (let n = 1; anchors.has(anchor); n++) anchor = `${slug}-${n}`;
    anchors.add(anchor);
  }
  return anchors;
}

function namedFiles(text: string): readonly string[] {
  const names: string[] = [];
  let open = false;
  for (const line of text.split("\n")) {
    const [, first = ""] = line.split("|");
    if (!line.startsWith("|")) open = false;
    else if (first.trim().toLowerCase() === "file") open = true;
    else if (open) for (const [, name = ""] of first.matchAll(/`([^`]+)`/g)) names.push(name);
  }
  return names;
}
