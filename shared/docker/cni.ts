/**
 * Attaches pods to networks with CNI, as containerd and dockershim do. Runs the plugins of the first valid configuration file in a
 * directory; a plugin is a program that reads and writes JSON.
 *
 * Source: CNI SPEC.md 0.4.0 and 1.0.0; pkg/kubelet/dockershim/network/cni/cni.go (Kubernetes v1.23).
 */
import { spawn } from "node:child_process";
import { access, readdir, readFile } from "node:fs/promises";
import { delimiter, join } from "node:path";

import { CriError } from "@deltaloop/node-agent/ports";
import type { PodSandboxMetadata, PortMapping } from "@deltaloop/node-agent/ports";

export interface CniOptions {
  readonly confDir: string;
  /** Directories of the plugins, in search order. */
  readonly binDirs: readonly string[];
}

/** The data needed to detach a pod from its network. */
export interface Attachment {
  readonly network: CniNetwork;
  readonly portMappings: readonly PortMapping[];
  /** Result of the last plugin. */
  readonly result: CniResult;
}

export interface CniNetwork {
  readonly cniVersion: string;
  readonly name: string;
  readonly plugins: readonly CniPlugin[];
}

interface CniPlugin {
  readonly type: string;
  readonly capabilities?: Readonly<Record<string, boolean>>;
}

export interface CniResult {
  readonly ips?: readonly { readonly address: string }[];
}

interface CniPod {
  readonly containerId: string;
  /** Absent if the namespace no longer exists. */
  readonly netns?: string;
  readonly metadata: PodSandboxMetadata;
}

export interface Cni {
  /** Returns the reason why no pod network is available yet; undefined if one is. */
  problem(): Promise<string | undefined>;
  /** Attaches the pod to the network. After a failure, detaches it again. @throws {CriError} with the plugin's message */
  add(pod: CniPod & { readonly netns: string }, portMappings: readonly PortMapping[]): Promise<Attachment>;
  /** Detaches the pod. Idempotent. */
  remove(pod: CniPod, attachment: Pick<Attachment, "network" | "portMappings"> & Partial<Attachment>): Promise<void>;
  /** Reads the current configuration. */
  network(): Promise<CniNetwork>;
}

/** Source: libcni conf.go ConfFiles. */
const CONFIGURATIONS = /\.(?:conf|conflist|json)$/u;
const INTERFACE = "eth0";
const PLUGIN_MS_MAX = 60_000;
const PORT_MAPPINGS = "portMappings";

