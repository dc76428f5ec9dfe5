/**
 * `npm run spec`: the share of specification rows that tests name. The rows are in docs/internals/spec/; a test names one as `[informer
 * T12]`. Prints one line per specification, such as `informer 37/89`, then the ids that no test names.
 */
import { glob, readFile } from "node:fs/promises";
import { join } from "node:path";

import { readSpecifications, ROW_ID } from "./support/specifications.ts";

const ROOT = join(import.meta.dirname, "..");

const specifications = await readSpecifications();
const named = await namedRows();
for (const { name, rows } of specifications) {
  const missing = [...rows].filter((id) => !named.has(`${name} ${id}`));
  console.log(`${name} ${rows.size - missing.length}/${rows.size}`);
  if (missing.length > 0) console.log(`  no test names ${missing.join(" ")}`);
}
if (!specifications.some(({ rows }) => rows.size > 0)) {
  console.error("no table in docs/internals/spec/ has a row");
  process.exitCode = 1;
}

/**
 * `informer T12` for every `[informer T12]`; `[informer T12 T13]` names two rows. The title `[deployment $id]` of a table names the
 * `id` of each of its rows.
 */
async function namedRows(): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  for await (const file of glob("test/**/*.ts", { cwd: ROOT })) {
    const text = await readFile(join(ROOT, file), "utf8");
    for (const [, specification = "", ids = ""] of text.matchAll(new RegExp(`\\[([a-z-]+)((?: ${ROW_ID})+)\\]`, "g"))) {
      for (const id of ids.trim().split(" ")) names.add(`${specification} ${id}`);
    }
    for (const [, specification = ""] of text.matchAll(/\[([a-z-]+) \$id\]/g)) {
      for (const [, id = ""] of text.matchAll(new RegExp(`\\bid: "(${ROW_ID})"`, "g"))) names.add(`${specification} ${id}`);
    }
  }
  return names;
}
