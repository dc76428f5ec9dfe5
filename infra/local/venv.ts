/** LocalStack's Python environment: made once, kept in the user's cache folder, shared by all checkouts with the same pins. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { access, constants, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { messageOf } from "../../shared/api/errors.ts";

const run = promisify(execFile);

/** The last LocalStack that runs on Python 3.11 without a token, and the newest of each library that it works with (design.md). */
const PINS = ["localstack-core[runtime]==4.9.2", "cbor2<5.8", "pyopenssl<26", "psutil<7.1", "service_identity"] as const;
const PYTHON_MINOR_MIN = 10;
const INSTALL_MS_MAX = 15 * 60_000;
const LOCK_POLL_MS = 500;

export interface LocalStackVenv {
  /** The interpreter. */
  readonly python: string;
}

/**
 * The environment, installed with pip if it is not there yet (a minute or two), or one line for people why there is none. The
 * folder appears by a rename, so it is complete whenever it exists.
 */
export async function localStackVenv(): Promise<LocalStackVenv | { readonly missing: string }> {
  const version = await answerOf("python3", ["-c", "import sys; print(sys.version_info.minor)"]);
  const wanted = `LocalStack needs python3 ≥ 3.${PYTHON_MINOR_MIN} with venv`;
  if (version === undefined) return { missing: `${wanted}, and there is no python3 on the PATH (Debian: apt-get install python3-venv)` };
  if (Number(version) < PYTHON_MINOR_MIN) return { missing: `${wanted}, and this one is 3.${version}` };
  const folder = join(cacheFolder(), `localstack-${fingerprint(version)}`);
  const venv = { python: join(folder, "bin", "python") };
  if (await isExecutable(venv.python)) return venv;
  if ((await answerOf("python3", ["-c", "import venv, ensurepip"])) === undefined)
    return { missing: `${wanted}, and this one cannot make environments (Debian: apt-get install python3-venv)` };
  await mkdir(dirname(folder), { recursive: true });
  return await holdingLock(`${folder}.lock`, async () => {
    if (await isExecutable(venv.python)) return venv;
    try {
      await install(folder);
      return venv;
    } catch (error) {
      return { missing: `LocalStack could not be installed with pip: ${lastLine(error)}` };
    }
  });
}

async function install(folder: string): Promise<void> {
  say(`installing LocalStack with pip into ${folder}: a minute or two, once`);
  const startedAt = performance.now();
  const unfinished = `${folder}.installing`;
  try {
    // What a killed installation left; we hold the lock.
    await rm(unfinished, { recursive: true, force: true });
    await run("python3", ["-m", "venv", unfinished]);
    const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ...PINS];
    await run(join(unfinished, "bin", "python"), pip, { timeout: INSTALL_MS_MAX, maxBuffer: 64 * 1024 * 1024 });
    await rename(unfinished, folder);
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
  say(`installed in ${Math.round((performance.now() - startedAt) / 1000)} s`);
}

/** Another pin or another Python is another folder; an old one may be deleted at will. */
function fingerprint(pythonMinor: string): string {
  return createHash("sha256")
    .update([pythonMinor, ...PINS].join("\0"))
    .digest("hex")
    .slice(0, 16);
}

/** Runs `work` while no other live process runs it. The file holds its owner's pid; a dead owner's lock is broken. */
async function holdingLock<T>(lockFile: string, work: () => Promise<T>): Promise<T> {
  const giveUpAt = performance.now() + INSTALL_MS_MAX;
  for (let told = false; ; told = true) {
    try {
      await writeFile(lockFile, String(process.pid), { flag: "wx" });
      break;
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    }
    const owner = Number(await readFile(lockFile, "utf8").catch(() => ""));
    // 0: made, and its pid not yet written.
    if ((owner !== 0 && !isAlive(owner)) || performance.now() > giveUpAt) await rm(lockFile, { force: true });
    else {
      if (!told) say(`waiting for process ${owner || "?"}, which is installing LocalStack`);
      await sleep(LOCK_POLL_MS);
    }
  }
  try {
    return await work();
  } finally {
    await rm(lockFile, { force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Outside the checkout, as test/envtest has it. */
function cacheFolder(): string {
  const base = process.env["XDG_CACHE_HOME"];
  return join(base === undefined || base === "" ? join(homedir(), ".cache") : base, "deltaloop");
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
  process.stderr.write(`localstack: ${line}\n`);
}
