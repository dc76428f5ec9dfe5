import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { deflateRawSync } from "node:zlib";

import type { Plugin } from "esbuild";

const LOAD = /readFileSync\(new URL\("(\.\/[\w./-]+\.lua)", import\.meta\.url\), "utf8"\)/g;
const LOAD_PROTO = /readFileSync\(new URL\("(\.\/[\w./-]+\.proto)", import\.meta\.url\), "utf8"\)/;

/**
 * Puts the Lua scripts, and the command's one .proto file, into the bundle: a bundle has no files beside it. Scripts go without
 * their comments, all in one deflated text, which is a fifth of their size and inflated in less than a millisecond. See
 * shared/adapters/redis/scripts/load.ts for the one form of expression that is replaced; a build that finds none of them fails.
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
      const packed = deflateRawSync(JSON.stringify(Object.fromEntries(texts)), { level: 9 }).toString("base64");
      const unpack = `import { inflateRawSync } from "node:zlib";\nconst lua = JSON.parse(inflateRawSync(Buffer.from("${packed}", "base64")).toString());\n`;
      return { loader: "ts", contents: unpack + source.replace(LOAD, (_expression, name: string) => `lua[${JSON.stringify(name)}]`) };
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

/** Whole-line comments and indentation go; the line breaks stay, so that an error of Redis names the line of the source. */
function withoutComments(lua: string): string {
  return lua.replace(/^[ \t]+/gm, "").replace(/^--.*$/gm, "");
}
