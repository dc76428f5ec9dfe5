/**
 * `npm run spec`: how much of the specifications tests name. The row ids come from the README.md files under shared/, whose
 * tables start with `<!-- spec: informer -->`; a test names a row as `[informer T12]`. Prints one line per specification, as
 * `informer 37/89`, then the ids that no test names.
 */
import { glob, readFile } from "node:fs/promises";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "..");
/** `T12`, `T29a`, `P7`, or a bare number. */
const ID = "[A-Z]*[0-9]+[a-z]?";

const rows = await specificationRows();
const named = await namedRows();
for (const [specification, ids] of rows) {
  const missing = [...ids].filter((id) => !named.has(`${specification} ${id}`));
  console.log(`${specification} ${ids.size - missing.length}/${ids.size}`);
  if (missing.length > 0) console.log(`  no test names ${missing.join(" ")}`);
}
const ruled = await ruleIds();
const unknown = [...named].filter((name) => {
  const [specification = "", id = ""] = name.split(" ");
  return rows.has(specification) && rows.get(specification)?.has(id) !== true && !ruled.has(id);
});
if (unknown.length > 0) console.log(`in no README: ${unknown.toSorted().join(", ")}`);
if (rows.size === 0) {
  console.error("no table of any README under shared/ starts with <!-- spec: … -->");
  process.exitCode = 1;
}

/** Ids by specification: the first cell of each row below the mark, up to the table's end. */
async function specificationRows(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const found = new Map<string, Set<string>>();
  for await (const file of glob("shared/**/README.md", { cwd: ROOT })) {
    let specification: string | undefined;
    for (const line of (await readFile(join(ROOT, file), "utf8")).split("\n")) {
      const mark = /^<!-- spec: ([a-z-]+) -->$/.exec(line.trim());
      if (mark?.[1] !== undefined) specification = mark[1];
      else if (specification === undefined) continue;
      else if (line.startsWith("|"))
        for (const id of idsOf(line)) (found.get(specification) ?? found.set(specification, new Set()).get(specification))?.add(id);
      else if (line.trim() !== "") specification = undefined;
    }
  }
  return new Map([...found].toSorted(([a], [b]) => a.localeCompare(b)));
}

/** Ids of rules that stand in tables without a mark, such as A1 to A13: tests cite them, nobody counts them. */
async function ruleIds(): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  for await (const file of glob("shared/**/README.md", { cwd: ROOT })) {
    for (const line of (await readFile(join(ROOT, file), "utf8")).split("\n"))
      if (line.startsWith("|")) for (const id of idsOf(line)) found.add(id);
  }
  return found;
}

/** `| T20, T21 | … |` names two rows; heads and rulers name none. */
function idsOf(row: string): readonly string[] {
  return (row.split("|")[1] ?? "").split(",").flatMap((cell) => new RegExp(`^\\s*(${ID})\\s*$`).exec(cell)?.[1] ?? []);
}

/**
 * `informer T12` for every `[informer T12]`; `[informer T12 T13]` names two. The title `[deployment $id]` of a table names the
 * `id` of each of its rows.
 */
async function namedRows(): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  for await (const file of glob("test/**/*.ts", { cwd: ROOT })) {
    const text = await readFile(join(ROOT, file), "utf8");
    for (const [, specification = "", ids = ""] of text.matchAll(new RegExp(`\\[([a-z-]+)((?: ${ID})+)\\]`, "g"))) {
      for (const id of ids.trim().split(" ")) names.add(`${specification} ${id}`);
    }
    for (const [, specification = ""] of text.matchAll(/\[([a-z-]+) \$id\]/g)) {
      for (const [, id = ""] of text.matchAll(new RegExp(`\\bid: "(${ID})"`, "g"))) names.add(`${specification} ${id}`);
    }
  }
  return names;
}
