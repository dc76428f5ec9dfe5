/** What distinguishes one node's resources from all others on the machine. */
import { randomBytes } from "node:crypto";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

export interface NodeIdentity {
  /** Everything the node writes is under it; short, because socket paths are limited to 107 bytes. */
  readonly directory: string;
  /** Of the CNI network. */
  readonly name: string;
  /** Below the root of each cgroup hierarchy, without a leading slash. */
  readonly cgroup: string;
  /** The bridge is made with it in one step, so that it can be distinguished from an existing one. */
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
