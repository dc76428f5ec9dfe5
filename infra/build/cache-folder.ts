import { homedir } from "node:os";
import { join } from "node:path";

/** Returns the user's cache folder, shared by all checkouts: `$XDG_CACHE_HOME/deltaloop`, else `~/.cache/deltaloop`. */
export function cacheFolder(): string {
  return join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "deltaloop");
}
