/** The licences of the npm packages in a bundle; most require that copies include their text. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import type { Metafile } from "esbuild";

interface Packaged {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
  readonly author?: string | { readonly name: string };
}

const PACKAGE = /^(?<folder>(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+)\//;
const TEXT = /^(?:licen[cs]e|copying|notice)(?:[.-].*)?$/i;
/** The text of the MIT licence from spdx.org/licenses/MIT. */
const MIT = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`;
/** Texts for packages without a licence file: Apache-2.0 is our own licence; MIT-0 does not require its text. */
const STAND_INS: Readonly<Record<string, (root: string, { author }: Packaged) => Promise<string>>> = {
  MIT: (_, { author = "" }) => {
    const holder = typeof author === "string" ? author : author.name;
    return Promise.resolve(holder === "" ? "" : `Copyright (c) ${holder}\n\n${MIT}`);
  },
  "Apache-2.0": async (root) => (await readFile(join(root, "LICENSE"), "utf8")).trim(),
  "MIT-0": () => Promise.resolve("MIT No Attribution: the package contains no text, and this licence does not require one."),
};
const LINE = `${"-".repeat(79)}\n`;

/**
 * Returns all licences as one text; packages with the same licence text share it. Deterministic.
 * @throws {Error} naming the packages without a licence or its text
 */
export async function licensesOf(root: string, { outputs }: Metafile): Promise<string> {
  const used = Object.values(outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([path, { bytesInOutput }]) => (bytesInOutput > 0 ? [PACKAGE.exec(path)?.groups?.["folder"]] : [])),
  );
  const folders = [...new Set(used)].filter((folder) => folder !== undefined).toSorted();
  const found = await Promise.all(folders.map((folder) => licenseOf(root, folder)));
  const missing = found.filter(({ text, license }) => text === "" || license === undefined).map(({ name }) => name);
  if (missing.length > 0) throw new Error(`no licence or no licence text in ${missing.join(", ")}`);
  return [...Map.groupBy(found, ({ text }) => text)]
    .map(
      ([text, packages]) => `${packages.map(({ name, version, license }) => `${name} ${version} (${license})\n`).join("")}${LINE}${text}\n`,
    )
    .join(`${LINE}\n`);
}

async function licenseOf(root: string, path: string): Promise<Packaged & { readonly text: string }> {
  const folder = join(root, path);
  const manifest = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as Packaged; // npm's package.json
  const { name, version, license } = manifest;
  const files = (await readdir(folder)).filter((file) => TEXT.test(file)).toSorted();
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), "utf8")));
  const own = texts.map((text) => text.replaceAll("\r\n", "\n").trim()).join("\n\n");
  const text = own === "" ? await STAND_INS[license ?? ""]?.(root, manifest) : own;
  return { name, version, ...(license !== undefined && { license }), text: text ?? "" };
}
