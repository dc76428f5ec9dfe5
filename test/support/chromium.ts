/** Debian's Chromium, for tests of a page. */
import { existsSync } from "node:fs";
import { aptInstall } from "./apt.ts";

export const CHROMIUM = "/usr/bin/chromium";

/**
 * Installs Chromium if it is missing and this process is root, and reports that on stderr. @returns undefined, or the reason why it is
 * unavailable
 */
export function ensureChromium(): string | undefined {
  if (existsSync(CHROMIUM)) return undefined;
  if (process.getuid?.() !== 0) return `${CHROMIUM} is missing, and only root may install it (apt-get install chromium)`;
  process.stderr.write(`${CHROMIUM} is missing: installing Debian's package chromium with apt-get\n`);
  const why = aptInstall(["chromium"], () => existsSync(CHROMIUM));
  return why === undefined ? undefined : `apt-get install chromium failed: ${why}`;
}
