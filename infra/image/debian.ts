/**
 * The image's Debian packages, pinned in pins.json by version and by SHA-256 for each architecture.
 *
 * DP1 apt downloads them into a temporary folder, with the machine's sources and keys. It needs no root and leaves the machine's lists and
 *    caches unchanged. Downloaded packages stay in the user's cache folder, named by their SHA-256.
 * DP2 Only packages with the pinned SHA-256 are used; a cached package is hashed on each use. If apt no longer offers a pinned version, an
 *    error names the offered one. Only `npm run image -- --update` changes a pin.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { cacheFolder } from "../build/cache-folder.ts";
import type { Architecture } from "./oci-archive.ts";

export interface DebianPins {
  /** Debian release, such as `bookworm`. */
  readonly release: string;
  readonly packages: Readonly<Record<string, DebianPin>>;
}

export interface DebianPin {
  readonly version: string;
  /** SHA-256 of the .deb file, in hex. */
  readonly sha256: Readonly<Record<Architecture, string>>;
}

export interface DebianPackage {
  readonly name: string;
  /** The package's control paragraph, as `dpkg-deb --field` prints it. */
  readonly control: string;
  /** The package's files, as an uncompressed tar. */
  readonly files: Buffer;
}

/** apt no longer offers a pinned version: review the current packages and pin them. */
export class PinsMovedError extends Error {
  override readonly name = "PinsMovedError";
}

const ARCHITECTURES: readonly Architecture[] = ["amd64", "arm64"];
export const PINS_FILE = join(import.meta.dirname, "pins.json");
const APT_MS_MAX = 300_000;
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;
const run = promisify(execFile);

export async function readPins(): Promise<DebianPins> {
  return JSON.parse(await readFile(PINS_FILE, "utf8")) as DebianPins; // currentPins() wrote this file
}

/** Returns why this machine cannot build from Debian packages, or undefined if it can. */
export async function whyNoDebian(): Promise<string | undefined> {
  for (const tool of ["apt-get", "apt-cache", "dpkg-deb"])
    if (
      !(await run(tool, ["--version"]).then(
        () => true,
        () => false,
      ))
    )
      return `building the image needs ${tool}, which is not on the PATH; run the build on Debian`;
  return undefined;
}

/** Returns the pinned packages. @throws {PinsMovedError} when apt no longer offers a pinned version that is not in the cache */
export async function debianPackages(architecture: Architecture, pins: DebianPins): Promise<readonly DebianPackage[]> {
  await fetchMissing(architecture, pins);
  return await Promise.all(
    Object.entries(pins.packages).map(async ([name, pin]) => {
      const file = cachedFile(pin.sha256[architecture]);
      const [{ stdout: control }, { stdout: files }] = await Promise.all([
        run("dpkg-deb", ["--field", file]),
        run("dpkg-deb", ["--fsys-tarfile", file], { encoding: "buffer", maxBuffer: OUTPUT_BYTES_MAX }),
      ]);
      return { name, control, files };
    }),
  );
}

/** Returns pins for the versions that apt offers now. @throws {Error} when versions differ between architectures, or apt lacks a package */
export async function currentPins({ release, packages }: DebianPins): Promise<DebianPins> {
  const names = Object.keys(packages);
  const offers = await Promise.all(ARCHITECTURES.map((architecture) => withApt(architecture, async (apt) => await offered(apt, names))));
  const pinned = names.map((name): readonly [string, DebianPin] => {
    const [amd64, arm64] = offers.map((offer) => offer.get(name));
    if (amd64 === undefined || arm64 === undefined) throw new Error(`apt does not offer ${name} for both architectures`);
    if (amd64.version !== arm64.version)
      throw new Error(`${name} is ${amd64.version} for amd64 but ${arm64.version} for arm64: try again later`);
    return [name, { version: amd64.version, sha256: { amd64: amd64.sha256, arm64: arm64.sha256 } }];
  });
  return { release, packages: Object.fromEntries(pinned) };
}

interface Apt {
  readonly folder: string;
  readonly options: readonly string[];
}

