/**
 * Finds citations in code, tests and documents, and checks that their targets exist. Four things can be cited:
 *
 *     informer §11.3, §11.5        sections of docs/internals/spec; the second one is of the specification that the first one names
 *     [informer T12 T13]           ids of its tables, also as "replicaset R4", "deployment quirk Q11"
 *     design decisions 5, 15       records of docs/internals/design.md
 *     LS2, KW1–KW4                 contracts of ports and invariants: two or three letters and a number, defined by the line that begins with it
 *
 * A section without a specification's name (§8), and a single letter with a number (S14), are of the folder's own specification, or
 * of the only one that the file names. `A1` to `A14`, the informer's rules, need no name anywhere. Letters that no specification uses
 * are no citation.
 */
import type { Specification } from "./specifications.ts";

export interface TextFile {
  readonly path: string;
  readonly text: string;
}

export interface Definitions {
  readonly specifications: ReadonlyMap<string, Specification>;
  readonly decisions: ReadonlySet<string>;
  /** The places at which each contract and invariant is defined. Two definitions of one prefix are an error. */
  readonly invariants: ReadonlyMap<string, readonly string[]>;
}

/** `file:line: citation: problem`. */
export type Fault = string;

/** Folders whose code implements one specification. Tests mirror them. */
const OWN: readonly (readonly [RegExp, string])[] = [
  [/^(shared\/controllers|test\/unit)\/(replicaset|replication)\//, "replicaset"],
  [/^(shared\/controllers|test\/unit)\/deployment\//, "deployment"],
  [/^(shared|test\/unit)\/(kubelet|node-agent)\/|^functions\/node\/|^test\/support\/node-rig\//, "node-agent"],
  [
    /^test\/unit\/(cache|adapters\/(memory\/store|redis))\/|^shared\/(controllers\/cache|kube\/list-watch|store\/(memory\/store|redis))\/|^test\/conformance\/(store|redis)\b/,
    "informer",
  ],
];
const RULES_OF_ALL = "informer";

const INVARIANT = /^\s*(?:\*|\/\/|--|#)\s+([A-Z]{1,3}\d+)\s+\S/gm;
const NAMED = "(informer|replicaset|deployment|node-agent)";
/** Names of two queues and of an AWS service, which look like ids. */
const NO_IDS = new Set(["Q1", "Q2", "S3"]);

export function decisionsOf(design: string): ReadonlySet<string> {
  return new Set([...design.matchAll(/^### (\d+)\. /gm)].map(([, id = ""]) => id));
}

export function invariantsOf(files: readonly TextFile[]): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const { path, text } of files)
    if (!path.endsWith(".md"))
      for (const match of text.matchAll(INVARIANT))
        (found.get(match[1] ?? "") ?? put(found, match[1] ?? "")).push(`${path}:${lineAt(text, match.index)}`);
  return found;
}

/** Ids defined twice, prefixes that two files share, and single letters, which are reserved for specifications. */
export function ambiguous({ specifications, invariants }: Definitions): readonly Fault[] {
  const faults: Fault[] = [];
  const owners = new Map<string, Set<string>>();
  for (const [id, places] of invariants) {
    const prefix = prefixOf(id);
    if (prefix.length === 1) {
      // A specification's rule may be restated where it is implemented.
      if (!isRowPrefix(specifications, prefix)) faults.push(`${places.join(", ")}: ${id}: an invariant's prefix has two letters`);
      continue;
    }
    if (places.length > 1) faults.push(`${places.join(", ")}: ${id}: defined ${places.length} times`);
    const files = owners.get(prefix) ?? new Set();
    owners.set(prefix, files);
    for (const place of places) files.add(place.replace(/:\d+$/, ""));
  }
  for (const [prefix, files] of owners)
    if (files.size > 1) faults.push(`${[...files].join(", ")}: ${prefix}: one prefix, ${files.size} files`);
  return faults;
}

export function unresolved(file: TextFile, definitions: Definitions): readonly Fault[] {
  return [...sections(file, definitions), ...rows(file, definitions), ...decisions(file, definitions), ...ids(file, definitions)];
}

function sections(file: TextFile, { specifications }: Definitions): readonly Fault[] {
  const { path, text } = file;
  const faults: Fault[] = [];
  let last = { end: -1, name: undefined as string | undefined };
  for (const match of text.matchAll(/§(\d+(?:\.\d+)*)(?:–(\d+(?:\.\d+)*))?/g)) {
    const before = plain(text.slice(Math.max(0, match.index - 60), match.index));
    if (/RFC \d+,? $/.test(before)) continue;
    const between = plain(text.slice(last.end, match.index));
    const named = new RegExp(`\\b${NAMED}(?:\\.md)?,? $`, "i").exec(before)?.[1]?.toLowerCase();
    const joined = last.end >= 0 && between.length <= 40 && /^[^().:;|]*$/.test(between) ? last.name : undefined;
    const name = named ?? joined;
    last = { end: match.index + match[0].length, name };
    const specification = specifications.get(name ?? ownSpecification(file) ?? "");
    for (const section of [match[1], match[2]])
      if (section !== undefined && specification?.sections.has(section) !== true)
        faults.push(
          fault(path, text, match.index, `${name === undefined ? "" : `${name} `}§${section}`, missing(specification, "section")),
        );
  }
  return faults;
}

/** `[informer T12]`, and the ids of a table whose title is `[deployment $id]`. */
function rows({ path, text }: TextFile, { specifications }: Definitions): readonly Fault[] {
  const faults: Fault[] = [];
  const look = (name: string, id: string, at: number): void => {
    if (specifications.get(name)?.ids.has(id) === false)
      faults.push(fault(path, text, at, `[${name} ${id}]`, `no such row in docs/internals/spec/${name}.md`));
  };
  for (const match of text.matchAll(/\[([a-z-]+)((?: [A-Z]*\d+[a-z]?)+)\]/g))
    for (const id of (match[2] ?? "").trim().split(" ")) look(match[1] ?? "", id, match.index);
  for (const [, name = ""] of text.matchAll(/\[([a-z-]+) \$id\]/g))
    for (const match of text.matchAll(/\bid: "([A-Z]*\d+[a-z]?)"/g)) look(name, match[1] ?? "", match.index);
  return faults;
}

function decisions({ path, text }: TextFile, definitions: Definitions): readonly Fault[] {
  const faults: Fault[] = [];
  for (const match of text.matchAll(/\bdesign[\s*/#-]+decisions?[\s*/#-]+(\d+(?:(?:,| and)[\s*/#-]+\d+)*)/gi))
    for (const id of (match[1] ?? "").match(/\d+/g) ?? [])
      if (!definitions.decisions.has(id))
        faults.push(fault(path, text, match.index, `design decision ${id}`, "no such decision in docs/internals/design.md"));
  return faults;
}

/** Ids in running text: of invariants anywhere, single letters in comments, documents and brackets. */
function ids(file: TextFile, { specifications, invariants }: Definitions): readonly Fault[] {
  const { path, text } = file;
  const prefixes = new Set([...invariants.keys()].map(prefixOf));
  const own = ownSpecification(file);
  const faults: Fault[] = [];
  for (const match of text.matchAll(/(?<![\w.§/$-])([A-Z]{1,3})(\d{1,3}[a-z]?)(?![\w-])/g)) {
    const [id, prefix = ""] = match;
    if (prefix.length > 1) {
      if (prefixes.has(prefix) && !invariants.has(id)) faults.push(fault(path, text, match.index, id, "nobody defines it"));
      continue;
    }
    if (!isRowPrefix(specifications, prefix) || !isProse(path, text, match.index) || inBrackets(text, match.index)) continue;
    const before = plain(text.slice(Math.max(0, match.index - 60), match.index));
    const named = new RegExp(`\\b${NAMED} (?:§[\\d.]+ )?(?:quirks? |rules? |hazards? )?(?:[A-Z]\\d+[a-z]?(?:, ?| and |–|/| to ))*$`, "i")
      .exec(before)?.[1]
      ?.toLowerCase();
    const name =
      named ?? (own !== undefined && hasPrefix(specifications.get(own), prefix) ? own : prefix === "A" ? RULES_OF_ALL : undefined);
    if (name === undefined ? !NO_IDS.has(id) : specifications.get(name)?.ids.has(id) !== true && !(named === undefined && NO_IDS.has(id)))
      faults.push(fault(path, text, match.index, id, missing(specifications.get(name ?? ""), "row or rule")));
  }
  return faults;
}

/** The folder's specification, or the only one that the file cites. */
function ownSpecification({ path, text }: TextFile): string | undefined {
  const document = /^docs\/internals\/spec\/([a-z-]+)\.md$/.exec(path)?.[1];
  const folder = OWN.find(([pattern]) => pattern.test(path))?.[1];
  const named = new Set([...text.matchAll(new RegExp(`\\b${NAMED}(?:\\.md)?,? §`, "gi"))].map(([, name = ""]) => name.toLowerCase()));
  return document ?? folder ?? (named.size === 1 ? [...named][0] : undefined);
}

/** A document, a comment (a line of one, or the text after its mark), or brackets in a test title. */
function isProse(path: string, text: string, index: number): boolean {
  if (path.endsWith(".md")) return true;
  const line = text.slice(text.lastIndexOf("\n", index - 1) + 1, index);
  return /^\s*(?:\/?\*|\/\/|--|#)|(?:^|\s)(?:\/\/|--|\/\*\*) |["`].* \((?:quirk |rule )?(?:[A-Z]\d+, )*$/.test(line);
}

function inBrackets(text: string, index: number): boolean {
  return /\[[a-z-]+(?: [A-Z]*\d+[a-z]?)* $/.test(text.slice(Math.max(0, index - 60), index));
}

function isRowPrefix(specifications: Definitions["specifications"], prefix: string): boolean {
  return [...specifications.values()].some((specification) => hasPrefix(specification, prefix));
}

function hasPrefix(specification: Specification | undefined, prefix: string): boolean {
  return [...(specification?.ids ?? [])].some((id) => prefixOf(id) === prefix);
}

function prefixOf(id: string): string {
  return id.replace(/\d.*$/, "");
}

function missing(specification: Specification | undefined, what: string): string {
  return specification ? `no such ${what} in docs/internals/spec/${specification.name}.md` : "of which specification?";
}

/** Returns the text without line breaks and without the marks at the start of comment lines. */
function plain(text: string): string {
  return text.replaceAll(/\s*\n\s*(?:\*|\/\/|--|#)?\s*/g, " ");
}

function fault(path: string, text: string, index: number, citation: string, why: string): Fault {
  return `${path}:${lineAt(text, index)}: ${citation}: ${why}`;
}

function lineAt(text: string, index: number): number {
  return text.slice(0, index).split("\n").length + (text[index] === "\n" ? 1 : 0);
}

function put(map: Map<string, string[]>, key: string): string[] {
  const list: string[] = [];
  map.set(key, list);
  return list;
}
