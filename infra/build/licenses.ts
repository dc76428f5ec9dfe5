/** The licences of the npm packages that a bundle has something of: most of them ask that their text goes along. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import type { Metafile } from "esbuild";

interface Packaged {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
}

const PACKAGE = /^(?<folder>(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+)\//;
const TEXT = /^(?:licen[cs]e|copying|notice)(?:[.-].*)?$/i;
/** What stands for the text that a package leaves out: Apache's is ours, too; MIT-0 asks for none. */
const STAND_INS: Readonly<Record<string, (root: string) => Promise<string>>> = {
  "Apache-2.0": async (root) => (await readFile(join(root, "LICENSE"), "utf8")).trim(),
  "MIT-0": () => Promise.resolve("MIT No Attribution: the package brings no text, and this licence asks for none."),
};
const LINE = `${"-".repeat(79)}\n`;

/**
 * One text: packages that share theirs stand above it together. The same for the same bundle.
 * @throws {Error} naming the packages that bring no text, or do not say under which licence they are
 */
export async function licensesOf(root: string, { outputs }: Metafile): Promise<string> {
  const used = Object.values(outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([path, { bytesInOutput }]) => (bytesInOutput > 0 ? [PACKAGE.exec(path)?.groups?.["folder"]] : [])),
  );
  const folders = [...new Set(used)].filter((folder) => folder !== undefined).toSorted();
  const found = await Promise.all(folders.map((folder) => licenseOf(root, folder)));
  const silent = found.filter(({ text, license }) => text === "" || license === undefined).map(({ name }) => name);
  if (silent.length > 0) throw new Error(`no licence, or no text of it, in ${silent.join(", ")}`);
  return [...Map.groupBy(found, ({ text }) => text)]
    .map(
      ([text, packages]) => `${packages.map(({ name, version, license }) => `${name} ${version} (${license})\n`).join("")}${LINE}${text}\n`,
    )
    .join(`${LINE}\n`);
}

async function licenseOf(root: string, path: string): Promise<Packaged & { readonly text: string }> {
  const folder = join(root, path);
  const { name, version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as Packaged; // npm's own
  const files = (await readdir(folder)).filter((file) => TEXT.test(file)).toSorted();
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), "utf8")));
  const own = texts.map((text) => text.replaceAll("\r\n", "\n").trim()).join("\n\n");
  const text = own === "" ? await STAND_INS[license ?? ""]?.(root) : own;
  return { name, version, ...(license !== undefined && { license }), text: text ?? "" };
}
