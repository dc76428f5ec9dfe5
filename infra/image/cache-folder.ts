import { homedir } from "node:os";
import { join } from "node:path";

/** What is downloaded and made once, outside of the checkout, as test/envtest and infra/local have it. */
export function cacheFolder(): string {
  const base = process.env["XDG_CACHE_HOME"];
  return join(base === undefined || base === "" ? join(homedir(), ".cache") : base, "deltaloop");
}
