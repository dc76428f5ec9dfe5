/**
 * The definitions in docs/ that other files cite: the numbered sections of each specification, the ids of its tables, and
 * which of those are rows, that is, cases to test. A specification is a file of docs/internals/spec, identified by its
 * name.
 */
import { glob, readFile } from "node:fs/promises";
import { basename, join } from "node:path";

const ROOT = join(import.meta.dirname, "..", "..");

/** `T12`, `T29a`, `P7`, or a bare number. */
export const ROW_ID = "[A-Z]*[0-9]+[a-z]?";

export interface Specification {
  readonly name: string;
  /** Section numbers in headings: `11`, `11.3`, …. */
  readonly sections: ReadonlySet<string>;
  /** Numbers that more than one heading has. */
  readonly repeated: readonly string[];
  /** The first cell of every row of every table, if it is an id: rows, rules, hazards, quirks. */
  readonly ids: ReadonlySet<string>;
  /** Ids in tables of test cases: the tables below a mark `<!-- spec: name -->`. */
  readonly rows: ReadonlySet<string>;
}

/** Sorted by name. */
export async function readSpecifications(): Promise<readonly Specification[]> {
  const found: Specification[] = [];
  for await (const file of glob("docs/internals/spec/*.md", { cwd: ROOT }))
    found.push(readSpecification(basename(file, ".md"), await readFile(join(ROOT, file), "utf8")));
  return found.toSorted((a, b) => a.name.localeCompare(b.name));
}

export function readSpecification(name: string, text: string): Specification {
  const [sections, ids, rows] = [new Set<string>(), new Set<string>(), new Set<string>()];
  const repeated: string[] = [];
  let marked = false;
  for (const line of text.split("\n")) {
    const section = /^##+ (\d+(?:\.\d+)*)\.? /.exec(line)?.[1];
    if (section !== undefined && sections.has(section)) repeated.push(section);
    if (section !== undefined) sections.add(section);
    if (line === `<!-- spec: ${name} -->`) marked = true;
    else if (line !== "" && !line.startsWith("|")) marked = false;
    if (!line.startsWith("|")) continue;
    for (const id of idsOf(line)) {
      ids.add(id);
      if (marked) rows.add(id);
    }
  }
  return { name, sections, repeated, ids, rows };
}

/** `| T20, T21 | … |` names two rows, `| T20 U | … |` one and its origin; header and delimiter rows name none. */
function idsOf(row: string): readonly string[] {
  return (row.split("|")[1] ?? "").split(",").flatMap((cell) => new RegExp(`^\\s*(${ROW_ID})(?: [A-Z])?\\s*$`).exec(cell)?.[1] ?? []);
}
