/** Names of KEYS and ARGV: the table in scripts/layouts.ts, compared with the scripts. */
import { globSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { describe, expect, it } from "vitest";
import { KeyTable } from "../../../../shared/store/redis/keys.ts";
import { CHANGES, GATE, LAYOUTS, READERS } from "../../../../shared/store/redis/scripts/layout-table.ts";
import { SCRIPTS } from "../../../../shared/store/redis/scripts/load.ts";

const FILES = globSync("shared/store/redis/scripts/**/*.lua").map((path) => ({ path, lua: readFileSync(path, "utf8") }));
const GROUPS: Readonly<Record<string, object>> = { GATE, READERS, CHANGES };
const layouts = Object.entries<{ readonly keys: object; readonly args: object }>(LAYOUTS);
const names = Object.keys(SCRIPTS) as (keyof typeof SCRIPTS)[];

/** Names that the header of a script lists after `what`: the first word of each part between dots. */
function listed(lua: string, what: "KEYS" | "ARGV"): readonly string[] {
  const head = /^(?:--.*\n)+/.exec(lua)?.[0].replace(/^-- ?/gm, "") ?? "";
  const [, section = ""] = new RegExp(`^${what}  ([^]*?)^(?:ARGV|Returns)`, "m").exec(head) ?? [];
  const words = section.split(/ · |\n {6}(?=\w+(?::|\n| [·(]))/).map((part) => /^\s*(\w+)/.exec(part)?.[1] ?? "");
  return words.flatMap((word) => (word === "none" ? [] : GROUPS[word] ? Object.keys(GROUPS[word]) : [word]));
}

it("the layout table covers every script and library", () => {
  expect(FILES.length).toBe(layouts.length + globSync("shared/store/redis/scripts/lib/*.lua").length);
  expect(layouts.length).toBeGreaterThan(30);
});

it.each(FILES)("$path reads no argument by position", ({ lua }) => {
  expect(lua.match(/\b(?:ARGV|KEYS)\[\d.*?\]/g)).toBeNull();
});

describe.each(layouts)("%s", (script, { keys, args }) => {
  const file = FILES.find(
    ({ path }) => !path.includes("/lib/") && basename(path, ".lua") === script.replace(/[A-Z]/g, "-$&").toLowerCase(),
  );
  const text = (SCRIPTS[script as keyof typeof SCRIPTS] ?? []).join("\n").replace(/--.*$/gm, "");

  it("a script has a header that lists the names from the layout table, in order", () => {
    expect(file?.lua).toMatch(new RegExp(`^-- ${script}: `));
    expect(listed(file?.lua ?? "", "KEYS")).toEqual(Object.keys(keys));
    expect(listed(file?.lua ?? "", "ARGV")).toEqual(Object.keys(args));
  });

  it("declares each name once, and uses only declared constants", () => {
    const declared = [...text.matchAll(/^local (?:function )?([\w, ]+)/gm)].flatMap(([, list = ""]) =>
      list.split(/, */).map((name) => name.trim()),
    );
    const given = [...(SCRIPTS[script as keyof typeof SCRIPTS]?.[1] ?? "").matchAll(/^local (\w+)/gm)].map(([, name = ""]) => name);
    expect(given.filter((name) => declared.filter((each) => each === name).length > 1)).toEqual([]);
    const code = text.replace(/"[^"\n]*"/g, "");
    const constants = new Set(code.match(/\b[A-Z]+(?:_[A-Z]+)+\b/g));
    expect([...constants].filter((name) => !new RegExp(`^\\s*local [\\w, ]*\\b${name}\\b`, "m").test(text))).toEqual([]);
  });
});

it("passes values in the table's order, with the length of each list and empty strings for absent values", () => {
  const queue = ["q", "p", "f", "u", "b", "z"];
  const done = new KeyTable("done", "ep", { limiter: "rl", queue });
  expect(done.call("e1", { delayMs: undefined, outcome: "ok", token: "t", key: "shop/web" })).toEqual({
    script: "done",
    keys: ["ep", ...queue, "rl"],
    args: ["e1", "shop/web", "t", "ok", ""],
  });
  const ops = [{ name: "a", id: "c:a", uid: "", mayLandUntilMs: 5, verb: "create" }];
  const register = new KeyTable("registerIntents", "ep", { queue, intents: "i" });
  expect(
    register.call("e1", {
      ops,
      term: "t",
      termFence: "7",
      marks: "0",
      drawn: "12",
      controller: "replicaset",
      ownerUid: "u",
      token: "t",
      key: "shop/web",
    }).args,
  ).toEqual(["e1", "shop/web", "t", "u", "replicaset", "t", "7", "0", "12", "1", "c:a", "create", "a", "", "5"]);
  // @ts-expect-error the token is missing
  done.call("e1", { delayMs: undefined, outcome: "ok", key: "shop/web" });
  // @ts-expect-error no script has such an argument
  done.call("e1", { delayMs: undefined, outcome: "ok", token: "t", key: "shop/web", lane: 0 });
  // @ts-expect-error nor such a key
  expect(() => new KeyTable("done", "ep", { limiter: "rl", queue, stop: "guard" })).not.toThrow();
  expect(names.length).toBe(layouts.length);
});
