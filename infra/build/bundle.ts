import { glob, mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

import { build } from "esbuild";
import type { BuildOptions, Metafile, Plugin } from "esbuild";

import { declarationsOf } from "./declarations.ts";
import { inlineFunctionScripts, inlineScripts } from "./inline-scripts.ts";
import { leftOut } from "./left-out.ts";
import { licensesOf } from "./licenses.ts";
import { withoutFetch } from "./without-fetch.ts";
import { zip } from "./zip.ts";

export interface FunctionBundle {
  readonly name: string;
  readonly bundle: string;
  readonly zip: string;
  readonly bytes: number;
  /** The part of `bytes` that is from our own modules. */
  readonly ownBytes: number;
  readonly zipBytes: number;
}

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
}

/** Defines `require`, which bundled CommonJS packages call for built-in modules. */
const REQUIRE = 'import { createRequire as deltaloopRequire } from "node:module"; const require = deltaloopRequire(import.meta.url);';

/**
 * Keeps the dependencies in package.json external, because npm installs them with the command. All else is bundled: workspace packages,
 * since they are not published; protobufjs, since npm warns about its install script; the queue emulator, since it depends on the AWS SDK
 * of S3 and SNS.
 */
function npmExternal({ dependencies, peerDependencies }: Manifest): Plugin {
  const installed = Object.keys({ ...dependencies, ...peerDependencies });
  return {
    name: "npm-external",
    setup({ onResolve }) {
      onResolve({ filter: /^[^./]/ }, ({ path }) =>
        installed.some((name) => path === name || path.startsWith(`${name}/`)) ? { path, external: true } : undefined,
      );
    },
  };
}

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

/** Returns the names of the deployed functions: folders under functions/ with a handler, without those of the node agent. */
export async function functionNames(root: string): Promise<readonly string[]> {
  const names: string[] = [];
  for await (const file of glob("functions/*/handler.ts", { cwd: root })) names.push(basename(dirname(file)));
  return names.sort();
}

/** Name of the file next to each bundle with the licences of its packages. */
const LICENSES_FILE = "THIRD-PARTY-LICENSES.txt";

/** Writes `<out>/<name>/handler.mjs` and `<out>/<name>.zip`, which contains it and the licences. `preamble` is code to run at load. */
export async function bundleFunction(
  root: string,
  name: string,
  out: string,
  preamble = "",
  entry = `functions/${name}/handler.ts`,
): Promise<FunctionBundle> {
  const bundle = join(out, name, "handler.mjs");
  const result = await build({
    ...COMMON,
    absWorkingDir: root,
    entryPoints: [entry],
    outfile: bundle,
    banner: { js: REQUIRE + preamble },
    plugins: [inlineFunctionScripts, withoutFetch, leftOut(root)],
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
  // The npm package also contains the bundle, and so needs the licences.
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
 * Writes the command to `<outdir>/deltaloop.js` and chunks; npm installs its packages. Node strips no types in node_modules, hence the build.
 * deltaloop.js is separate, since a Node that is too old must be able to parse it.
 */
export async function bundleCli(root: string, outdir: string): Promise<void> {
  const manifest = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as Manifest; // our own
  const { metafile } = await build({
    ...COMMON,
    absWorkingDir: root,
    // esbuild keeps the entry point's shebang as the first line.
    entryPoints: ["cli/deltaloop.js"],
    outdir,
    splitting: true,
    banner: { js: REQUIRE },
    plugins: [...COMMON.plugins, npmExternal(manifest)],
    minify: false,
  });
  await writeFile(join(outdir, LICENSES_FILE), await licensesOf(root, metafile));
}

/** Writes what controllers import from the published package: its entry points in infra/package as JavaScript and declarations. */
export async function bundleSdk(root: string, outdir: string): Promise<void> {
  const folder = join(root, "infra", "package");
  const manifest = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as {
    readonly exports: Readonly<Record<string, string>>;
  }; // our own
  const entryPoints = Object.values(manifest.exports).map((file) => join(folder, file));
  const published = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as Manifest; // our own
  const { metafile } = await build({
    ...COMMON,
    absWorkingDir: root,
    entryPoints,
    outdir,
    splitting: true,
    banner: { js: REQUIRE },
    external: ["fauxqs"], // nothing here starts the queue emulator
    plugins: [...COMMON.plugins, npmExternal(published)],
    minify: false,
  });
  const licenses = await licensesOf(root, metafile);
  if (licenses !== "") await writeFile(join(outdir, LICENSES_FILE), licenses);
  for (const [path, text] of declarationsOf(root, entryPoints)) {
    await mkdir(dirname(join(outdir, path)), { recursive: true });
    await writeFile(join(outdir, path), text);
  }
}

/** Bundles the command of the watcher's image as one file. Returns it with esbuild's metafile. */
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
  if (file === undefined) throw new Error("esbuild returned no output for cli/image.ts");
  return { content: file.contents, metafile };
}

function ownBytes({ outputs }: Metafile): number {
  return Object.values(outputs)
    .flatMap(({ inputs }) => Object.entries(inputs))
    .reduce((sum, [path, { bytesInOutput }]) => sum + (path.includes("node_modules/") ? 0 : bytesInOutput), 0);
}
