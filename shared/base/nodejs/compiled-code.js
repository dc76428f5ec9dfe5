/**
 * Caches V8's compiled code of this program, which halves the next start's time. Plain JavaScript without new syntax, like run.js and
 * cli/deltaloop.js.
 */
import { mkdirSync, statSync } from "node:fs";
import * as module from "node:module";
import { userInfo } from "node:os";
import { join } from "node:path";

const WRITTEN_BY_OTHERS = 0o022;

/**
 * Uses a folder that only the current user can write, because its content is executed. The folder comes from the user database, not from
 * `HOME`, which sudo may leave unchanged. Without a writable folder nothing is cached; NODE_COMPILE_CACHE and NODE_DISABLE_COMPILE_CACHE
 * take precedence.
 *
 * @param {string} [home] for tests
 * @returns {string | undefined} the chosen folder; if one was set already, its subfolder for this Node version
 */
export function keepCompiledCode(home) {
  if (module.enableCompileCache === undefined) return undefined;
  try {
    const folder = join(home === undefined ? userInfo().homedir : home, ".cache", "deltaloop", "compiled");
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if ((statSync(folder).mode & WRITTEN_BY_OTHERS) !== 0) return undefined;
    return module.enableCompileCache(folder).directory;
  } catch {
    return undefined; // the folder cannot be created, or the current user has no entry in the user database
  }
}
