import type { KeyedCertificate } from "../ports/certificates.ts";
import type { PodStatus } from "../ports/node-store.ts";
import type { Clock, Log } from "@deltaloop/base";
import type { Cri } from "../ports/cri.ts";
import type { KubeWriter } from "@deltaloop/kube/client";
import type { NodeUsage } from "./resource-metrics.ts";
import type { NodePod } from "../kubelet/types/pod.ts";

type PodOnNode = { readonly pod: NodePod; readonly status: PodStatus | undefined } | undefined;

/** The agent's data, as the server needs it. */
export interface NodeApiBackend {
  /**
   * Finds a pod of this node by name, and by uid if given (a static pod also by the uid of its mirror pod), with its cached
   * status.
   */
  pod(namespace: string, name: string, uid?: string): PodOnNode | Promise<PodOnNode>;
  pods(): readonly NodePod[];
  readonly cri: Cri;
  /** Last activity of the sync loop, for healthz/syncloop. */
  lastLoopMs(): number;
}

export interface NodeApiOptions {
  /** Address to listen on. */
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /**
   * PEM. If absent, the server creates a self-signed certificate, as the kubelet does. `"later"`: handshakes fail until `show` is called,
   * as while the kubelet waits for its certificate.
   */
  readonly tls?: KeyedCertificate | "later";
  /** PEM of the CA; clients with its certificates are authenticated by CN and O. */
  readonly clientCa?: string;
  readonly nodeName: string;
  /** Sends TokenReview and SubjectAccessReview. */
  readonly kube: KubeWriter;
  readonly backend: NodeApiBackend;
  /** The content of /metrics. */
  readonly metrics: { readonly contentType: string; text(): Promise<string> };
  /** The agent's configuration as a KubeletConfiguration. */
  readonly configuration: object;
  /** The source of /stats/summary. */
  readonly summary: (asked: { readonly onlyCpuAndMemory: boolean }) => Promise<object>;
  readonly nodeUsage: () => Promise<NodeUsage>;
  readonly log: Log;
  readonly clock: Clock;
  /** The directory of all logs that the server may show. */
  readonly podLogsDir: string;
  /** A second directory, for a runtime whose logs are links to its own folder (CR9). */
  readonly runtimeLogsDir?: string;
}
