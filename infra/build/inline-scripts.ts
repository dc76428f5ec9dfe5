import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { brotliCompressSync } from "node:zlib";

import type { Plugin, PluginBuild } from "esbuild";

const LOAD = /readFileSync\(new URL\("(\.\/[\w./-]+\.lua)", import\.meta\.url\), "utf8"\)/g;
const LOAD_PROTO = /readFileSync\(new URL\("(\.\/[\w./-]+\.proto)", import\.meta\.url\), "utf8"\)/;

/**
 * Inlines the Lua scripts and the command's .proto file, since a bundle has no other files next to it. The scripts, without comments, are
 * compressed as one text to a fifth of their size; decompression takes under 1 ms. It replaces the form of expression in
 * shared/store/redis/scripts/load.ts, and fails the build if it finds none. The code of the timeline page is built and inlined, too.
 */
export const inlineScripts: Plugin = inlining(() => true);

/** The scripts that only a watcher runs. */
const OF_WATCHERS = ["beat", "checkpoint", "open-epoch", "open-fence", "open-generation"].map((name) => `./epochs/${name}.lua`);
const NOT_IN_FUNCTIONS = 'return redis.error_reply("ERR the bundles of functions have no scripts of the watcher")';

/** The same for functions, without the scripts of watchers. */
export const inlineFunctionScripts: Plugin = inlining((script) => !OF_WATCHERS.includes(script));

function inlining(holds: (script: string) => boolean): Plugin {
  return { name: "inline-scripts", setup: (build) => inline(build, holds) };
}

function inline(build: PluginBuild, holds: (script: string) => boolean): void {
  build.onLoad({ filter: /[\\/]redis[\\/]scripts[\\/]load\.ts$/ }, async ({ path }) => {
    const source = await readFile(path, "utf8");
    const names = [...source.matchAll(LOAD)].map(([, name = ""]) => name);
    if (names.length === 0) throw new Error(`${path} loads no script in the form that inline-scripts.ts replaces`);
    const texts = await Promise.all(
      names.map(async (name) => [
        name,
        holds(name) ? withoutComments(await readFile(join(dirname(path), name), "utf8")) : NOT_IN_FUNCTIONS,
      ]),
    );
    const packed = packedText(Object.fromEntries(texts));
    const unpack = `import { brotliDecompressSync } from "node:zlib";\nconst lua = JSON.parse(brotliDecompressSync(Buffer.from("${packed}", "base64")).toString());\n`;
    return { loader: "ts", contents: unpack + source.replace(LOAD, (_expression, name: string) => `lua[${JSON.stringify(name)}]`) };
  });
  build.onLoad({ filter: /[\\/]redis[\\/]scripts[\\/]layout-table\.ts$/ }, async ({ path }) => {
    const table = (await import(pathToFileURL(path).href)) as Readonly<Record<string, object>>; // this module exports only data
    return { loader: "js", contents: packedModule(table) };
  });
  build.onLoad({ filter: /[\\/]timeline[\\/]page-code\.ts$/ }, async ({ path }) => {
    const { pageCode } = (await import(pathToFileURL(path).href)) as { readonly pageCode: () => Promise<object> }; // the imported file
    return { loader: "js", contents: `export async function pageCode() { return ${JSON.stringify(await pageCode())}; }` };
  });
  build.onLoad({ filter: /[\\/]cri[\\/]load\.ts$/ }, async ({ path }) => {
    const source = await readFile(path, "utf8");
    const [, name] = LOAD_PROTO.exec(source) ?? [];
    if (name === undefined) throw new Error(`${path} loads no .proto file in the form that inline-scripts.ts replaces`);
    const text = await readFile(join(dirname(path), name), "utf8");
    return { loader: "ts", contents: source.replace(LOAD_PROTO, () => JSON.stringify(text)) };
  });
}

/** Returns the source of a module that exports `values`, which must be JSON, from one compressed text. */
export function packedModule(values: Readonly<Record<string, unknown>>): string {
  const unpack = `import { brotliDecompressSync } from "node:zlib";\nconst values = JSON.parse(brotliDecompressSync(Buffer.from("${packedText(values)}", "base64")).toString());\n`;
  return (
    unpack +
    Object.keys(values)
      .map((name) => `export const ${name} = values.${name};`)
      .join("\n")
  );
}

/** Compresses with Brotli, whose window spans all scripts and so uses their repetitions. */
function packedText(value: object): string {
  return brotliCompressSync(JSON.stringify(value)).toString("base64");
}

/** Removes whole-line comments and indentation, but no line breaks, so that line numbers in Redis' errors stay correct. */
export function withoutComments(lua: string): string {
  return lua.replace(/^[ \t]+/gm, "").replace(/^--.*$/gm, "");
}
