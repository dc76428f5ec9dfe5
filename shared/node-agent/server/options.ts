import type { KeyedCertificate } from "../ports/certificates.ts";
import type { PodStatus } from "../ports/node-store.ts";
import type { Clock, Log } from "@deltaloop/base";
import type { Cri } from "../ports/cri.ts";
import type { KubeWriter } from "@deltaloop/kube/client";
import type { NodeUsage } from "./resource-metrics.ts";
import type { NodePod } from "../kubelet/types/pod.ts";

type PodOnNode = { readonly pod: NodePod; readonly status: PodStatus | undefined } | undefined;

/** Access to the agent's data for the server. */
export interface NodeApiBackend {
  /**
   * Finds a pod of this node, with its cached status, by name and, if given, by uid. For a static pod, the uid of its mirror pod also
   * matches.
   */
  pod(namespace: string, name: string, uid?: string): PodOnNode | Promise<PodOnNode>;
  pods(): readonly NodePod[];
  readonly cri: Cri;
  /** Time of the last sync loop activity, for healthz/syncloop. */
  lastLoopMs(): number;
}

export interface NodeApiOptions {
  /** Address on which to listen. */
  readonly host: string;
  /** Port on which to listen; 0 means any free port. */
  readonly port: number;
  /**
   * Certificate in PEM. If absent, the server creates a self-signed certificate, as the kubelet does. With `"later"`, handshakes fail
   * until `show` is called, as they do while the kubelet waits for its certificate.
   */
  readonly tls?: KeyedCertificate | "later";
  /** The CA in PEM. A client with a certificate from this CA is authenticated by its CN and O. */
  readonly clientCa?: string;
  readonly nodeName: string;
  /** Sends TokenReview and SubjectAccessReview. */
  readonly kube: KubeWriter;
  readonly backend: NodeApiBackend;
  /** Generates the content of /metrics. */
  readonly metrics: { readonly contentType: string; text(): Promise<string> };
  /** The agent's configuration as a KubeletConfiguration. */
  readonly configuration: object;
  /** Generates the content of /stats/summary. */
  readonly summary: (asked: { readonly onlyCpuAndMemory: boolean }) => Promise<object>;
  readonly nodeUsage: () => Promise<NodeUsage>;
  readonly log: Log;
  readonly clock: Clock;
  /** Directory of the logs that the server may read. */
  readonly podLogsDir: string;
  /** A second directory with logs, for a runtime whose logs are links to its own directory (CR9). */
  readonly runtimeLogsDir?: string;
}
