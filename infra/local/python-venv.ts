/** Python environments for third-party programs, in the user's cache folder and shared by all checkouts with the same pins. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { access, constants, mkdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { messageOf } from "@deltaloop/kube/objects";
import { cacheFolder } from "../build/cache-folder.ts";
import { holdingLock, waitAtMost } from "../build/lock-file.ts";

const run = promisify(execFile);

const INSTALL_MS_MAX = 15 * 60_000;
const LOCK_POLL_MS = 500;

export interface PythonVenv {
  /** Path of the interpreter. */
  readonly python: string;
}

/** An environment to install from PyPI. */
export interface Wanted {
  /** Name in messages, such as `LocalStack`. */
  readonly title: string;
  /** Prefix of the folder's name. */
  readonly name: string;
  /** Requirement specifiers for pip. */
  readonly pins: readonly string[];
  readonly pythonMinorMin: number;
  /** Duration of the installation, in words. */
  readonly takes: string;
}

/**
 * Returns the environment, which it installs with pip if necessary, or the reason in one line why it is not available. A rename creates the
 * folder, so an existing folder is complete.
 */
export async function pythonVenv(wanted: Wanted): Promise<PythonVenv | { readonly missing: string }> {
  const version = await pythonMinor();
  const needs = `${wanted.title} needs python3 ≥ 3.${wanted.pythonMinorMin} with venv`;
  if (version === undefined) return { missing: `${needs}, but python3 is not on the PATH (Debian: apt-get install python3-venv)` };
  if (Number(version) < wanted.pythonMinorMin) return { missing: `${needs}, but python3 is 3.${version}` };
  const folder = folderOf(wanted, version);
  const venv = { python: join(folder, "bin", "python") };
  if (await isExecutable(venv.python)) return venv;
  if ((await answerOf("python3", ["-c", "import venv, ensurepip"])) === undefined)
    return { missing: `${needs}, but the module venv is missing (Debian: apt-get install python3-venv)` };
  await mkdir(dirname(folder), { recursive: true });
  const whenHeld = waitAtMost({ mostMs: INSTALL_MS_MAX, pollMs: LOCK_POLL_MS }, (owner) =>
    say(`waiting for process ${owner || "?"}, which is installing ${wanted.title}`),
  );
  return await holdingLock(`${folder}.lock`, whenHeld, async () => {
    if (await isExecutable(venv.python)) return venv;
    try {
      await install(folder, wanted);
      return venv;
    } catch (error) {
      return { missing: `${wanted.title} could not be installed with pip: ${lastLine(error)}` };
    }
  });
}

/** Whether the environment is installed. */
export async function isInstalled(wanted: Wanted): Promise<boolean> {
  const version = await pythonMinor();
  return version !== undefined && (await isExecutable(join(folderOf(wanted, version), "bin", "python")));
}

async function install(folder: string, { title, takes, pins }: Wanted): Promise<void> {
  say(`installing ${title} with pip into ${folder}: ${takes}, once`);
  const startedAt = performance.now();
  const unfinished = `${folder}.installing`;
  try {
    // Removes an incomplete installation of a killed process; this process holds the lock.
    await rm(unfinished, { recursive: true, force: true });
    await run("python3", ["-m", "venv", unfinished]);
    const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ...pins];
    await run(join(unfinished, "bin", "python"), pip, { timeout: INSTALL_MS_MAX, maxBuffer: 64 * 1024 * 1024 });
    await rename(unfinished, folder);
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
  say(`installed in ${Math.round((performance.now() - startedAt) / 1000)} s`);
}

/** The folder depends on pins and Python version; unused folders may be deleted. */
function folderOf({ name, pins }: Wanted, minor: string): string {
  const fingerprint = createHash("sha256")
    .update([minor, ...pins].join("\0"))
    .digest("hex")
    .slice(0, 16);
  return join(cacheFolder(), `${name}-${fingerprint}`);
}

async function pythonMinor(): Promise<string | undefined> {
  return await answerOf("python3", ["-c", "import sys; print(sys.version_info.minor)"]);
}

async function answerOf(command: string, args: readonly string[]): Promise<string | undefined> {
  return await run(command, args).then(
    ({ stdout }) => stdout.trim(),
    () => undefined,
  );
}

async function isExecutable(path: string): Promise<boolean> {
  return await access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** Returns the last line of pip's output, which has the reason of a failure. */
function lastLine(error: unknown): string {
  const text = error instanceof Error && "stderr" in error ? String(error.stderr) : "";
  return text.trim().split("\n").at(-1) || messageOf(error);
}

function say(line: string): void {
  process.stderr.write(`python: ${line}\n`);
}
