/** The serving certificate of `deltaloop node`, and the certificate authority of its clients. */
import type { V1Node } from "@kubernetes/client-node";
import { readFile } from "node:fs/promises";
import { createCertificateFiles } from "@deltaloop/node-agent/files";
import { messageOf } from "@deltaloop/kube/objects";
import type { KubeObject, Wire } from "@deltaloop/kube/objects";
import { servingTemplate } from "@deltaloop/node-agent/kubelet";
import { CertificateManager } from "@deltaloop/node-agent/certificates";
import type { SigningKube } from "@deltaloop/node-agent/certificates";
import type { KeyedCertificate } from "@deltaloop/node-agent/ports";
import type { Clock, Log, Random } from "@deltaloop/base";
import type { Metrics } from "@deltaloop/base/metrics";
import type { NodeAccess } from "./node-access.ts";
import type { NodeFlags } from "./node-flags.ts";
import { UsageError } from "@deltaloop/base";

type Addresses = Parameters<typeof servingTemplate>[1];

/**
 * Requests and rotates the serving certificate, until `signal` aborts.
 *
 * Source: pkg/kubelet/certificate/kubelet.go NewKubeletServerCertificateManager.
 */
export async function runServingCertificate(
  given: {
    readonly flags: NodeFlags;
    readonly access: NodeAccess;
    readonly kube: SigningKube;
    readonly addresses: () => Addresses;
    readonly show: (certificate: KeyedCertificate) => void;
    readonly metrics: Metrics;
    readonly clock: Clock;
    readonly random: Random;
    readonly log: Log;
  },
  signal: AbortSignal,
): Promise<void> {
  const { flags, access, kube, addresses, show, metrics, clock, random, log } = given;
  const { tlsCertFile, tlsPrivateKeyFile } = flags;
  const manager = await CertificateManager.open({
    signerName: "kubernetes.io/kubelet-serving",
    store: createCertificateFiles({
      prefix: "kubelet-server",
      directory: access.certDir,
      ...(tlsCertFile !== undefined && { certFile: tlsCertFile }),
      ...(tlsPrivateKeyFile !== undefined && { keyFile: tlsPrivateKeyFile }),
      clock,
    }),
    template: () => servingTemplate(flags.name, addresses()),
    kube: () => kube,
    onCurrent: show,
    metrics,
    clock,
    random,
    log,
  });
  await manager.run(signal);
}

/** The addresses in the Node's status. */
export function addressesOf(node: KubeObject | undefined): Addresses {
  return (node as Wire<V1Node> | undefined)?.status?.addresses ?? []; // the object is a Node from the API server
}

/** Reads the files of the HTTPS server. @throws {UsageError} for files that do not match or cannot be read */
export async function servingFiles(
  flags: NodeFlags,
  clusterCa: string | Buffer | undefined,
): Promise<{ readonly tls?: KeyedCertificate | "later"; readonly clientCa?: string }> {
  const { tlsCertFile, tlsPrivateKeyFile, clientCaFile, rotateServerCertificates } = flags;
  if ((tlsCertFile === undefined) !== (tlsPrivateKeyFile === undefined))
    throw new UsageError("--tls-cert-file and --tls-private-key-file must be set together");
  const read = async (flag: string, path: string): Promise<string> =>
    await readFile(path, "utf8").catch((error: unknown) => {
      throw new UsageError(`${flag} ${path} cannot be read: ${messageOf(error)}`);
    });
  const clientCa = clientCaFile === undefined ? clusterCa?.toString() : await read("--client-ca-file", clientCaFile);
  return {
    ...(rotateServerCertificates === true && { tls: "later" }),
    ...(rotateServerCertificates !== true &&
      tlsCertFile !== undefined &&
      tlsPrivateKeyFile !== undefined && {
        tls: { cert: await read("--tls-cert-file", tlsCertFile), key: await read("--tls-private-key-file", tlsPrivateKeyFile) },
      }),
    ...(clientCa !== undefined && { clientCa }),
  };
}
