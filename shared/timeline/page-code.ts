/** The page's script and style. The packed command has them inlined (infra/build/inline-scripts.ts); a checkout builds them on first use. */
import type { BuildOptions } from "esbuild";
import { readFile } from "node:fs/promises";

export interface PageCode {
  readonly script: string;
  readonly style: string;
}

export async function pageCode(): Promise<PageCode> {
  const { build } = await import("esbuild");
  // The page contains a copy of Preact, so it must contain Preact's licence.
  const license = await readFile(new URL("../LICENSE", import.meta.resolve("preact")), "utf8");
  const common = {
    ...{
      absWorkingDir: import.meta.dirname,
      outdir: "out",
      bundle: true,
      minify: true,
      write: false,
      format: "iife",
      legalComments: "none",
    },
    ...{ target: ["chrome117", "firefox119", "safari17.4"], logLevel: "warning" },
  } as const satisfies BuildOptions;
  const worker = await build({ ...common, entryPoints: { worker: "page/worker.ts" } });
  const { outputFiles } = await build({
    ...common,
    entryPoints: { script: "page/main.tsx", style: "page/style.css" },
    jsx: "automatic",
    jsxImportSource: "preact",
    define: { WORKER_CODE: JSON.stringify(worker.outputFiles[0]?.text ?? "") },
    banner: { js: `/*! Contains Preact.\n\n${license.trim()}\n*/` },
  });
  const textOf = (name: string): string => {
    const file = outputFiles.find(({ path }) => path.endsWith(name));
    if (file === undefined) throw new Error(`esbuild returned no ${name}`);
    return file.text.trim();
  };
  return { script: textOf("script.js"), style: textOf("style.css") };
}
