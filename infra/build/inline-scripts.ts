import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { brotliCompressSync } from "node:zlib";

import type { Plugin } from "esbuild";

const LOAD = /readFileSync\(new URL\("(\.\/[\w./-]+\.lua)", import\.meta\.url\), "utf8"\)/g;
const LOAD_PROTO = /readFileSync\(new URL\("(\.\/[\w./-]+\.proto)", import\.meta\.url\), "utf8"\)/;

/**
 * Puts the Lua scripts, and the command's one .proto file, into the bundle: a bundle has no files beside it. Scripts go without
 * their comments, all in one compressed text, which is a fifth of their size and unpacked in less than a millisecond. See
 * shared/store/redis/scripts/load.ts for the one form of expression that is replaced; a build that finds none of them fails.
 */
export const inlineScripts: Plugin = {
  name: "inline-scripts",
  setup(build) {
    build.onLoad({ filter: /[\\/]redis[\\/]scripts[\\/]load\.ts$/ }, async ({ path }) => {
      const source = await readFile(path, "utf8");
      const names = [...source.matchAll(LOAD)].map(([, name = ""]) => name);
      if (names.length === 0) throw new Error(`${path} loads no script in the form the build knows`);
      const texts = await Promise.all(
        names.map(async (name) => [name, withoutComments(await readFile(join(dirname(path), name), "utf8"))]),
      );
      const packed = packedText(Object.fromEntries(texts));
      const unpack = `import { brotliDecompressSync } from "node:zlib";\nconst lua = JSON.parse(brotliDecompressSync(Buffer.from("${packed}", "base64")).toString());\n`;
      return { loader: "ts", contents: unpack + source.replace(LOAD, (_expression, name: string) => `lua[${JSON.stringify(name)}]`) };
    });
    build.onLoad({ filter: /[\\/]redis[\\/]scripts[\\/]layout-table\.ts$/ }, async ({ path }) => {
      const table = (await import(pathToFileURL(path).href)) as Readonly<Record<string, object>>; // data alone
      return { loader: "js", contents: packedModule(table) };
    });
    build.onLoad({ filter: /[\\/]cri[\\/]load\.ts$/ }, async ({ path }) => {
      const source = await readFile(path, "utf8");
      const [, name] = LOAD_PROTO.exec(source) ?? [];
      if (name === undefined) throw new Error(`${path} loads no .proto file in the form the build knows`);
      const text = await readFile(join(dirname(path), name), "utf8");
      return { loader: "ts", contents: source.replace(LOAD_PROTO, () => JSON.stringify(text)) };
    });
  },
};

/** A module that exports `values`, which are data alone, from one compressed text. */
export function packedModule(values: Readonly<Record<string, unknown>>): string {
  const unpack = `import { brotliDecompressSync } from "node:zlib";\nconst values = JSON.parse(brotliDecompressSync(Buffer.from("${packedText(values)}", "base64")).toString());\n`;
  return (
    unpack +
    Object.keys(values)
      .map((name) => `export const ${name} = values.${name};`)
      .join("\n")
  );
}

/** Brotli, whose window spans all scripts: they share most of their words. */
function packedText(value: object): string {
  return brotliCompressSync(JSON.stringify(value)).toString("base64");
}

/** Whole-line comments and indentation go; the line breaks stay, so that an error of Redis names the line of the source. */
function withoutComments(lua: string): string {
  return lua.replace(/^[ \t]+/gm, "").replace(/^--.*$/gm, "");
}
