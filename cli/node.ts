/** `deltaloop node`: the node agent, one process per node. It registers the node, holds its lease, and hosts functions/node/*. */
import { validateHeaderName, validateHeaderValue } from "node:http";
import { hostname } from "node:os";
import { InvalidArgumentError, Option } from "commander";
import type { Command } from "commander";
import { withDetails } from "./command/help.ts";
import { loggingFormatOption } from "./output/logging-format-option.ts";
import { duration, trueOrFalse, UsageError, wholeNumber, collected } from "@deltaloop/base";
import { DEFAULT_EVICTION_HARD } from "@deltaloop/node-agent/kubelet";
import { durationOption } from "./node/duration-option.ts";
import { addCgroupFlags } from "./node/node-cgroups.ts";
import { applyKubeletConfig } from "./node/kubelet-config.ts";
import { addImagePullFlags } from "./node/node-images.ts";
import { addRegistrationFlags } from "./node/node-registration.ts";
import { addShutdownFlags } from "./node/node-shutdown.ts";
import { addRuntimeFlags } from "./node/node-runtime.ts";
import { startupTimeoutOption } from "./cluster/startup.ts";
import { serveNode } from "./node/serve-node.ts";
import type { NodeFlags } from "./node/node-flags.ts";

const PORT_MAX = 65_535;
const PODS_MAX = 1_000;

