/** Options of `deltaloop node` for its Node: addresses, labels, taints and the cloud provider. */
import type { Command } from "commander";
import { isIP, isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";
import type { NodeOptions } from "@deltaloop/node-agent/kubelet";
import { parseNodeLabels, parseTaints, RegistrationError } from "@deltaloop/node-agent/kubelet";
import { UsageError, collected } from "@deltaloop/base";

/** Options as commander parses them. */
export interface RegistrationFlags {
  readonly nodeIp: readonly string[];
  readonly nodeLabels: string;
  readonly registerWithTaints: string;
  readonly providerId?: string;
  readonly cloudProvider: string;
}

/** Selects an address of the given family. */
const ANY = ["0.0.0.0", "::"];

/** Names and forms are the kubelet's. Source: cmd/kubelet/app/options/options.go. */
export function addRegistrationFlags(command: Command): Command {
  return command
    .optionsGroup("Registration:")
    .option(
      "--node-ip <addresses>",
      "address of the node, or a dual-stack pair with a comma; 0.0.0.0 or :: selects one of that family; repeatable",
      collected,
      [],
    )
    .option("--node-labels <list>", "labels of the node, such as node.kubernetes.io/pool=blue,disk=ssd", "")
    .option("--register-with-taints <list>", "taints of a new node, such as dedicated=batch:NoSchedule", "")
    .option("--provider-id <id>", "provider ID of the machine for the cloud controller manager")
    .option("--cloud-provider <name>", "external if a cloud controller manager initializes the node", "");
}

/** Validates the options for the Node. @throws {UsageError} with upstream's message */
export function registrationOf(flags: RegistrationFlags): Pick<NodeOptions, "hostIps" | "registration"> {
  const { nodeLabels, registerWithTaints, providerId, cloudProvider } = flags;
  const given = nodeIps(flags.nodeIp);
  if (cloudProvider !== "" && cloudProvider !== "external")
    throw new UsageError(`unsupported cloud provider name "${cloudProvider}": --cloud-provider takes external, or nothing`);
  try {
    return {
      hostIps: given.length > 0 && !given.some(isAny) ? given : found(given[0]),
      registration: {
        labels: parseNodeLabels(nodeLabels),
        taints: parseTaints(registerWithTaints),
        ...(providerId !== undefined && { providerId }),
        ...(cloudProvider === "external" && { externalCloudProvider: true }),
        nodeIpGiven: given.length > 0 && !given.some(isAny),
      },
    };
  } catch (error) {
    throw error instanceof RegistrationError ? new UsageError(error.message) : error;
  }
}

/** Source: component-helpers node/util/ips.go ParseNodeIPArgument. */
function nodeIps(given: readonly string[]): readonly string[] {
  const addresses = given.flatMap((text) => text.split(",")).map((text) => text.trim());
  const refusal = `bad --node-ip "${addresses.join(",")}"`;
  const wrong = addresses.find((address) => isIP(address) === 0);
  if (wrong !== undefined) throw new UsageError(`${refusal}: "${wrong}" is not an IP address`);
  const [first = "", second] = addresses;
  if (addresses.length > 2 || (second !== undefined && isIPv6(first) === isIPv6(second)))
    throw new UsageError(`${refusal}; must contain either a single IP or a dual-stack pair of IPs`);
  if (second !== undefined && addresses.some(isAny)) throw new UsageError(`${refusal}; dual-stack IPs cannot include '0.0.0.0' or '::'`);
  return addresses;
}

function isAny(address: string): boolean {
  return ANY.includes(address);
}

/** Returns an address of this machine, of the given family or else IPv4. */
function found(asked = "0.0.0.0"): readonly string[] {
  const own = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses.filter(({ internal }) => !internal));
  const asAsked = (family: string): number => ((family === "IPv6") === isIPv6(asked) ? 0 : 1);
  const [best] = own.toSorted((a, b) => asAsked(a.family) - asAsked(b.family));
  if (best === undefined) throw new UsageError("this machine has only loopback addresses: pass an address with --node-ip");
  return [best.address];
}
