/** Debian packages for tests that need a program. */
import { spawnSync } from "node:child_process";

const INSTALL_MS_MAX = 300_000;
/** Another process may hold the dpkg lock: another test run, or the machine after its first boot. */
const LOCK_SECONDS_MAX = 120;

/**
 * Installs them, and retries with updated lists when `isThere` returns false. Prints nothing. @returns undefined when
 * `isThere` returns true at last, otherwise apt's last message
 */
export function aptInstall(packages: readonly string[], isThere: () => boolean): string | undefined {
  const options = { env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" }, encoding: "utf8", timeout: INSTALL_MS_MAX } as const;
  const apt = (...parameters: readonly string[]) =>
    spawnSync("apt-get", ["-o", `DPkg::Lock::Timeout=${LOCK_SECONDS_MAX}`, ...parameters], options);
  const install = () => apt("install", "-y", "--no-install-recommends", ...packages);
  let result = install();
  if (!isThere()) {
    apt("update", "-qq"); // a machine whose lists are old or empty
    result = install();
  }
  return isThere() ? undefined : (result.error?.message ?? result.stderr.trim().split("\n").at(-1) ?? "unknown");
}
