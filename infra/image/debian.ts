/**
 * Debian's packages of the image, as pins.json names them: version, and SHA-256 for each architecture.
 *
 * DP1 apt fetches them, by the machine's own sources and keys, into a folder of its own: nothing of the machine's lists or caches is
 *    changed, and no root is needed. What is fetched stays in the user's cache folder, under its SHA-256.
 * DP2 what differs from its pin is not used. A version that apt does not offer any more is an error that says what it offers instead;
 *    nothing newer is taken by itself.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { cacheFolder } from "../build/cache-folder.ts";
import type { Architecture } from "./oci-archive.ts";

export interface DebianPins {
  /** Debian's release that they are of. */
  readonly release: string;
  readonly packages: Readonly<Record<string, DebianPin>>;
}

export interface DebianPin {
  readonly version: string;
  /** Of the package's file, hex. */
  readonly sha256: Readonly<Record<Architecture, string>>;
}

export interface DebianPackage {
  readonly name: string;
  /** The paragraph that dpkg keeps of an installed package. */
  readonly control: string;
  /** What it installs, as a tar. */
  readonly files: Buffer;
}

/** Debian has moved on: the packages are to be looked at and pinned anew. */
export class PinsMovedError extends Error {
  override readonly name = "PinsMovedError";
}

const ARCHITECTURES: readonly Architecture[] = ["amd64", "arm64"];
export const PINS_FILE = join(import.meta.dirname, "pins.json");
const APT_MS_MAX = 300_000;
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;
const run = promisify(execFile);

export async function readPins(): Promise<DebianPins> {
  return JSON.parse(await readFile(PINS_FILE, "utf8")) as DebianPins; // written by currentPins
}

/** Why this machine cannot read Debian's packages, or undefined. */
export async function whyNoDebian(): Promise<string | undefined> {
  for (const tool of ["apt-get", "apt-cache", "dpkg-deb"])
    if (
      !(await run(tool, ["--version"]).then(
        () => true,
        () => false,
      ))
    )
      return `the image is made of Debian's packages, and there is no ${tool} here`;
  return undefined;
}

/** @throws {PinsMovedError} when apt offers other versions than the pinned ones */
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

/** What apt offers now for the packages of `pins`. @throws {Error} when the architectures have different versions, or a package is gone */
export async function currentPins({ release, packages }: DebianPins): Promise<DebianPins> {
  const names = Object.keys(packages);
  const offers = await Promise.all(ARCHITECTURES.map((architecture) => withApt(architecture, async (apt) => await offered(apt, names))));
  const pinned = names.map((name): readonly [string, DebianPin] => {
    const [amd64, arm64] = offers.map((offer) => offer.get(name));
    if (amd64 === undefined || arm64 === undefined) throw new Error(`apt here knows no ${name} for both architectures`);
    if (amd64.version !== arm64.version) throw new Error(`${name} is ${amd64.version} for amd64 and ${arm64.version} for arm64: try later`);
    return [name, { version: amd64.version, sha256: { amd64: amd64.sha256, arm64: arm64.sha256 } }];
  });
  return { release, packages: Object.fromEntries(pinned) };
}

interface Apt {
  readonly folder: string;
  readonly options: readonly string[];
}

async function fetchMissing(architecture: Architecture, { release, packages }: DebianPins): Promise<void> {
  const missing = Object.entries(packages).filter(([, { sha256 }]) => !existsSync(cachedFile(sha256[architecture])));
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
        `Debian ${release}'s packages have moved on, or this machine's apt is of another release; pinned and not offered any more: ${moved.join(", ")}`,
        { cause: error },
      );
    }
    await keep(folder, new Set(missing.map(([, { sha256 }]) => sha256[architecture])));
  });
}

/** Moves the packages in `folder` into the cache. @throws {Error} when one is not what was pinned */
async function keep(folder: string, wanted: ReadonlySet<string>): Promise<void> {
  await mkdir(join(cacheFolder(), "debian"), { recursive: true });
  for (const name of (await readdir(folder)).filter((file) => file.endsWith(".deb"))) {
    const sha256 = createHash("sha256")
      .update(await readFile(join(folder, name)))
      .digest("hex");
    if (!wanted.has(sha256)) throw new Error(`${name} has SHA-256 ${sha256}, which infra/image/pins.json does not name`);
    // Whole whenever it is there, also beside another run of this.
    const unfinished = `${cachedFile(sha256)}.${process.pid}`;
    await cp(join(folder, name), unfinished);
    await rename(unfinished, cachedFile(sha256));
  }
}

function cachedFile(sha256: string): string {
  return join(cacheFolder(), "debian", `${sha256}.deb`);
}

/** DP1: apt with lists of its own, for one architecture, as if nothing was installed. */
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
      // apt's own user could not write here.
      ...(process.getuid?.() === 0 && { "APT::Sandbox::User": "root" }),
    };
    const options = Object.entries(set).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
    await run("apt-get", [...options, "--quiet", "update"], { timeout: APT_MS_MAX, maxBuffer: OUTPUT_BYTES_MAX });
    return await work({ folder, options });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The version of each package that apt would install. */
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
