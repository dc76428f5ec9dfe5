import type { Plugin } from "esbuild";

const HTTP = "node:http";

/**
 * An ES module that imports `node:http` has Node read all that this exports, and one of it is a WebSocket, with which Node loads its whole fetch: an
 * eighth of what the import of a function takes, and 13 MiB of a process that lives on. Asked for by name it is not read.
 */
export const withoutFetch: Plugin = {
  name: "without-fetch",
  setup(build) {
    build.onResolve({ filter: new RegExp(`^${HTTP}$`) }, ({ kind }) =>
      kind === "import-statement" ? { path: HTTP, namespace: "without-fetch" } : undefined,
    );
    build.onLoad({ filter: /./, namespace: "without-fetch" }, () => ({
      contents: `module.exports = process.getBuiltinModule("${HTTP}");`,
      loader: "js",
    }));
  },
};
