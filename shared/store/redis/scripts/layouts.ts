/**
 * KEYS and ARGV of every script, by name and in order. Both sides use this table: `KeyTable` (../keys.ts) builds the arrays from
 * names, and `prelude` defines Lua locals of the same names.
 *
 * Every script has `ep` in front of its KEYS, and the caller's clock (ms, empty: the server's) and epoch in front of its ARGV:
 * `epochKey`, `clock` and `epoch` in Lua.
 *
 * Scalars of ARGV come first, then the number of records of each list, then the records. A name is available in a script as:
 *
 *     keys   meta: "key"       metaKey      the key
 *            queue: "queue"    queueBase    slot in KEYS of the block's first key; the others are KEYS[queueBase + P] …
 *            slices: "keys"    slicesFrom   slot of the first of a variable number of keys, the last ones of KEYS
 *     args   key: "text"       key          the text; "number" and "flag" are converted, an absent "number" is nil
 *            ops: ["id", …]    opsCount, opsAt, opsEnd, and OPS_ID …, OPS_SIZE, which are replaced by their numbers:
 *                              ARGV[at + OPS_ID] of the record at `at`; `for at = opsAt, opsEnd, OPS_SIZE` visits all
 *
 * Arguments named `…Slot` and `…Base` are slots of KEYS, because Redis Cluster forbids deriving keys from data. 0: none.
 */

import { BLOCKS, type CHANGES, type GATE, LAYOUTS } from "./layout-table.ts";
import type { ArgKind, KeyKind } from "./layout-table.ts";

export type ScriptName = keyof typeof LAYOUTS;

type Values<Args> = {
  readonly [N in keyof Args]: Args[N] extends readonly (infer Field extends string)[]
    ? readonly { readonly [F in Field]: string | number }[]
    : Args[N] extends "number"
      ? number | undefined
      : Args[N] extends "flag"
        ? boolean
        : string;
};
export type ArgsOf<S extends ScriptName> = Values<(typeof LAYOUTS)[S]["args"]>;
export type GateArgs = Values<typeof GATE>;
export type ChangeArgs = Values<typeof CHANGES>;
export type KeysOf<S extends ScriptName> = {
  readonly [N in keyof (typeof LAYOUTS)[S]["keys"]]: (typeof LAYOUTS)[S]["keys"][N] extends "key" ? string : readonly string[];
};

/** The layouts, parsed. */
const PLANS = new Map(
  Object.entries<{ readonly keys: Readonly<Record<string, KeyKind>>; readonly args: Readonly<Record<string, ArgKind>> }>(LAYOUTS).map(
    ([script, { keys, args }]) => {
      const all = Object.entries(args);
      return [
        script,
        {
          keys: Object.entries(keys),
          scalars: all.flatMap(([name, kind]) => (typeof kind === "string" ? [{ name, kind }] : [])),
          lists: all.flatMap(([name, fields]) => (typeof fields === "string" ? [] : [{ name, fields }])),
        },
      ] as const;
    },
  ),
);

function planOf(script: ScriptName): NonNullable<ReturnType<typeof PLANS.get>> {
  const plan = PLANS.get(script);
  if (!plan) throw new Error(`script ${script} has no layout`);
  return plan;
}

/** The KEYS of a call after `ep`, in order: keys and blocks of keys. */
export function keyList<S extends ScriptName>(script: S, keys: KeysOf<S>): readonly (string | readonly string[])[] {
  return planOf(script).keys.map(([name]) => (keys as Readonly<Record<string, string | readonly string[]>>)[name] ?? []); // ensured by KeysOf
}

/** ARGV after the clock, in order. */
export function argList<S extends ScriptName>(script: S, epoch: string, args: ArgsOf<S>): readonly string[] {
  const { scalars, lists } = planOf(script);
  const given = args as Readonly<Record<string, unknown>>; // ensured by ArgsOf
  const out = [epoch];
  for (const { name } of scalars) {
    const value = given[name];
    out.push(typeof value === "boolean" ? (value ? "1" : "0") : String(value ?? ""));
  }
  const records = lists.map(({ name }) => given[name] as readonly Readonly<Record<string, string | number>>[]);
  for (const list of records) out.push(String(list.length));
  lists.forEach(({ fields }, i) => {
    for (const record of records[i] ?? []) for (const field of fields) out.push(String(record[field]));
  });
  return out;
}

/** Lua locals for the part of a script's layout that `parts` (its libraries and text) uses. */
export function prelude(script: ScriptName, parts: readonly string[]): string {
  const { keys, scalars, lists } = planOf(script);
  const lines: string[] = [];
  const declare = (name: string, value: string | number): void => {
    if (parts.some((part) => wordsOf(part).has(name))) lines.push(`local ${name} = ${value}`);
  };
  for (const [block, [, ...others]] of Object.entries(BLOCKS)) {
    others.forEach((name, i) => declare(name.toUpperCase(), i + 1));
    declare(`${block.toUpperCase()}_SIZE`, others.length + 1);
  }
  let slot = FIRST_KEY;
  for (const [name, kind] of keys) {
    if (kind === "key") declare(`${name}Key`, `KEYS[${slot}]`);
    else declare(kind === "keys" ? `${name}From` : `${name}Base`, slot);
    slot += kind === "key" || kind === "keys" ? 1 : BLOCKS[kind].length;
  }
  let at = FIRST_ARG;
  for (const { name, kind } of scalars) {
    const value = `ARGV[${at++}]`;
    declare(name, kind === "number" ? `tonumber(${value})` : kind === "flag" ? `${value} == "1"` : value);
  }
  let first = String(at + lists.length);
  for (const { name, fields } of lists) {
    lines.push(`local ${name}Count = tonumber(ARGV[${at++}])`, `local ${name}At = ${first}`);
    lines.push(`local ${name}End = ${name}At + ${fields.length} * ${name}Count - 1`);
    first = `${name}End + 1`;
  }
  return `${lines.join("\n")}\n`;
}

/** Prepended to lib/base.lua. */
/** In place of the clock, if the arguments follow as one JSON text. */
export const PACKED = "json";
export const COMMON_PRELUDE =
  `local ARGV = ARGV[1] == "${PACKED}" and cjson.decode(ARGV[2]) or ARGV\n` + "local epochKey, clock, epoch = KEYS[1], ARGV[1], ARGV[2]\n";
const FIRST_KEY = 2;
const FIRST_ARG = 3;

const words = new Map<string, ReadonlySet<string>>();

function wordsOf(part: string): ReadonlySet<string> {
  let found = words.get(part);
  if (!found) {
    found = new Set(part.replace(/--.*$/gm, "").match(/\b[A-Za-z]\w*/g));
    words.set(part, found);
  }
  return found;
}

/** Replaces the constants of the lists in `args` by their numbers in `lua`, because Lua allows only 200 locals per function. */
export function numbered(args: Readonly<Record<string, ArgKind>>, lua: string): string {
  const numbers = new Map<string, number>();
  for (const [name, fields] of Object.entries(args)) {
    if (typeof fields === "string") continue;
    [...fields, "size"].forEach((field, i) => numbers.set(`${name}_${field}`.replace(/([a-z])([A-Z])/g, "$1_$2").toUpperCase(), i));
  }
  return lua.replace(/\b[A-Z]+(?:_[A-Z]+)+\b/g, (constant) => String(numbers.get(constant) ?? constant));
}
