/** What a node needs from Debian, and whether this machine can run pods at all. */
import { spawnSync } from "node:child_process";
import { accessSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { aptInstall } from "../support/apt.ts";

/** Package → what of it is used. */
const NEEDED: Readonly<Record<string, readonly string[]>> = {
  containerd: ["/usr/bin/containerd", "/usr/bin/ctr", "/usr/bin/containerd-shim-runc-v2"],
  runc: ["/usr/sbin/runc"],
  "containernetworking-plugins": ["/usr/lib/cni/bridge", "/usr/lib/cni/host-local", "/usr/lib/cni/loopback"],
  "busybox-static": ["/bin/busybox"],
  "bash-static": ["/bin/bash-static"],
  gcc: ["/usr/bin/cc"],
  "libc6-dev": ["/usr/include/stdio.h"],
  iproute2: ["/usr/sbin/ip"],
};
export const CONTAINERD = "/usr/bin/containerd";
export const CTR = "/usr/bin/ctr";
export const CNI_PLUGINS = "/usr/lib/cni";

/**
 * Makes sure that pods can run here, installing Debian's packages when this is root and saying so on stderr.
 * @returns undefined, or the one reason why not: tests are then skipped with it.
 */
export function ensureContainerd(): string | undefined {
  if (process.platform !== "linux") return "containers need Linux";
  if (process.getuid?.() !== 0) return "containers with a network of their own need root";
  const absent = missing();
  if (absent.length > 0) {
    const failure = install(absent);
    if (failure !== undefined) return failure;
  }
  return kernelLacks();
}

function missing(): readonly string[] {
  return Object.keys(NEEDED).filter((name) => !(NEEDED[name] ?? []).every(exists));
}

function install(packages: readonly string[]): string | undefined {
  process.stderr.write(`containerd: installing Debian's packages ${packages.join(", ")} with apt-get\n`);
  const why = aptInstall(packages, () => missing().length === 0);
  return why === undefined ? undefined : `apt-get install ${missing().join(" ")} failed: ${why}`;
}

/** Bridge and veth pair, an overlay where images will be unpacked, a cgroup: each in namespaces of its own, or taken back. */
const TRY = `set -e
ip link add dl0 type bridge
ip link add dl1 type veth
mkdir "$1/l" "$1/u" "$1/w" "$1/m"
mount -t overlay overlay -o "lowerdir=$1/l,upperdir=$1/u,workdir=$1/w" "$1/m"
umount "$1/m"
parent=/sys/fs/cgroup; [ -d "$parent/memory" ] && parent="$parent/memory"
mkdir "$parent/$2"
rmdir "$parent/$2"`;

/** A sandboxed machine may be root and still not be allowed what pods need. */
function kernelLacks(): string | undefined {
  const directory = mkdtempSync(join(tmpdir(), "deltaloop-try-"));
  try {
    const tried = spawnSync("unshare", ["--net", "--mount", "sh", "-c", TRY, "sh", directory, basename(directory)], { encoding: "utf8" });
    if (tried.status === 0) return undefined;
    return `this machine does not give root what pods need: ${tried.error?.message ?? tried.stderr.trim().split("\n").at(-1)}`;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function exists(path: string): boolean {
  try {
    accessSync(path);
    return true;
  } catch {
    return false;
  }
}
