/** Addresses that a server of others must not lead to: those of this machine, and those that only this machine's link answers. */
import { BlockList, isIP } from "node:net";

export type NearAddress = "loopback" | "link-local";

/** The unspecified address connects to loopback on Linux. `fd00:ec2::254` is the metadata service of EC2, like 169.254.169.254. */
const NEAR: { readonly [K in NearAddress]: readonly (readonly [network: string, prefix: number, family: "ipv4" | "ipv6"])[] } = {
  loopback: [
    ["127.0.0.0", 8, "ipv4"],
    ["0.0.0.0", 8, "ipv4"],
    ["::1", 128, "ipv6"],
    ["::", 128, "ipv6"],
  ],
  "link-local": [
    ["169.254.0.0", 16, "ipv4"],
    ["fe80::", 10, "ipv6"],
    ["fd00:ec2::254", 128, "ipv6"],
  ],
};

const LISTS = (Object.keys(NEAR) as NearAddress[]).map((kind) => {
  const list = new BlockList();
  for (const network of NEAR[kind]) list.addSubnet(...network);
  return [kind, list] as const;
});

/** `address`: an IP address without brackets; IPv4 addresses in IPv6 form count as IPv4. A name is neither. */
export function nearAddress(address: string): NearAddress | undefined {
  const family = isIP(address);
  if (family === 0) return undefined;
  return LISTS.find(([, list]) => list.check(address, family === 4 ? "ipv4" : "ipv6"))?.[0];
}
