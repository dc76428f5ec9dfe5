/**
 * What V8 made of this program's text, kept for the next start, which so takes half as long. Plain JavaScript of the oldest kind, as
 * run.js and cli/deltaloop.js are.
 */
import { mkdirSync, statSync } from "node:fs";
import * as module from "node:module";
import { userInfo } from "node:os";
import { join } from "node:path";

const WRITTEN_BY_OTHERS = 0o022;

/**
 * Kept where only who runs us writes, by the system's list of users and not by `HOME`, which sudo may leave as it was: what is read here is
 * run. Where nothing can be written nothing is kept, and NODE_COMPILE_CACHE and NODE_DISABLE_COMPILE_CACHE are heard first, as always.
 *
 * @param {string} [home] for tests
 * @returns {string | undefined} the folder that it said; of one that was set already, the part of this very Node
 */
export function keepCompiledCode(home) {
  if (module.enableCompileCache === undefined) return undefined;
  try {
    const folder = join(home === undefined ? userInfo().homedir : home, ".cache", "deltaloop", "compiled");
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if ((statSync(folder).mode & WRITTEN_BY_OTHERS) !== 0) return undefined;
    return module.enableCompileCache(folder).directory;
  } catch {
    return undefined; // it cannot be made, or who runs us has no entry among the system's users
  }
}
