/**
 * The real metrics-server as a local process: built from its own Go module, with the RBAC rules of its own manifests only, and registered
 * with an APIService.
 */
import { copyFile, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { waitUntilReady } from "../envtest/component.ts";
import { freePorts } from "../envtest/free-ports.ts";
import { answerOf, builtOnce, go } from "../envtest/go-program.ts";
import { createParts } from "../envtest/parts.ts";
import { requiredIn } from "../envtest/pins.ts";
import type { Cluster } from "../support/e2e.ts";

export interface MetricsServerProgram {
  readonly program: string;
  /** The RBAC manifest of metrics-server: its service account, roles and bindings. */
  readonly rights: string;
}

export interface MetricsServer {
  /** Number of scrapes of all nodes since metrics-server started. */
  scrapes(): Promise<number>;
  /** Returns the last lines of the log of metrics-server. */
  log(): Promise<string>;
  stop(): Promise<void>;
}

/** The value in the manifests of metrics-server; its minimum is 10 s. */
export const RESOLUTION_SECONDS = 15;
const NAMESPACE = "kube-system";
const NAME = "metrics-server";
const PATH = "sigs.k8s.io/metrics-server";
const MODULE = join(import.meta.dirname, "..", "envtest", NAME);
const APISERVICE = "v1beta1.metrics.k8s.io";
const RIGHTS = "rbac.yaml";
const READY_MS_MAX = 60_000;
const POLL_MS = 100;
const LOG_LINES = 40;

/** Returns the program, which is built if necessary, or a one-line reason why it is unavailable. */
export async function metricsServerProgram(): Promise<MetricsServerProgram | { readonly missing: string }> {
  const version = requiredIn(await readFile(join(MODULE, "go.mod"), "utf8")).get(PATH) ?? "";
  // Flags from the Makefile of metrics-server; without `-ldflags` it reports version v0.0.0-master.
  const flags = [
    "-mod=readonly",
    "-buildvcs=false",
    "-trimpath",
    "-ldflags",
    `-s -w -X k8s.io/client-go/pkg/version.gitVersion=${version}`,
  ];
  const built = await builtOnce({
    name: NAME,
    of: version,
    takes: "about 3 minutes",
    module: MODULE,
    files: [],
    flags,
    program: NAME,
    async build(folder) {
      await go(MODULE, ["build", ...flags, "-o", `${folder}/`, `${PATH}/cmd/${NAME}`]);
      const source = await answerOf("go", ["-C", MODULE, "list", "-m", "-f", "{{.Dir}}", PATH], { GOTOOLCHAIN: "local", GOWORK: "off" });
      await copyFile(join(source ?? "", "manifests", "base", RIGHTS), join(folder, RIGHTS));
    },
  });
  return "missing" in built ? built : { program: join(built.folder, NAME), rights: join(built.folder, RIGHTS) };
}

/**
 * Registers metrics-server and resolves when its APIService is Available. Nodes authorize it through the API server only, and it accepts
 * only serving certificates that the cluster's CA signed.
 *
 * @throws {Error} with the end of the log if it is not available in time
 */
export async function startMetricsServer(
  { plane, kubectl, apply }: Cluster,
  { program, rights }: MetricsServerProgram,
): Promise<MetricsServer> {
  const directory = await mkdtemp(join(tmpdir(), "deltaloop-metrics-server-"));
  const parts = createParts(directory, directory);
  const stop = async (): Promise<void> => {
    await parts.endAll();
    await rm(directory, { recursive: true, force: true });
  };
  try {
    const [port] = await freePorts();
    await kubectl("apply", "-f", rights);
    await apply(...registration(port));
    const kubeconfig = await plane.serviceAccountKubeconfig(NAMESPACE, NAME);
    const server = await parts.start(NAME, program, [
      ...["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"].map((flag) => `--${flag}=${kubeconfig}`),
      ...["--bind-address=127.0.0.1", `--secure-port=${port}`],
      ...["--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname", "--kubelet-use-node-status-port"],
      ...[`--metric-resolution=${RESOLUTION_SECONDS}s`, `--cert-dir=${directory}`],
    ]);
    const isAvailable = async (): Promise<boolean> =>
      (await plane.kubectl(["wait", "--for=condition=Available", "--timeout=1s", `apiservice/${APISERVICE}`])).code === 0;
    await waitUntilReady(server, isAvailable, { what: "metrics-server is available", timeoutMs: READY_MS_MAX, pollMs: POLL_MS });
    return {
      async scrapes() {
        // metrics-server signs its own serving certificate
        const own = ["--server", `https://127.0.0.1:${port}`, "--insecure-skip-tls-verify"];
        const { stdout } = await plane.kubectl(["get", "--raw", "/metrics", ...own]);
        return Number(/^metrics_server_manager_tick_duration_seconds_count (\d+)$/mu.exec(stdout)?.[1] ?? 0);
      },
      log: async () => (await readFile(server.logFile, "utf8")).split("\n").slice(-LOG_LINES).join("\n"),
      async stop() {
        await kubectl("delete", "apiservice", APISERVICE);
        await stop();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** There is no service network here: the Service is an ExternalName for localhost. */
function registration(port: number): readonly object[] {
  return [
    {
      ...{ apiVersion: "v1", kind: "Service", metadata: { name: NAME, namespace: NAMESPACE } },
      spec: { type: "ExternalName", externalName: "localhost" },
    },
    {
      ...{ apiVersion: "apiregistration.k8s.io/v1", kind: "APIService", metadata: { name: APISERVICE } },
      spec: {
        service: { name: NAME, namespace: NAMESPACE, port },
        ...{ group: "metrics.k8s.io", version: "v1beta1", groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true },
      },
    },
  ];
}