export function registerNode(program: Command): void {
  const command = program
    .command("node")
    .description("Runs the node agent: registers this machine as a node and runs its pods.")
    .option("--config <file>", "KubeletConfiguration (kubelet.config.k8s.io/v1beta1); flags override its fields")
    .addOption(new Option("--name <name>", "name of the node").default(hostname().toLowerCase(), "the host name"))
    .option("--root-dir <folder>", "directory for pod volumes and the agent's state", "/var/lib/kubelet")
    .option("--max-pods <n>", "maximum number of pods", wholeNumber("--max-pods", { min: 1, max: PODS_MAX }), 110)
    .optionsGroup("Cluster access and certificates:")
    .option("--kubeconfig <file>", "kubeconfig of user system:node:<name>, group system:nodes (default: KUBECONFIG, then ~/.kube/config)")
    .option("--context <name>", "context of the kubeconfig")
    .option("--bootstrap-kubeconfig <file>", "kubeconfig to request a certificate with, if --kubeconfig, which it writes, has no valid one")
    .option("--rotate-certificates [boolean]", "request a new client certificate before it expires", trueOrFalse("--rotate-certificates"))
    .option(
      "--rotate-server-certificates [boolean]",
      "request the serving certificate from the cluster, and a new one before it expires",
      trueOrFalse("--rotate-server-certificates"),
    )
    .option("--cert-dir <folder>", "directory of the certificates (default: pki in --root-dir)")
    .addOption(startupTimeoutOption("how long to request the first certificate; a node that has one retries indefinitely"));
  addRuntimeFlags(addRegistrationFlags(command));
  command
    .optionsGroup("Static pods:")
    .option("--manifests <path>", "file or folder of static pods")
    .option("--manifest-url <url>", "URL of static pods, read every 20 s: one Pod or a PodList, YAML or JSON", manifestUrl)
    .option("--manifest-url-header <name:value>", "header of the requests to --manifest-url; repeatable", manifestUrlHeader, []);
  addImagePullFlags(command)
    .option(
      "--image-gc-high-threshold <percent>",
      "disk usage that starts image garbage collection",
      percent("--image-gc-high-threshold"),
      85,
    )
    .option(
      "--image-gc-low-threshold <percent>",
      "disk usage at which image garbage collection stops",
      percent("--image-gc-low-threshold"),
      80,
    )
    .addOption(durationOption("--minimum-image-ttl-duration", "minimum age of an image before it is deleted", 120_000))
    .option(
      "--image-maximum-gc-age <duration>",
      "time without use after which an image is deleted (default: never)",
      duration("--image-maximum-gc-age"),
    );
  addCgroupFlags(command)
    .option("--cgroup-root <path>", "cgroup that contains kubepods", "/")
    .option("--cgroup-driver <name>", "cgroupfs or systemd, if the runtime does not report its driver", cgroupDriver, "cgroupfs")
    .option("--single-process-oom-kill", "kill only one process of a container that is out of memory; always so with cgroups v1")
    .optionsGroup("Eviction:")
    .option(
      "--eviction-hard <thresholds>",
      `evict pods below these amounts (default: ${[...DEFAULT_EVICTION_HARD].map(([signal, amount]) => `${signal}<${amount}`).join(",")})`,
    )
    .option("--eviction-soft <thresholds>", "evict pods below these amounts after a grace period, such as memory.available<1.5Gi")
    .option("--eviction-soft-grace-period <durations>", "grace periods of --eviction-soft, such as memory.available=1m30s")
    .option("--eviction-minimum-reclaim <amounts>", "amounts to free beyond the threshold, such as imagefs.available=2Gi")
    .option(
      "--eviction-max-pod-grace-period <seconds>",
      "maximum grace period of pods that a soft threshold evicts",
      wholeNumber("--eviction-max-pod-grace-period", { min: -1, max: 2 ** 31 - 1 }),
      0,
    )
    .addOption(
      durationOption(
        "--eviction-pressure-transition-period",
        "how long a pressure condition is kept after the pressure has ended",
        300_000,
      ),
    );
  addShutdownFlags(command)
    .optionsGroup("Network:")
    .option("--cluster-dns <address>", "address of the cluster's DNS server; repeatable", collected, [])
    .option("--cluster-domain <name>", "domain of the cluster", "cluster.local")
    .option("--resolv-conf <file>", "resolver configuration of this machine, for pods that use it; empty for none", "/etc/resolv.conf")
    .optionsGroup("HTTPS server:")
    .option("--port <n>", "port", wholeNumber("--port", { min: 0, max: PORT_MAX }), 10_250)
    .option("--listen <address>", "address to listen on (default: the node's address)")
    .option("--tls-cert-file <file>", "certificate (default: self-signed at each start)")
    .option("--tls-private-key-file <file>", "private key of --tls-cert-file")
    .option("--client-ca-file <file>", "certificate authority of clients (default: that of the kubeconfig)")
    .optionsGroup("Logs, metrics and health:")
    .option("--pod-logs-dir <folder>", "folder of the containers' logs", "/var/log/pods")
    .option("--container-logs-dir <folder>", "folder of links to the containers' logs", "/var/log/containers")
    .addOption(loggingFormatOption())
    .option("-v, --verbose", "print debug messages")
    .option(
      "--healthz-port <n>",
      "port of /healthz without TLS; 0 turns it off",
      wholeNumber("--healthz-port", { min: 0, max: PORT_MAX }),
      10_248,
    )
    .option("--healthz-bind-address <address>", "address of /healthz", "127.0.0.1")
    .option("--metrics <host:port>", "address of a metrics and health server without TLS (default: none)")
    .action(async ({ config }: NodeFlags, self: Command) => {
      const ignored = config === undefined ? [] : await applyKubeletConfig(self, config);
      await serveNode(self.opts<NodeFlags>(), ignored);
      process.exit();
    });
  withDetails(command, {
    notes: ["Names and defaults are the kubelet's where it has the same option."],
    examples: [
      "node --kubeconfig node.conf --node-ip 10.0.0.7",
      "node --bootstrap-kubeconfig bootstrap.conf --kubeconfig node.conf --rotate-certificates",
      "node --config kubelet.yaml --kubeconfig node.conf --docker unix:///run/docker.sock",
    ],
  });
}

function percent(option: string): (text: string) => number {
  return wholeNumber(option, { min: 0, max: 100 });
}

/** URL and headers may contain a secret, so the error does not quote them. */
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
    throw new UsageError("--manifest-url-header takes NAME:VALUE in HTTP header syntax");
  }
  return [...before, [name, value.trim()]];
}

function cgroupDriver(value: string): string {
  if (value === "cgroupfs" || value === "systemd") return value;
  throw new InvalidArgumentError("must be cgroupfs or systemd");
}
