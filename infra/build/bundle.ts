import { glob, mkdir, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

import { build } from "esbuild";
import type { BuildOptions, Metafile, Plugin } from "esbuild";

import { inlineScripts } from "./inline-scripts.ts";
import { leftOut } from "./left-out.ts";
import { licensesOf } from "./licenses.ts";
import { withoutFetch } from "./without-fetch.ts";
import { zip } from "./zip.ts";

export interface FunctionBundle {
  readonly name: string;
  readonly bundle: string;
  readonly zip: string;
  readonly bytes: number;
  /** Of `bytes`, what our own modules contributed. */
  readonly ownBytes: number;
  readonly zipBytes: number;
}

/** Bundled CommonJS packages call `require` for Node's own modules. */
const REQUIRE = 'import { createRequire as deltaloopRequire } from "node:module"; const require = deltaloopRequire(import.meta.url);';

/** Packages of others that are bundled, too: npm 11 and later warn of their install scripts, which the command has no use for. */
const BUNDLED = /^(protobufjs|@protobufjs|long)(\/|$)/;

/** Leaves the packages of others to npm; the workspace packages are bundled, as no registry has them. */
const othersExternal: Plugin = {
  name: "others-external",
  setup({ onResolve }) {
    onResolve({ filter: /^[^./]/ }, ({ path, kind }) =>
      kind === "entry-point" || path.startsWith("@deltaloop/") || BUNDLED.test(path) ? undefined : { path, external: true },
    );
  },
};

const COMMON = {
  bundle: true,
  minify: true,
  platform: "node",
  target: "node24",
  format: "esm",
  mainFields: ["module", "main"],
  legalComments: "none",
  metafile: true,
  logLevel: "warning",
  plugins: [inlineScripts, withoutFetch],
} as const satisfies BuildOptions;

/** Names of the functions that are deployed: the folders under functions/ with a handler, without the node agent's. */
export async function functionNames(root: string): Promise<readonly string[]> {
  const names: string[] = [];
  for await (const file of glob("functions/*/handler.ts", { cwd: root })) names.push(basename(dirname(file)));
  return names.sort();
}

/** What stands beside a bundle: the licences of the packages that it has something of. */
const LICENSES_FILE = "THIRD-PARTY-LICENSES.txt";

/** `<out>/<name>/handler.mjs` and `<out>/<name>.zip`, which holds it and the licences of others. `preamble` is code that runs when it is loaded. */
export async function bundleFunction(root: string, name: string, out: string, preamble = ""): Promise<FunctionBundle> {
  const bundle = join(out, name, "handler.mjs");
  const result = await build({
    ...COMMON,
    absWorkingDir: root,
    entryPoints: [`functions/${name}/handler.ts`],
    outfile: bundle,
    banner: { js: REQUIRE + preamble },
    plugins: [...COMMON.plugins, leftOut(root)],
    alias: { "@aws-sdk/credential-provider-node": join(import.meta.dirname, "lambda-credentials.ts") },
    write: false,
  });
  const content = Buffer.from(result.outputFiles[0]?.contents ?? []);
  const licenses = Buffer.from(await licensesOf(root, result.metafile));
  const archive = zip([
    { name: "handler.mjs", content },
    { name: LICENSES_FILE, content: licenses },
  ]);
  await mkdir(dirname(bundle), { recursive: true });
  await writeFile(bundle, content);
  // The npm package has the bundle, too.
  await writeFile(join(dirname(bundle), LICENSES_FILE), licenses);
  await writeFile(join(out, `${name}.zip`), archive);
  return {
    name,
    bundle,
    zip: join(out, `${name}.zip`),
    bytes: content.length,
    ownBytes: ownBytes(result.metafile),
    zipBytes: archive.length,
  };
}

/**
 * `<outdir>/deltaloop.js` and what it loads, with their packages left in node_modules: npm installs those beside them. Node strips
 * no types there, hence the build; more than one file, because the first must be read by a Node that cannot use the others.
 */
export async function bundleCli(root: string, outdir: string): Promise<void> {
  const { metafile } = await build({
    ...COMMON,
    absWorkingDir: root,
    // Its own first line is a shebang, which esbuild keeps first.
    entryPoints: ["cli/deltaloop.js"],
    outdir,
    splitting: true,
    banner: { js: REQUIRE },
    plugins: [...COMMON.plugins, othersExternal],
    minify: false,
  });
  await writeFile(join(outdir, LICENSES_FILE), await licensesOf(root, metafile));
}

/** The one file of the watcher's image, and what it was made of. Functions have no use for most of it: other ways to credentials, words for people. */
export async function bundleImageCommand(root: string): Promise<{ readonly content: Uint8Array; readonly metafile: Metafile }> {
  const { outputFiles, metafile } = await build({
    ...COMMON,
    absWorkingDir: root,
    entryPoints: ["cli/image.ts"],
    outfile: "deltaloop.mjs",
    banner: { js: REQUIRE },
    write: false,
  });
  const [file] = outputFiles;
  if (file === undefined) throw new Error("esbuild made no file of cli/image.ts");
  return { content: file.contents, metafile };
}

function ownBytes({ outputs }: Metafile): number {
  return Object.values(outputs)
    .flatMap(({ inputs }) => Object.entries(inputs))
    .reduce((sum, [path, { bytesInOutput }]) => sum + (path.includes("node_modules/") ? 0 : bytesInOutput), 0);
}
