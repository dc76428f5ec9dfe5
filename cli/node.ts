/** `deltaloop node`: the node agent, one process per node. It registers the node, holds its lease, and hosts functions/node/*. */
import { validateHeaderName, validateHeaderValue } from "node:http";
import { hostname } from "node:os";
import { InvalidArgumentError } from "commander";
import type { Command } from "commander";
import { loggingFormatOption } from "./output/logging-format-option.ts";
import { duration, trueOrFalse, UsageError, wholeNumber } from "@deltaloop/base";
import { addCgroupFlags } from "./node/node-cgroups.ts";
import { applyKubeletConfig } from "./node/kubelet-config.ts";
import { addImagePullFlags } from "./node/node-images.ts";
import { addRegistrationFlags } from "./node/node-registration.ts";
import { addShutdownFlags } from "./node/node-shutdown.ts";
import { addRuntimeFlags } from "./node/node-runtime.ts";
import { serveNode } from "./node/serve-node.ts";
import type { NodeFlags } from "./node/node-flags.ts";

const PORT_MAX = 65_535;
const PODS_MAX = 1_000;

export function registerNode(program: Command): void {
  addShutdownFlags(addRegistrationFlags(addImagePullFlags(addCgroupFlags(addRuntimeFlags(program.command("node"))))))
    .description("run the node agent: registers this machine as a node and runs its pods through CRI, or on Docker")
    .option("--config <file>", "a KubeletConfiguration (kubelet.config.k8s.io/v1beta1); flags go before it")
    .option("--kubeconfig <file>", "of the node: user system:node:<name>, group system:nodes; default: KUBECONFIG, then ~/.kube/config")
    .option("--context <name>", "context of the kubeconfig")
    .option(
      "--bootstrap-kubeconfig <file>",
      "with which a certificate is asked for where --kubeconfig has none that is valid; --kubeconfig is then written",
    )
    .option("--rotate-certificates [boolean]", "ask for another client certificate before it ends", trueOrFalse("--rotate-certificates"))
    .option(
      "--rotate-server-certificates [boolean]",
      "ask the cluster for the serving certificate, and for another one before it ends",
      trueOrFalse("--rotate-server-certificates"),
    )
    .option("--cert-dir <folder>", "where those certificates are kept; default: pki below --root-dir")
    .option("--name <name>", "name of the node", hostname().toLowerCase())
    .option("--root-dir <folder>", "pod volumes and the agent's own files", "/var/lib/kubelet")
    .option("--pod-logs-dir <folder>", "container logs", "/var/log/pods")
    .option("--container-logs-dir <folder>", "links to container logs", "/var/log/containers")
    .option("--cgroup-root <path>", "cgroup under which kubepods stands", "/")
    .option("--cgroup-driver <name>", "cgroupfs or systemd, where the runtime does not say", cgroupDriver, "cgroupfs")
    .option("--manifests <path>", "file or folder of static pods")
    .option("--manifest-url <url>", "where static pods are asked for every 20 s: one Pod or a PodList, YAML or JSON", manifestUrl)
    .option("--manifest-url-header <name:value>", "header of those requests; may be given more than once", manifestUrlHeader, [])
    .option("--port <n>", "of the agent's HTTPS server", wholeNumber("--port", { min: 0, max: PORT_MAX }), 10_250)
    .option("--listen <address>", "address of the agent's HTTPS server; default: the node's")
    .option("--tls-cert-file <file>", "its certificate; default: one that it signs itself at each start")
    .option("--tls-private-key-file <file>", "and the key of that")
    .option("--client-ca-file <file>", "clients with a certificate of this authority are let in by it; default: the kubeconfig's")
    .option("--max-pods <n>", "pods on this node", wholeNumber("--max-pods", { min: 1, max: PODS_MAX }), 110)
    .option("--cluster-dns <address>", "address of the cluster's DNS; may be given more than once", collect, [])
    .option("--cluster-domain <name>", "domain of the cluster", "cluster.local")
    .option("--resolv-conf <file>", "the machine's resolver, for pods that use it; empty: none", "/etc/resolv.conf")
    .option("--image-gc-high-threshold <percent>", "images go when their disk is so full", percent("--image-gc-high-threshold"), 85)
    .option("--image-gc-low-threshold <percent>", "until it is so full only", percent("--image-gc-low-threshold"), 80)
    .option("--minimum-image-ttl-duration <time>", "none goes that is younger", duration("--minimum-image-ttl-duration"), 120_000)
    .option("--image-maximum-gc-age <time>", "images that nobody used for so long go; default: never", duration("--image-maximum-gc-age"))
    .option(
      "--eviction-hard <thresholds>",
      "pods go when less is free; default: memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%",
    )
    .option("--eviction-soft <thresholds>", "the same when less is free for a time, e.g. memory.available<1.5Gi")
    .option("--eviction-soft-grace-period <times>", "that time, e.g. memory.available=1m30s")
    .option("--eviction-minimum-reclaim <amounts>", "so much more must be free again, e.g. imagefs.available=2Gi")
    .option(
      "--eviction-max-pod-grace-period <seconds>",
      "that pods have at most that go by a soft threshold",
      wholeNumber("--eviction-max-pod-grace-period", { min: -1, max: 2 ** 31 - 1 }),
      0,
    )
    .option(
      "--eviction-pressure-transition-period <time>",
      "so long the node says that it runs short after it was so",
      duration("--eviction-pressure-transition-period"),
      300_000,
    )
    .option(
      "--single-process-oom-kill",
      "out of memory, one process of a container is killed and not all of it; so it always is with cgroups v1",
    )
    .addOption(loggingFormatOption())
    .option(
      "--healthz-port <n>",
      "where /healthz is told without TLS; 0: nowhere",
      wholeNumber("--healthz-port", { min: 0, max: PORT_MAX }),
      10_248,
    )
    .option("--healthz-bind-address <address>", "address of that", "127.0.0.1")
    .option("--metrics <host:port>", "address of a metrics and health server without TLS; default: none")
    .option("-v, --verbose", "debug log")
    .action(async ({ config }: NodeFlags, command: Command) => {
      if (config !== undefined) await applyKubeletConfig(command, config);
      await serveNode(command.opts<NodeFlags>());
      process.exit();
    });
}

function percent(option: string): (text: string) => number {
  return wholeNumber(option, { min: 0, max: 100 });
}

function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}

/** Both may hold a secret, so what is wrong is said without them. */
function manifestUrl(value: string): string {
  if (URL.canParse(value) && /^https?:$/.test(new URL(value).protocol)) return value;
  throw new UsageError("--manifest-url takes an http or https URL");
}

type Header = readonly [name: string, value: string];

function manifestUrlHeader(text: string, before: readonly Header[]): readonly Header[] {
  const [, name = "", value = ""] = /^([^:]*):(.*)$/s.exec(text) ?? [];
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value.trim());
  } catch {
    throw new UsageError("--manifest-url-header takes NAME:VALUE as HTTP has them");
  }
  return [...before, [name, value.trim()]];
}

function cgroupDriver(value: string): string {
  if (value === "cgroupfs" || value === "systemd") return value;
  throw new InvalidArgumentError("it is cgroupfs or systemd");
}
