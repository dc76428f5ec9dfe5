import { homedir } from "node:os";
import { join } from "node:path";

/**
 * Where what is downloaded or built once is kept: `$XDG_CACHE_HOME/deltaloop`, else `~/.cache/deltaloop`. Outside of the checkout, shared by
 * all of the user's clones.
 */
export function cacheFolder(): string {
  return join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "deltaloop");
}
