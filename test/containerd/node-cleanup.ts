/**
 * Removes everything that belongs to a node. Every node ends this way, on request or after its owner process is gone.
 *
 * CU1 it identifies the node's resources by the node's directory, cgroup and bridge address, which are unique. It ends processes by pid,
 *     and only those whose command line contains that directory or that are in that cgroup.
 * CU2 it may run at any time, and repeatedly.
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";

import { startReaper } from "../../infra/local/process-reaper.ts";
import type { NodeIdentity } from "./identity.ts";

/**
 * Ends processes first, until none is left: containerd or dockerd, a node agent with its root in the directory, then the shims, runc and
 * containers. Then removes mounts, and resources outside the directory: the shims' sockets, CNI's cache, bridge and veth pairs, cgroups.
 */
const CLEAN = `
clean() {
  for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    found=
    for file in $(grep -lsaE "(--config|--config-file|-address|--root|--root-dir).$DIRECTORY/" /proc/[0-9]*/cmdline); do
      pid=\${file#/proc/}; found="$found \${pid%/cmdline}"
    done
    for root in /sys/fs/cgroup /sys/fs/cgroup/*; do
      [ -d "$root/$CGROUP" ] && found="$found $(find "$root/$CGROUP" -name cgroup.procs -exec cat {} + 2> /dev/null | tr '\\n' ' ')"
    done
    [ -z "$(echo $found)" ] && break
    kill -KILL $found 2> /dev/null
    sleep 0.1
  done
  while read -r _ point _; do
    case $point in "$DIRECTORY"/*) echo "$point" ;; esac
  done < /proc/self/mounts | sort -r | while read -r point; do umount -l "$point"; done
  for file in "$DIRECTORY"/state/io.containerd.runtime.v2.task/*/*/address "$DIRECTORY"/exec/containerd/daemon/io.containerd.runtime.v2.task/*/*/address; do
    [ -f "$file" ] && socket=$(cat "$file") && rm -f "\${socket#unix://}"
  done
  for sandbox in "$DIRECTORY"/root/io.containerd.grpc.v1.cri/sandboxes/*; do
    rm -f /var/lib/cni/results/*-"\${sandbox##*/}"-*
  done
  for file in /sys/class/net/*/address; do
    link=\${file%/address}
    if [ -d "$link/bridge" ] && [ "$(cat "$file" 2> /dev/null)" = "$BRIDGE_ADDRESS" ]; then
      for port in "$link"/brif/*; do [ -e "$port" ] && ip link delete "\${port##*/}"; done
      ip link delete "\${link##*/}"
    fi
  done
  for root in /sys/fs/cgroup /sys/fs/cgroup/*; do
    [ -d "$root/$CGROUP" ] && find "$root/$CGROUP" -depth -type d -exec rmdir {} ';'
  done
  # A compiler that was at work may still write into it.
  for try in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- "$DIRECTORY" && break; sleep 0.2; done
  # What runtimes share: nobody's while it is empty and no other node of ours is there to be about to use it.
  if ! ls /sys/class/net | grep -q "^$BRIDGE_PREFIX"; then
    for shared in /run/containerd/s /run/containerd /var/lib/cni/results /var/lib/cni; do rmdir "$shared"; done
  fi
  true
} 2> /dev/null
`;
/** Runs the cleanup once its standard input closes, which happens however the owner process ends (exit, crash, SIGKILL). */
const WATCH = `${CLEAN} trap "" INT TERM HUP; while read -r _; do :; done; clean`;

export interface NodeCleanup {
  /** Cleans up now and ends the cleanup process. */
  end(): Promise<void>;
}

export function startNodeCleanup(identity: NodeIdentity): NodeCleanup {
  const env = environment(identity);
  const watcher = startReaper({ name: "containerd-guard", script: WATCH, env });
  return {
    async end() {
      await promisify(execFile)("/bin/sh", ["-c", `${CLEAN} clean`, "containerd-clean"], { cwd: "/", env });
      await watcher.dismiss();
    },
  };
}

/** Environment variables instead of arguments: the cleanup process would otherwise match its own command line. */
function environment({ directory, cgroup, bridgeAddress }: NodeIdentity): NodeJS.ProcessEnv {
  return {
    PATH: process.env["PATH"] ?? "/usr/sbin:/usr/bin:/sbin:/bin",
    DIRECTORY: directory,
    CGROUP: cgroup,
    BRIDGE_ADDRESS: bridgeAddress,
    BRIDGE_PREFIX: "dlcri",
  };
}
