/**
 * The root folder of the image, as layers from what seldom changes to what always does: Debian, Node, ours. All of it belongs to root,
 * has the time 0, and may be read-only: the process writes nowhere.
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

/** Of Debian's packages: libraries, licences, which release it is. No program, no documentation, no locale, no iconv table. */
const KEPT = [
  /^lib(?:64)?\/(?:[^/]+-linux-gnu\/)?[^/]+\.so[.\d]*$/,
  /^usr\/lib\/[^/]+-linux-gnu\/[^/]+\.so[.\d]*$/,
  /^(?:etc|usr\/lib)\/(?:os-release|debian_version)$/,
  /^usr\/share\/common-licenses\/[^/]+$/,
  // A package may share the folder of another one, by a link.
  /^usr\/share\/doc\/[^/]+\/copyright$/,
  /^usr\/share\/doc\/[^/]+$/,
];
const AUTHORITY = /^usr\/share\/ca-certificates\/.+\.crt$/;

/** As `update-ca-certificates` makes it of all of them. */
const AUTHORITIES = "etc/ssl/certs/ca-certificates.crt";
const ACCOUNTS = {
  "etc/passwd": `root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:${USER_ID}:${USER_ID}:nonroot:/nonexistent:/sbin/nologin\n`,
  "etc/group": `root:x:0:\nnonroot:x:${USER_ID}:\n`,
  // Without it glibc would ask the DNS first, and a pod's hostAliases never.
  "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
};

/** @throws {Error} when two packages have one file, or when there is no authority, which a change in Debian would mean */
export function debianLayer(packages: readonly DebianPackage[]): readonly TarEntry[] {
  const kept = new Map<string, TarEntry>();
  const authorities: string[] = [];
  for (const { name, control, files } of packages) {
    for (const entry of untar(files)) {
      if (entry.kind === "file" && AUTHORITY.test(entry.name)) authorities.push(Buffer.from(entry.content).toString("utf8").trimEnd());
      if (entry.kind === "folder" || !KEPT.some((pattern) => pattern.test(entry.name))) continue;
      if (kept.has(entry.name)) throw new Error(`${entry.name} of ${name} is in another package, too`);
      kept.set(entry.name, entry);
    }
    // Where scanners look for what an image without dpkg was made of.
    const status = `var/lib/dpkg/status.d/${name}`;
    kept.set(status, textFile(status, control));
  }
  if (authorities.length === 0) throw new Error("Debian's packages have no certificate authority");
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

/** @param licenses of whatever is bundled */
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

/** Sorted, each after the folders that it is in. */
function withFolders(entries: readonly TarEntry[]): readonly TarEntry[] {
  const folders = new Set<string>();
  for (const { name } of entries)
    for (let folder = posix.dirname(name); folder !== "."; folder = posix.dirname(folder)) folders.add(folder);
  return [...entries, ...[...folders].map((name) => ({ kind: "folder", name }) as const)].toSorted((a, b) => (a.name < b.name ? -1 : 1));
}
