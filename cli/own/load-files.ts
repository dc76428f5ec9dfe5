/** Loads the files of controllers into the function host, and says in one line what is wrong with a file. */
import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { registerHooks } from "node:module";
import { relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { messageOf } from "@deltaloop/kube/objects";
import type { Controller } from "@deltaloop/sdk";

export interface LoadedFiles {
  /** Paths of the files and of their imports, except packages. */
  readonly files: readonly string[];
  readonly controllers: readonly Controller[];
  /** One line; then there are no controllers. */
  readonly problem?: string;
}

/** `loads` is called before the code of each file runs. */
export async function loadFiles(files: readonly string[], loads: (file: string) => void): Promise<LoadedFiles> {
  const loaded = new Set(files.map((file) => resolve(file)));
  const hooks = registerHooks({
    load(url, context, next) {
      if (url.startsWith("file:") && !url.includes("/node_modules/")) loaded.add(fileURLToPath(url));
      return next(url, context);
    },
  });
  const controllers: Controller[] = [];
  try {
    for (const file of files) {
      loads(file);
      const found = await controllersOf(file, loaded);
      if (typeof found === "string") return { files: [...loaded], controllers: [], problem: found };
      controllers.push(...found);
    }
    return { files: [...loaded], controllers };
  } finally {
    hooks.deregister();
  }
}

async function controllersOf(file: string, loaded: ReadonlySet<string>): Promise<readonly Controller[] | string> {
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return `${file}: there is no such file`;
  try {
    const exports = (await import(pathToFileURL(resolve(file)).href)) as Readonly<Record<string, unknown>>; // a module
    const controllers = Object.values(exports).filter(isController);
    return controllers.length > 0 ? controllers : `${file}: exports no controller: export what defineController returns`;
  } catch (error) {
    return `${placeOf(error, [file, ...loaded]) ?? file}: does not load: ${messageOf(error).trim().split("\n")[0] ?? ""}`;
  }
}

/** Returns true also for a controller of another copy of the package. */
function isController(value: unknown): value is Controller {
  return typeof value === "object" && value !== null && Symbol.for("deltaloop.controller") in value;
}

/** The first place in `files` that the error names, as `website.ts:14:31`; a syntax error has only a line. */
export function placeOf(error: unknown, files: readonly string[]): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const places = placesIn(error.stack ?? "", files);
  if (places.length > 0 || error.name !== "SyntaxError") return places[0];
  // The stack of a SyntaxError in JavaScript does not contain the position, but the text that Node prints does.
  const checked = files
    .filter((file) => existsSync(file))
    .map((file) => spawnSync(process.execPath, ["--check", file], { encoding: "utf8" }));
  return checked.flatMap(({ stderr }) => placesIn(stderr, files))[0];
}

/** A path as messages show it: relative to the working folder, if it is in there. */
export function shown(file: string): string {
  const path = relative("", file);
  return path.startsWith("..") ? file : path;
}

/** Returns the places in the order of the text. */
function placesIn(text: string, files: readonly string[]): readonly string[] {
  const found = files.flatMap((file) =>
    [pathToFileURL(resolve(file)).href, resolve(file)].flatMap((name) => {
      const at = text.indexOf(`${name}:`);
      const [, place] = /^:(\d+(?::\d+)?)/.exec(text.slice(at + name.length)) ?? [];
      return at < 0 || place === undefined ? [] : [{ at, text: `${shown(file)}:${place}` }];
    }),
  );
  return found.toSorted((a, b) => a.at - b.at).map((each) => each.text);
}
