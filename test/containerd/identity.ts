/** Names and paths that distinguish the resources of one node from all others on the machine. */
import { randomBytes } from "node:crypto";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

export interface NodeIdentity {
  /** The directory for all files of the node. Short, because a socket path is limited to 107 bytes. */
  readonly directory: string;
  /** Name of the CNI network. */
  readonly name: string;
  /** Path of the node's cgroup below the root of each hierarchy, without a leading slash. */
  readonly cgroup: string;
  /** MAC address with which the bridge is created, so that cleanup can distinguish it from another node's bridge of the same name. */
  readonly bridgeAddress: string;
}

export async function newIdentity(): Promise<NodeIdentity> {
  const directory = await mkdtemp(join(tmpdir(), "deltaloop-cri-"));
  const name = basename(directory);
  // 02: locally administered, unicast.
  const bridgeAddress = `02:${randomBytes(5)
    .toString("hex")
    .replace(/(..)(?=.)/g, "$1:")}`;
  return { directory, name, cgroup: name, bridgeAddress };
}