export function createCni({ confDir, binDirs }: CniOptions): Cni {
  const network = async (): Promise<CniNetwork> => {
    const names = await readdir(confDir).catch(() => []);
    for (const name of names.filter((one) => CONFIGURATIONS.test(one)).toSorted()) {
      const found = networkOf(await readFile(join(confDir, name), "utf8"));
      if (found !== undefined) return found;
    }
    throw new CriError("FailedPrecondition", `cni config uninitialized: no network configuration in ${confDir}`);
  };

  const call = async (command: "ADD" | "DEL", pod: CniPod, attachment: Omit<Attachment, "result">, index: number, previous?: CniResult) => {
    const { network: of, portMappings } = attachment;
    const plugin = of.plugins[index] as CniPlugin; // callers iterate over the plugins
    const takesPorts = plugin.capabilities?.[PORT_MAPPINGS] === true && portMappings.length > 0;
    const input = {
      ...plugin,
      cniVersion: of.cniVersion,
      name: of.name,
      ...(takesPorts && { runtimeConfig: { [PORT_MAPPINGS]: portMappings.map(wirePort) } }),
      ...(previous !== undefined && { prevResult: previous }),
    };
    return await runPlugin(await programOf(plugin.type), environment(command, pod), JSON.stringify(input));
  };

  const programOf = async (type: string): Promise<string> => {
    if (!/^[\w.-]+$/u.test(type)) throw new CriError("InvalidArgument", `invalid CNI plugin name "${type}"`);
    for (const folder of binDirs) {
      const program = join(folder, type);
      const exists = await access(program).then(
        () => true,
        () => false,
      );
      if (exists) return program;
    }
    throw new CriError("FailedPrecondition", `failed to find plugin "${type}" in path [${binDirs.join(" ")}]`);
  };

  const environment = (command: string, { containerId, netns = "", metadata }: CniPod): NodeJS.ProcessEnv => ({
    PATH: process.env["PATH"],
    CNI_COMMAND: command,
    CNI_CONTAINERID: containerId,
    CNI_NETNS: netns,
    CNI_IFNAME: INTERFACE,
    CNI_PATH: binDirs.join(delimiter),
    CNI_ARGS: [
      "IgnoreUnknown=1",
      `K8S_POD_NAMESPACE=${metadata.namespace}`,
      `K8S_POD_NAME=${metadata.name}`,
      `K8S_POD_INFRA_CONTAINER_ID=${containerId}`,
      `K8S_POD_UID=${metadata.uid}`,
    ].join(";"),
  });

  const remove: Cni["remove"] = async (pod, attachment) => {
    for (let index = attachment.network.plugins.length - 1; index >= 0; index--)
      await call("DEL", pod, attachment, index, attachment.result);
  };

  return {
    network,
    remove,
    problem: async () =>
      await network().then(
        () => undefined,
        (error: Error) => error.message,
      ),
    async add(pod, portMappings) {
      const of = await network();
      const hostPorts = portMappings.filter(({ hostPort = 0 }) => hostPort > 0);
      const attachment = { network: of, portMappings: hostPorts };
      if (hostPorts.length > 0 && !of.plugins.some(({ capabilities }) => capabilities?.[PORT_MAPPINGS] === true))
        throw new CriError("Unimplemented", `the pod has host ports, and no plugin of network "${of.name}" maps ports`);
      let result: CniResult = {};
      try {
        for (const index of of.plugins.keys()) {
          const answer = await call("ADD", pod, attachment, index, index === 0 ? undefined : result);
          result = JSON.parse(answer) as CniResult; // the CNI specification requires this form; addressesOf tolerates missing ips
        }
        return { ...attachment, result };
      } catch (error) {
        await remove(pod, attachment).catch(() => undefined); // the caller receives the first error
        throw error;
      }
    },
  };
}

/** Returns the addresses without prefix lengths; the first is the pod's IP. */
export function addressesOf({ ips = [] }: CniResult): readonly string[] {
  return ips.map(({ address }) => address.split("/")[0] ?? address);
}

/** Parses a configuration with a plugin list or a single plugin; returns `undefined` for other files. */
function networkOf(text: string): CniNetwork | undefined {
  try {
    const { cniVersion = "0.3.1", name, plugins, ...alone } = JSON.parse(text) as Partial<CniNetwork> & Partial<CniPlugin>;
    if (name === undefined) return undefined;
    if (plugins !== undefined) return plugins.length > 0 ? { cniVersion, name, plugins } : undefined;
    return alone.type === undefined ? undefined : { cniVersion, name, plugins: [{ ...alone, type: alone.type }] };
  } catch {
    return undefined;
  }
}

function wirePort({ protocol, containerPort, hostPort, hostIp = "" }: PortMapping): object {
  return { hostPort, containerPort, protocol: protocol.toLowerCase(), hostIP: hostIp };
}

async function runPlugin(program: string, env: NodeJS.ProcessEnv, input: string): Promise<string> {
  const child = spawn(program, [], { env, stdio: ["pipe", "pipe", "pipe"], timeout: PLUGIN_MS_MAX, killSignal: "SIGKILL" });
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) child[name].setEncoding("utf8").on("data", (text: string) => (output[name] += text));
  child.stdin.on("error", () => undefined); // some plugins exit without reading their input; the exit code decides
  child.stdin.end(input);
  const code = await new Promise<number | string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (exitCode, signal) => resolve(exitCode ?? signal ?? "unknown"));
  });
  if (code === 0) return output.stdout;
  throw new CriError("Unknown", `plugin ${program} failed: ${failureOf(output) ?? `exit status ${code}`}`);
}

/** Plugins report errors as JSON on stdout; crashes may leave text on stderr. */
function failureOf({ stdout, stderr }: { readonly stdout: string; readonly stderr: string }): string | undefined {
  try {
    const { msg, details } = JSON.parse(stdout) as { readonly msg?: string; readonly details?: string };
    if (msg !== undefined) return [msg, ...(details ? [details] : [])].join("; ");
  } catch {
    // The output is not JSON.
  }
  return stderr.trim() || undefined;
}
