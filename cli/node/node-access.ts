/**
 * The credentials of `deltaloop node` for the API server: a kubeconfig, or a client certificate that it requests with a bootstrap
 * kubeconfig and rotates (node-agent §14.6).
 *
 * Source: cmd/kubelet/app/server.go buildKubeletClientConfig.
 */
import { readFile, rm, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createKubeHttp } from "@deltaloop/kube/http";
import type { KubeHttpConfig } from "@deltaloop/kube/http";
import { createCertificateFiles } from "@deltaloop/node-agent/files";
import type { CertificateFiles } from "@deltaloop/node-agent/files";
import { replaceFile } from "@deltaloop/base/system";
import { messageOf } from "@deltaloop/kube/objects";
import { clientTemplate } from "@deltaloop/node-agent/kubelet";
import { CertificateManager, joinCluster } from "@deltaloop/node-agent/certificates";
import type { PendingKey } from "@deltaloop/node-agent/certificates";
import type { Clock, Log, Random } from "@deltaloop/base";
import type { Metrics } from "@deltaloop/base/metrics";
import {
  contextOf,
  kubeAccess,
  certificatePlaces,
  kubeconfigForCertificate,
  kubeHttpConfigFrom,
  kubeconfigPath,
  certificatesIn,
} from "@deltaloop/kube/kubeconfig";
import type { CertificatePlaces } from "@deltaloop/kube/kubeconfig";
import { UsageError } from "@deltaloop/base";

/** Time without a valid certificate after which the agent exits, so that its next start can join again. Source: as above. */
const LOST_MS_MAX = 5 * 60_000;
const LOOK_MS = 10_000;
const PENDING_KEY = "kubelet-client.key.tmp";
const ROLE = "deltaloop-node";
const COMPONENT = "node";

export interface AccessFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly bootstrapKubeconfig?: string;
  readonly rotateCertificates?: boolean;
  readonly certDir?: string;
  /** Milliseconds. */
  readonly startupTimeout?: number;
  readonly rootDir: string;
  readonly name: string;
}

export interface NodeAccess {
  readonly config: KubeHttpConfig;
  /** The folder of the certificates. */
  readonly certDir: string;
  /** Replaces the client certificate until `signal` aborts. @throws CertificateLostError */
  rotate(signal: AbortSignal): Promise<void>;
}

/**
 * The client certificate has expired and the cluster issues no new one. The next start joins the cluster again with a bootstrap kubeconfig.
 */
class CertificateLostError extends Error {
  override readonly name = "CertificateLostError";
}

interface Means {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics?: Metrics;
}

/** Obtains the node's credentials. @throws {UsageError} for kubeconfigs that cannot be used; the errors of `joinCluster` */
export async function nodeAccess(flags: AccessFlags, means: Means, signal: AbortSignal): Promise<NodeAccess> {
  const certDir = resolve(flags.certDir ?? join(flags.rootDir, "pki"));
  if (flags.bootstrapKubeconfig !== undefined && flags.kubeconfig === undefined)
    throw new UsageError("--bootstrap-kubeconfig needs --kubeconfig, the file to write");
  const kubeconfig = kubeconfigPath(flags.kubeconfig);
  if (flags.rotateCertificates === true) return await rotating({ ...flags, kubeconfig, certDir }, means);
  if (flags.bootstrapKubeconfig !== undefined)
    await joined({ ...flags, kubeconfig, certDir, bootstrapKubeconfig: flags.bootstrapKubeconfig }, means, signal);
  return { config: await kubeAccess({ ...flags, kubeconfig }, ROLE, COMPONENT), certDir, rotate: async () => undefined };
}

type Placed = AccessFlags & { readonly kubeconfig: string; readonly certDir: string };

/** Requests the first certificate and writes the kubeconfig. */
async function joined(flags: Placed & { readonly bootstrapKubeconfig: string }, { clock, log }: Means, signal: AbortSignal): Promise<void> {
  const { kubeconfig, bootstrapKubeconfig, certDir, name: nodeName, startupTimeout } = flags;
  if (await isStillValid(flags, clock, log)) return;
  const kube = createKubeHttp(await bootstrapAccess(bootstrapKubeconfig));
  const store = clientFiles(certDir, clock);
  await joinCluster(
    {
      kube,
      nodeName,
      store,
      pendingKey: pendingKeyIn(certDir),
      clock,
      log,
      ...(startupTimeout !== undefined && { startupTimeoutMs: startupTimeout }),
    },
    signal,
  );
  await replaceFile(kubeconfig, await kubeconfigForCertificate(bootstrapKubeconfig, store.currentPath));
  log.info("joined the cluster", { node: nodeName, kubeconfig });
}

