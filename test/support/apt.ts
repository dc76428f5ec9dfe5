/** Debian's packages, for tests that need a program. */
import { spawnSync } from "node:child_process";

const INSTALL_MS_MAX = 300_000;
/** Somebody else may be installing: another run of ours, or the machine by itself after its first start. */
const LOCK_SECONDS_MAX = 120;

/**
 * Installs them, once more with fresh lists when `isThere` does not hold then. Says nothing.
 * @returns undefined when `isThere` holds at last, else apt's last word
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
