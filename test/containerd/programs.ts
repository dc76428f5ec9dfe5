/** The Debian packages that a test node needs, and a check whether this machine can run pods. */
import { spawnSync } from "node:child_process";
import { accessSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { aptInstall } from "../support/apt.ts";

/** Package → the programs and files used from it. */
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
 * Checks that pods can run here. As root, installs missing Debian packages and reports that on stderr.
 * @returns undefined, or the reason with which tests are skipped
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

/** Tries to create a bridge and a veth pair, an overlay mount and a cgroup, each in a new namespace or removed afterwards. */
const TRY = `set -e
ip link add dl0 type bridge
ip link add dl1 type veth
mkdir "$1/l" "$1/u" "$1/w" "$1/m"
mount -t overlay overlay -o "lowerdir=$1/l,upperdir=$1/u,workdir=$1/w" "$1/m"
umount "$1/m"
parent=/sys/fs/cgroup; [ -d "$parent/memory" ] && parent="$parent/memory"
mkdir "$parent/$2"
rmdir "$parent/$2"`;

/** Returns why pods cannot run: in a sandbox, even root may lack the required permissions. */
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