/** Can start without a certificate; until it has one, it calls the API server without credentials. */
async function rotating(flags: Placed, means: Means): Promise<NodeAccess> {
  const { kubeconfig, certDir, bootstrapKubeconfig, name } = flags;
  const { clock, random, log, metrics } = means;
  const joins = bootstrapKubeconfig !== undefined && !(await isStillValid(flags, clock, log));
  const asking = joins ? await bootstrapAccess(bootstrapKubeconfig) : await kubeAccess({ ...flags, kubeconfig }, ROLE, COMPONENT);
  const { currentPath } = clientFiles(certDir, clock);
  if (joins) await replaceFile(kubeconfig, await kubeconfigForCertificate(bootstrapKubeconfig, currentPath));
  const places = await certificatePlaces(kubeconfig, joins ? undefined : await contextOf({ ...flags, kubeconfig }, ROLE));
  const { token: _token, cert: _cert, key: _key, certificate: _certificate, ...anonymous } = asking;
  const config: KubeHttpConfig = { ...anonymous, certificate: () => manager.current() };
  const [kubeOfNode, kubeOfAsking] = [createKubeHttp(config), createKubeHttp(asking)];
  const manager = await CertificateManager.open({
    signerName: "kubernetes.io/kube-apiserver-client-kubelet",
    store: clientFiles(certDir, clock, places),
    template: () => clientTemplate(name),
    kube: (current) => (current === undefined ? kubeOfAsking : kubeOfNode),
    ...(places.cert !== undefined && places.key !== undefined && { first: { cert: places.cert, key: places.key } }),
    ...(metrics && { metrics }),
    clock,
    random,
    log,
  });
  return {
    config,
    certDir,
    async rotate(signal) {
      await Promise.all([manager.run(signal), untilLost(manager, means, signal)]);
    },
  };
}

async function bootstrapAccess(path: string): Promise<KubeHttpConfig> {
  try {
    return await kubeHttpConfigFrom(path, { component: COMPONENT });
  } catch (error) {
    throw new UsageError(messageOf(error));
  }
}

/** Source: pkg/kubelet/certificate/transport.go addCertRotation. */
async function untilLost(manager: CertificateManager, { clock, log }: Means, signal: AbortSignal): Promise<void> {
  let lastMs = clock.now();
  let isSaid = false;
  while (!signal.aborted) {
    await clock.after(LOOK_MS, signal).catch(() => undefined);
    if (manager.current() !== undefined) [lastMs, isSaid] = [clock.now(), false];
    if (clock.now() - lastMs <= LOST_MS_MAX) continue;
    if (manager.isServerHealthy)
      throw new CertificateLostError(
        "no valid client certificate is found and the API server is responsive: restart it with --bootstrap-kubeconfig to join again",
      );
    if (!isSaid) log.error("no valid client certificate is found, and the API server is not responsive");
    isSaid = true;
  }
}

function clientFiles(directory: string, clock: Clock, { certFile, keyFile }: CertificatePlaces = {}): CertificateFiles {
  return createCertificateFiles({
    prefix: "kubelet-client",
    directory,
    ...(certFile !== undefined && { certFile }),
    ...(keyFile !== undefined && { keyFile }),
    clock,
  });
}

function pendingKeyIn(certDir: string): PendingKey {
  const path = join(certDir, PENDING_KEY);
  return {
    read: async () => await readFile(path, "utf8").catch(() => undefined),
    write: async (key) => await replaceFile(path, key),
    remove: async () => await rm(path, { force: true }),
  };
}

/** Whether a kubeconfig has client certificates, none of which has expired. Source: bootstrap.go isClientConfigStillValid. */
async function isStillValid(flags: Placed, clock: Clock, log: Log): Promise<boolean> {
  const { kubeconfig } = flags;
  if ((await stat(kubeconfig).catch(() => undefined)) === undefined) return false;
  try {
    const places = await certificatePlaces(kubeconfig, await contextOf(flags, ROLE));
    const text = places.cert ?? (places.certFile === undefined ? "" : await readFile(places.certFile, "utf8"));
    const ends = certificatesIn(text).map(({ validToDate }) => validToDate.getTime());
    if (ends.length > 0 && ends.every((endMs) => clock.now() <= endMs)) return true;
    log.warn("the kubeconfig has no valid client certificate", { kubeconfig });
  } catch (error) {
    log.warn("the kubeconfig cannot be used", { kubeconfig, error: messageOf(error) });
  }
  return false;
}
