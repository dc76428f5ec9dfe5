/** The page's script and style. The packed command has them inlined (infra/build/inline-scripts.ts); a checkout builds them on first use. */
import { readFile } from "node:fs/promises";

export interface PageCode {
  readonly script: string;
  readonly style: string;
}

export async function pageCode(): Promise<PageCode> {
  const { build } = await import("esbuild");
  // A page is a copy of Preact, whose licence has to come along.
  const license = await readFile(new URL("../LICENSE", import.meta.resolve("preact")), "utf8");
  const { outputFiles } = await build({
    absWorkingDir: import.meta.dirname,
    entryPoints: { script: "page/main.tsx", style: "page/style.css" },
    outdir: "out",
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: ["chrome117", "firefox119", "safari17.4"],
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    banner: { js: `/*! Contains Preact.\n\n${license.trim()}\n*/` },
    logLevel: "warning",
  });
  const textOf = (name: string): string => {
    const file = outputFiles.find(({ path }) => path.endsWith(name));
    if (file === undefined) throw new Error(`esbuild returned no ${name}`);
    return file.text.trim();
  };
  return { script: textOf("script.js"), style: textOf("style.css") };
}
