/** Debian packages for tests that need a program. */
import { spawnSync } from "node:child_process";

const INSTALL_MS_MAX = 300_000;
/** Seconds to wait for the dpkg lock, which another test run or the first boot may hold. */
const LOCK_SECONDS_MAX = 120;

/**
 * Installs the packages; if `isThere` then returns false, updates the package lists and retries. Prints nothing.
 * @returns undefined when `isThere` returns true, otherwise apt's last message
 */
export function aptInstall(packages: readonly string[], isThere: () => boolean): string | undefined {
  const options = { env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" }, encoding: "utf8", timeout: INSTALL_MS_MAX } as const;
  const apt = (...parameters: readonly string[]) =>
    spawnSync("apt-get", ["-o", `DPkg::Lock::Timeout=${LOCK_SECONDS_MAX}`, ...parameters], options);
  const install = () => apt("install", "-y", "--no-install-recommends", ...packages);
  let result = install();
  if (!isThere()) {
    apt("update", "-qq"); // the package lists may be old or empty
    result = install();
  }
  return isThere() ? undefined : (result.error?.message ?? result.stderr.trim().split("\n").at(-1) ?? "unknown");
}
