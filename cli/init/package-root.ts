import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of the package, or of the checkout, that this code is part of. */
export function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!isRoot(folder)) {
    if (folder === dirname(folder)) throw new Error("no folder above this program holds the package deltaloop");
    folder = dirname(folder);
  }
  return folder;
}

function isRoot(folder: string): boolean {
  const file = join(folder, "package.json");
  return existsSync(file) && (JSON.parse(readFileSync(file, "utf8")) as { readonly name?: string }).name === "deltaloop";
}