async function fetchMissing(architecture: Architecture, { release, packages }: DebianPins): Promise<void> {
  const isCached = await Promise.all(
    Object.values(packages).map(({ sha256 }) => holds(cachedFile(sha256[architecture]), sha256[architecture])),
  );
  const missing = Object.entries(packages).filter((_, index) => !isCached[index]);
  if (missing.length === 0) return;
  await withApt(architecture, async ({ folder, options }) => {
    const wanted = missing.map(([name, { version }]) => `${name}:${architecture}=${version}`);
    try {
      await run("apt-get", [...options, "--quiet", "download", ...wanted], { cwd: folder, timeout: APT_MS_MAX });
    } catch (error) {
      const offers = await offered({ folder, options }, Object.keys(packages));
      const moved = missing.flatMap(([name, { version }]) => {
        const offer = offers.get(name)?.version;
        return offer === version ? [] : [`${name} ${version} (here: ${offer ?? "none"})`];
      });
      if (moved.length === 0) throw error;
      throw new PinsMovedError(
        `apt no longer offers these pinned packages of Debian ${release}, or it is configured for another release: ${moved.join(", ")}`,
        { cause: error },
      );
    }
    await keep(folder, new Set(missing.map(([, { sha256 }]) => sha256[architecture])));
  });
}

/** Copies the packages in `folder` into the cache. @throws {Error} when the SHA-256 of a package is not pinned */
async function keep(folder: string, wanted: ReadonlySet<string>): Promise<void> {
  await mkdir(join(cacheFolder(), "debian"), { recursive: true });
  for (const name of (await readdir(folder)).filter((file) => file.endsWith(".deb"))) {
    const sha256 = await sha256Of(join(folder, name));
    if (!wanted.has(sha256)) throw new Error(`${name} has SHA-256 ${sha256}, which infra/image/pins.json does not list`);
    // The rename prevents a concurrent run from reading an incomplete file.
    const unfinished = `${cachedFile(sha256)}.${process.pid}`;
    await cp(join(folder, name), unfinished);
    await rename(unfinished, cachedFile(sha256));
  }
}

function cachedFile(sha256: string): string {
  return join(cacheFolder(), "debian", `${sha256}.deb`);
}

/** Whether `file` exists and has this SHA-256 (DP2). Removes a file with a different checksum, so that apt downloads it again. */
async function holds(file: string, sha256: string): Promise<boolean> {
  const found = await sha256Of(file).catch(() => undefined);
  if (found !== undefined && found !== sha256) await rm(file, { force: true });
  return found === sha256;
}

async function sha256Of(file: string): Promise<string> {
  return createHash("sha256")
    .update(await readFile(file))
    .digest("hex");
}

/** Runs `work` with private package lists for one architecture and an empty list of installed packages (DP1). */
async function withApt<T>(architecture: Architecture, work: (apt: Apt) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "deltaloop-apt-"));
  try {
    await mkdir(join(folder, "lists", "partial"), { recursive: true });
    await mkdir(join(folder, "archives", "partial"), { recursive: true });
    const set = {
      "Dir::State::Lists": join(folder, "lists"),
      "Dir::State::status": "/dev/null",
      "Dir::Cache": folder,
      "APT::Architecture": architecture,
      "APT::Architectures": architecture,
      "Acquire::Languages": "none",
      // apt drops root for the user _apt, which cannot write to this folder.
      ...(process.getuid?.() === 0 && { "APT::Sandbox::User": "root" }),
    };
    const options = Object.entries(set).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
    await run("apt-get", [...options, "--quiet", "update"], { timeout: APT_MS_MAX, maxBuffer: OUTPUT_BYTES_MAX });
    return await work({ folder, options });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Returns the version and checksum of each package that apt would install. */
async function offered(
  { options }: Apt,
  names: readonly string[],
): Promise<ReadonlyMap<string, { readonly version: string; readonly sha256: string }>> {
  const { stdout } = await run("apt-cache", [...options, "show", "--no-all-versions", ...names], { maxBuffer: OUTPUT_BYTES_MAX });
  return new Map(
    stdout.split("\n\n").flatMap((paragraph) => {
      const field = (name: string): string | undefined => new RegExp(`^${name}: (.*)$`, "m").exec(paragraph)?.[1];
      const [name, version, sha256] = [field("Package"), field("Version"), field("SHA256")];
      return name === undefined || version === undefined || sha256 === undefined ? [] : [[name, { version, sha256 }] as const];
    }),
  );
}
