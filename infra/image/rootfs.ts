/**
 * The image's root file system, as layers ordered by how often they change: Debian, Node, deltaloop. All files belong to root and have the
 * time 0. The process writes no files, so the root may be read-only.
 */
import { posix } from "node:path";

import type { DebianPackage } from "./debian.ts";
import type { NodeProgram } from "./node-program.ts";
import type { TarEntry } from "./tar.ts";
import { untar } from "./untar.ts";

/** User id of the process, unused on the host and in other images. */
export const USER_ID = 65_532;
export const NODE_PATH = "/usr/bin/node";
export const COMMAND_PATH = "/usr/lib/deltaloop/deltaloop.mjs";

/** Files kept of Debian's packages: libraries, licences and the release. Programs, documentation, locales and iconv tables are left out. */
const KEPT = [
  /^lib(?:64)?\/(?:[^/]+-linux-gnu\/)?[^/]+\.so[.\d]*$/,
  /^usr\/lib\/[^/]+-linux-gnu\/[^/]+\.so[.\d]*$/,
  /^(?:etc|usr\/lib)\/(?:os-release|debian_version)$/,
  /^usr\/share\/common-licenses\/[^/]+$/,
  // Some packages link to the folder of another package.
  /^usr\/share\/doc\/[^/]+\/copyright$/,
  /^usr\/share\/doc\/[^/]+$/,
];
const AUTHORITY = /^usr\/share\/ca-certificates\/.+\.crt$/;

/** The bundle that `update-ca-certificates` writes. */
const AUTHORITIES = "etc/ssl/certs/ca-certificates.crt";
const ACCOUNTS = {
  "etc/passwd": `root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:${USER_ID}:${USER_ID}:nonroot:/nonexistent:/sbin/nologin\n`,
  "etc/group": `root:x:0:\nnonroot:x:${USER_ID}:\n`,
  // Without this file, glibc queries DNS first and does not use a pod's hostAliases in /etc/hosts.
  "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
};

/**
 * Returns the layer of Debian's files. @throws {Error} when two packages contain the same file, or no package has a certificate authority
 */
export function debianLayer(packages: readonly DebianPackage[]): readonly TarEntry[] {
  const kept = new Map<string, TarEntry>();
  const authorities: string[] = [];
  for (const { name, control, files } of packages) {
    for (const entry of untar(files)) {
      if (entry.kind === "file" && AUTHORITY.test(entry.name)) authorities.push(Buffer.from(entry.content).toString("utf8").trimEnd());
      if (entry.kind === "folder" || !KEPT.some((pattern) => pattern.test(entry.name))) continue;
      if (kept.has(entry.name)) throw new Error(`${entry.name} of ${name} is also in another package`);
      kept.set(entry.name, entry);
    }
    // In an image without dpkg, vulnerability scanners read the packages from this folder.
    const status = `var/lib/dpkg/status.d/${name}`;
    kept.set(status, textFile(status, control));
  }
  if (authorities.length === 0) throw new Error("the Debian packages contain no certificate authority");
  for (const [name, content] of Object.entries({ ...ACCOUNTS, [AUTHORITIES]: `${authorities.join("\n")}\n` }))
    kept.set(name, textFile(name, content));
  return withFolders([...kept.values()]);
}

export function nodeLayer({ program, license }: NodeProgram): readonly TarEntry[] {
  return withFolders([
    { kind: "file", name: NODE_PATH.slice(1), content: program, mode: 0o755 },
    { kind: "file", name: "usr/share/doc/nodejs/LICENSE", content: license },
  ]);
}

/** Returns the layer of deltaloop. @param licenses licences of the bundled packages */
export function ownLayer(bundle: Uint8Array, license: Uint8Array, licenses: string): readonly TarEntry[] {
  return withFolders([
    { kind: "file", name: COMMAND_PATH.slice(1), content: bundle },
    { kind: "file", name: "usr/share/doc/deltaloop/LICENSE", content: license },
    textFile("usr/share/doc/deltaloop/THIRD-PARTY-LICENSES", licenses),
  ]);
}

function textFile(name: string, content: string): TarEntry {
  return { kind: "file", name, content: Buffer.from(content) };
}

/** Adds all parent folders and sorts, so that each entry follows its folder. */
function withFolders(entries: readonly TarEntry[]): readonly TarEntry[] {
  const folders = new Set<string>();
  for (const { name } of entries)
    for (let folder = posix.dirname(name); folder !== "."; folder = posix.dirname(folder)) folders.add(folder);
  return [...entries, ...[...folders].map((name) => ({ kind: "folder", name }) as const)].toSorted((a, b) => (a.name < b.name ? -1 : 1));
}
