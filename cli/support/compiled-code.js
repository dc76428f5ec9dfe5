/**
 * What V8 made of this program's text, kept for the next start, which so takes half as long. Plain JavaScript of the oldest kind, as
 * run.js and cli/deltaloop.js are.
 */
import * as module from "node:module";
import { userInfo } from "node:os";
import { join } from "node:path";

/**
 * Kept where only who runs us writes. Not by `HOME`, which sudo may leave as it was: what is read here is run. Where nothing can be written
 * nothing is kept, and NODE_COMPILE_CACHE and NODE_DISABLE_COMPILE_CACHE are heard first, as always.
 *
 * @returns {string | undefined} the folder that it said; of one that was set already, the part of this very Node
 */
export function keepCompiledCode() {
  if (module.enableCompileCache === undefined) return undefined;
  try {
    return module.enableCompileCache(join(userInfo().homedir, ".cache", "deltaloop", "compiled")).directory;
  } catch {
    return undefined; // who runs us has no entry among the system's users
  }
}
