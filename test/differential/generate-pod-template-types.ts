/**
 * Generates shared/kube/releases/v<minor release>/pod-template-types.ts from the Go types of a Kubernetes release: the differences from the
 * previous release, whose table must exist. Run it manually for a new release:
 *
 *     node test/differential/generate-pod-template-types.ts 1.37 <folder of k8s.io/api> <folder of k8s.io/apimachinery>
 *
 * templates.test.ts then compares the hashes with upstream's.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { typeTable } from "../../shared/kube/pod-template/type-table.ts";

const [release = "", api = "", machinery = ""] = process.argv.slice(2);
const ROOTS = ["PodTemplateSpec", "resource.Quantity"];
const WIDTH = 140;
const RELEASES = join(import.meta.dirname, "..", "..", "shared", "kube", "releases");
const FIRST_MINOR = 32;

const SHORT: Readonly<Record<string, string>> = { string: "s", bool: "b", int32: "i32", int64: "i64", "map[string]string": "m" };
/** Structs that are printed as one value. The fields of Quantity are printed too; plainFieldsOf reads them from its package. */
const VALUES = new Set(["Time", "Quantity", "IntOrString", "FieldsV1"]);

interface Field {
  readonly name: string;
  /** The JSON key; "" for an inlined field. */
  readonly key: string;
  readonly type: string;
}

const structs = new Map<string, readonly Field[]>();
for (const file of [join(api, "core/v1/types.go"), join(machinery, "pkg/apis/meta/v1/types.go")])
  for (const [name, body] of structsIn(file)) if (!structs.has(name) && !VALUES.has(name)) structs.set(name, fieldsOf(body));
for (const file of ["quantity.go", "amount.go"])
  for (const [name, body] of structsIn(join(machinery, "pkg/api/resource", file))) structs.set(`resource.${name}`, plainFieldsOf(body));

function structsIn(file: string): readonly (readonly [name: string, body: string])[] {
  const found = readFileSync(file, "utf8").matchAll(/^type (\w+) struct \{\n([\s\S]*?)^\}/gmu);
  return [...found].map(([, name = "", body = ""]) => [name, body]);
}

function fieldsOf(body: string): readonly Field[] {
  return [...body.matchAll(/^\s*(?:(\w+)\s+)?([\w.*[\]]+)\s+`json:"([^",]*)[^`\n]*`/gmu)].map(([, name, type = "", key = ""]) => {
    const local = type.replace(/(?<=^[*[\]]*)(?:metav1|v1)\./u, "");
    return { name: name ?? local.replace(/^[*[\]]*/u, ""), key, type: local };
  });
}

/** The fields of a struct of package resource, which has no JSON tags. */
function plainFieldsOf(body: string): readonly Field[] {
  return [...body.matchAll(/^\s*(?:(\w+)[ \t]+)?([\w.*[\]]+)[ \t]*$/gmu)].map(([, name, type = ""]) => {
    const full = type in SHORT || type.includes(".") ? type : `resource.${type}`;
    const local = name ?? type.replace(/^\*?(?:\w+\.)?/u, "");
    return { name: local, key: name === undefined ? "" : local, type: full };
  });
}

const JSON_KEY = (name: string): string => name.charAt(0).toLowerCase() + name.slice(1);

function printed({ name, key, type }: Field): string {
  const [, prefix = "", base = ""] = /^(\*|\[\])?(.*)$/u.exec(type) ?? [];
  const shown = base === name ? "~" : (SHORT[base] ?? base);
  const suffix = key === "" ? "^" : key === JSON_KEY(name) ? "" : `=${key}`;
  return `${name}${suffix}:${prefix}${shown}`;
}

const fieldsAsWords = (name: string): readonly string[] => (structs.get(name) ?? []).map(printed);
/** EphemeralContainerCommon is omitted, because it has the fields of Container (pod-template-layout.ts relies on that). */
if (fieldsAsWords("EphemeralContainerCommon").join() !== fieldsAsWords("Container").join())
  throw new Error("EphemeralContainerCommon and Container differ, but pod-template-layout.ts assumes that they are equal");

const reached = new Set(ROOTS);
for (const name of reached)
  for (const { type } of structs.get(name) ?? []) {
    const base = type.replace(/^(?:\*|\[\])/u, "");
    if (structs.has(base) && base !== "EphemeralContainerCommon") reached.add(base);
  }
for (const root of ROOTS) if (!structs.has(root)) throw new Error(`no ${root} in ${api} and ${machinery}`);

const before = await tablesBefore(Number(release.split(".")[1]));
const tableBefore = typeTable(before);
const removed = [...tableBefore.keys()].filter((name) => !reached.has(name)).map((name) => `-${name}{}`);
const changed = [...reached].flatMap((name) => {
  const words = wordsOf(name);
  return words.length === 0 && tableBefore.has(name) ? [] : [`${name}{${words.join(" ")}}`];
});

/** The fields of a new struct, or the changed fields of a known one. */
function wordsOf(name: string): readonly string[] {
  const fields = fieldsAsWords(name);
  const old = tableBefore.get(name);
  if (old === undefined) return fields;
  const [fieldOf, oldNames] = [
    (word: string): string => word.replace(/[=^:].*$/u, ""),
    new Map(old.map((word) => [/^\w+/u.exec(word)?.[0], word])),
  ];
  const kept = new Set(fields.map(fieldOf));
  const gone = [...oldNames.keys()].filter((field) => field !== undefined && !kept.has(field)).map((field) => `-${field}`);
  const last = old.map(fieldOf).findLast((field) => kept.has(field));
  let after = "";
  const news = fields.flatMap((word) => {
    const [field, previous] = [fieldOf(word), after];
    after = field;
    const known = oldNames.get(field);
    if (known === word) return [];
    if (known !== undefined) return [`!${word}`];
    return [fields.map(fieldOf).indexOf(field) > fields.map(fieldOf).indexOf(last ?? "") ? `+${word}` : `${previous}+${word}`];
  });
  return [...gone, ...news];
}

async function tablesBefore(minor: number): Promise<readonly string[]> {
  const tables: string[] = [];
  for (let each = FIRST_MINOR; each < minor; each++) {
    const made = (await import(join(RELEASES, `v1.${each}`, "pod-template-types.ts"))) as { readonly POD_TEMPLATE_TYPES: string };
    tables.push(made.POD_TEMPLATE_TYPES);
  }
  return tables;
}

const lines: string[] = [];
for (const word of [...removed, ...changed].flatMap((struct) => struct.split(" "))) {
  const last = lines.at(-1);
  if (/^-?[\w.]+\{/u.test(word)) lines.push(word);
  else if (last !== undefined && last.length + 1 + word.length <= WIDTH) lines[lines.length - 1] = `${last} ${word}`;
  else lines.push(`  ${word}`);
}

const folder = join(RELEASES, `v${release}`);
if (!existsSync(folder)) mkdirSync(folder);
writeFileSync(
  join(folder, "pod-template-types.ts"),
  `/**
 * The Go types behind a pod template in Kubernetes ${release}${before.length > 0 ? ", as changes to the release before" : ""}. The syntax is explained in
 * shared/kube/pod-template/type-table.ts. Generated by test/differential/generate-pod-template-types.ts; do not edit.
 *
 * Source: k8s.io/api core/v1/types.go, k8s.io/apimachinery pkg/apis/meta/v1/types.go, pkg/api/resource.
 */
export const POD_TEMPLATE_TYPES = \`
${lines.join("\n")}
\`;
`,
);
