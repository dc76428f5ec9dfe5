/**
 * The text form of Go's types. `Struct{Field:type …}` lists fields in Go's declaration order. Types: `s` string, `b` bool, `i32`, `i64`,
 * `m` map[string]string, `~` a type with the field's own name, prefixes `*` and `[]`; a name without a struct of its own is a kind of
 * string. `Field=key` gives the JSON key where it is not the field's name with a small first letter; `Field^` is embedded.
 *
 * A later release changes a known struct: `+Field:type` appends, `Other+Field:type` inserts after `Other`, `!Field:type` gives another type,
 * `-Field` removes. `-Struct{}` removes a struct.
 */
export function typeTable(releases: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const structs = new Map<string, string[]>();
  for (const text of releases) {
    for (const [, removed, name = "", body = ""] of text.matchAll(/(-?)([\w.]+)\{([^}]*)\}/g)) {
      const words = body.split(/\s+/).filter((word) => word !== "");
      if (removed === "-") structs.delete(name);
      else structs.set(name, changedFields(structs.get(name), words, name));
    }
  }
  return structs;
}

function changedFields(known: readonly string[] | undefined, words: readonly string[], struct: string): string[] {
  if (known === undefined) return [...words];
  const fields = [...known];
  const at = (field: string): number => {
    const index = fields.findIndex((word) => /^\w+/.exec(word)?.[0] === field);
    if (index < 0) throw new Error(`the table of types changes ${struct}.${field}, which does not exist`);
    return index;
  };
  for (const word of words) {
    const [, before = "", change = "", field = "", rest = ""] = /^(\w*)([-+!])(\w+)(.*)$/.exec(word) ?? [];
    if (change === "-") fields.splice(at(field), 1);
    else if (change === "!") fields[at(field)] = field + rest;
    else if (change === "+") fields.splice(before === "" ? fields.length : at(before) + 1, 0, field + rest);
    else throw new Error(`the table of types lists ${struct} twice`);
  }
  return fields;
}
