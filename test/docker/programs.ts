/** Finds a dockerd: the installed one, or Debian's package, unpacked without installing it. */
import { spawnSync } from "node:child_process";
import { accessSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";

import { ensureContainerd } from "../containerd/programs.ts";
import { cacheFolder } from "../../infra/build/cache-folder.ts";

const INSTALLED = "/usr/sbin/dockerd";
const PACKAGE = "docker.io";
/** Libraries that the package's programs need in addition to those of containerd; no services. */
const LIBRARIES = ["libdevmapper1.02.1", "libsystemd0"];
const APT_MS_MAX = 300_000;

/**
 * Ensures that a dockerd can run here. On a machine with systemd, installing the package would permanently start a daemon that changes the
 * packet filter. So the package is unpacked once into the user's cache folder, which is reported on stderr.
 *
 * @returns the program, or the reason with which tests are skipped
 */
export function ensureDockerd(): { readonly program: string } | { readonly missing: string } {
  const missing = ensureContainerd();
  if (missing !== undefined) return { missing };
  if (exists(INSTALLED)) return { program: INSTALLED };
  const folder = join(cacheFolder(), PACKAGE);
  const program = join(folder, INSTALLED);
  if (!exists(program)) {
    const failure = unpack(folder);
    if (failure !== undefined) return { missing: failure };
  }
  const tried = spawnSync(program, ["--version"], { encoding: "utf8" });
  return tried.status === 0 ? { program } : { missing: `dockerd does not start: ${tried.error?.message ?? lastLine(tried.stderr)}` };
}

function unpack(folder: string): string | undefined {
  process.stderr.write(`docker: unpacking Debian's package ${PACKAGE} into ${folder}\n`);
  mkdirSync(cacheFolder(), { recursive: true });
  // A temporary sibling folder, so that one rename completes the folder.
  const draft = mkdtempSync(`${folder}.`);
  const options = {
    cwd: draft,
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    encoding: "utf8",
    timeout: APT_MS_MAX,
  } as const;
  const apt = (...parameters: readonly string[]) => spawnSync("apt-get", parameters, options);
  try {
    let result = apt("download", PACKAGE);
    if (result.status !== 0) {
      apt("update", "-qq"); // the package lists may be old or empty
      result = apt("download", PACKAGE);
    }
    const archive = readdirSync(draft).find((name) => name.endsWith(".deb"));
    if (archive === undefined) return `apt-get download ${PACKAGE} failed: ${result.error?.message ?? lastLine(result.stderr)}`;
    const libraries = apt("install", "-y", "--no-install-recommends", ...LIBRARIES);
    if (libraries.status !== 0) return `apt-get install ${LIBRARIES.join(" ")} failed: ${lastLine(libraries.stderr)}`;
    const unpacked = spawnSync("dpkg-deb", ["-x", archive, "."], options);
    if (unpacked.status !== 0) return `dpkg-deb -x ${archive} failed: ${lastLine(unpacked.stderr)}`;
    rmSync(join(draft, archive));
    if (!exists(join(folder, INSTALLED))) renameSync(draft, folder);
    return undefined;
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

function lastLine(text: string | null): string {
  return text?.trim().split("\n").at(-1) ?? "unknown";
}

function exists(path: string): boolean {
  try {
    accessSync(path);
    return true;
  } catch {
    return false;
  }
}
