/** Python environments for programs of others: made once, kept in the user's cache folder, shared by all checkouts with the same pins. */
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
  /** The interpreter. */
  readonly python: string;
}

/** What is installed from PyPI. */
export interface Wanted {
  /** For people: `LocalStack`. */
  readonly title: string;
  /** Part of its folder's name. */
  readonly name: string;
  /** As pip takes them. */
  readonly pins: readonly string[];
  readonly pythonMinorMin: number;
  /** How long installing takes, in words. */
  readonly takes: string;
}

/**
 * The environment, installed with pip if it is not there yet, or one line for people why there is none. The folder appears by a rename,
 * so it is complete whenever it exists.
 */
export async function pythonVenv(wanted: Wanted): Promise<PythonVenv | { readonly missing: string }> {
  const version = await pythonMinor();
  const needs = `${wanted.title} needs python3 ≥ 3.${wanted.pythonMinorMin} with venv`;
  if (version === undefined) return { missing: `${needs}, and there is no python3 on the PATH (Debian: apt-get install python3-venv)` };
  if (Number(version) < wanted.pythonMinorMin) return { missing: `${needs}, and this one is 3.${version}` };
  const folder = folderOf(wanted, version);
  const venv = { python: join(folder, "bin", "python") };
  if (await isExecutable(venv.python)) return venv;
  if ((await answerOf("python3", ["-c", "import venv, ensurepip"])) === undefined)
    return { missing: `${needs}, and this one cannot make environments (Debian: apt-get install python3-venv)` };
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

/** Whether `pythonVenv` would have nothing to install. */
export async function isInstalled(wanted: Wanted): Promise<boolean> {
  const version = await pythonMinor();
  return version !== undefined && (await isExecutable(join(folderOf(wanted, version), "bin", "python")));
}

async function install(folder: string, { title, takes, pins }: Wanted): Promise<void> {
  say(`installing ${title} with pip into ${folder}: ${takes}, once`);
  const startedAt = performance.now();
  const unfinished = `${folder}.installing`;
  try {
    // What a killed installation left; we hold the lock.
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

/** Another pin or another Python is another folder; an old one may be deleted at will. */
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

/** A pip that fails says why last. */
function lastLine(error: unknown): string {
  const text = error instanceof Error && "stderr" in error ? String(error.stderr) : "";
  return text.trim().split("\n").at(-1) || messageOf(error);
}

function say(line: string): void {
  process.stderr.write(`python: ${line}\n`);
}
