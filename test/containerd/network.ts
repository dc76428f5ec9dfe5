/** A bridge and a subnet per node. Pods reach only the host and each other through the bridge; there is no route to other networks. */
import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import type { NodeIdentity } from "./identity.ts";

export interface PodNetwork {
  readonly bridge: string;
  /** For example `10.213.7.0/24`; the host has the address `.1`. */
  readonly podCidr: string;
}

/** Number of subnets. The name of the bridge reserves a subnet; node-cleanup.ts knows the prefix. */
const NUMBERS = 200;
const run = promisify(execFile);

/** @throws {Error} if every subnet is taken */
export async function createPodNetwork({ directory, name, bridgeAddress }: NodeIdentity): Promise<PodNetwork> {
  for (let number = 0; number < NUMBERS; number++) {
    const prefix = `10.213.${number}.`;
    if (isInUse(prefix)) continue;
    const bridge = `dlcri${number}`;
    try {
      await run("ip", ["link", "add", "name", bridge, "address", bridgeAddress, "type", "bridge"]);
    } catch (error) {
      if (String(error).includes("File exists")) continue; // another node has this bridge
      throw error;
    }
    const podCidr = `${prefix}0/24`;
    await run("ip", ["address", "add", `${prefix}1/24`, "dev", bridge]);
    await run("ip", ["link", "set", bridge, "up"]);
    await mkdir(join(directory, "cni"), { recursive: true });
    await writeFile(join(directory, "cni", "10-pods.conflist"), JSON.stringify(cniConfiguration({ directory, name, bridge, podCidr })));
    return { bridge, podCidr };
  }
  throw new Error(`${NUMBERS} bridges named dlcri<number> are there already`);
}

function isInUse(prefix: string): boolean {
  return Object.values(networkInterfaces()).some((addresses) => addresses?.some(({ address }) => address.startsWith(prefix)));
}

/**
 * `isGateway` stays off: it would enable IP forwarding on the host, and nothing disables that again. createPodNetwork sets the bridge's
 * address instead.
 */
function cniConfiguration(options: { readonly directory: string; readonly name: string } & PodNetwork): object {
  const ipam = { type: "host-local", dataDir: join(options.directory, "ipam"), ranges: [[{ subnet: options.podCidr }]] };
  return {
    cniVersion: "0.4.0",
    name: options.name,
    plugins: [{ type: "bridge", bridge: options.bridge, isGateway: false, ipMasq: false, ipam }],
  };
}
