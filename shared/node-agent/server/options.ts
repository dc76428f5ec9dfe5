import type { KeyedCertificate } from "../ports/certificates.ts";
import type { PodStatus } from "../ports/node-store.ts";
import type { Clock, Log } from "@deltaloop/base";
import type { Cri } from "../ports/cri.ts";
import type { KubeWriter } from "@deltaloop/kube/client";
import type { NodeUsage } from "./resource-metrics.ts";
import type { NodePod } from "../kubelet/types/pod.ts";

type PodOnNode = { readonly pod: NodePod; readonly status: PodStatus | undefined } | undefined;

/** What the server asks its agent. */
export interface NodeApiBackend {
  /**
   * The pod of that name (and uid, where one is given; a mirror pod's stands for its static pod) with its cached status, if there
   * is one. `undefined`: not on this node.
   */
  pod(namespace: string, name: string, uid?: string): PodOnNode | Promise<PodOnNode>;
  pods(): readonly NodePod[];
  readonly cri: Cri;
  /** When the sync loop last did something, for healthz/syncloop. */
  lastLoopMs(): number;
}

export interface NodeApiOptions {
  /** Address to listen on. */
  readonly host: string;
  /** 0: any that is free. */
  readonly port: number;
  /**
   * PEM. Without it the server makes a certificate of its own, as a kubelet does; `"later"`: handshakes fail until `show` was called, as a
   * kubelet's do that waits for one.
   */
  readonly tls?: KeyedCertificate | "later";
  /** PEM: clients with a certificate of it are authenticated by CN and O. */
  readonly clientCa?: string;
  readonly nodeName: string;
  /** For TokenReview and SubjectAccessReview. */
  readonly kube: KubeWriter;
  readonly backend: NodeApiBackend;
  /** The page of /metrics. */
  readonly metrics: { readonly contentType: string; text(): Promise<string> };
  /** The agent's configuration as a KubeletConfiguration. */
  readonly configuration: object;
  /** The source of /stats/summary. */
  readonly summary: (asked: { readonly onlyCpuAndMemory: boolean }) => Promise<object>;
  readonly nodeUsage: () => Promise<NodeUsage>;
  readonly log: Log;
  readonly clock: Clock;
  /** No log outside of it is ever shown, */
  readonly podLogsDir: string;
  /** but here, where the runtime's logs are no files in it and links to its own (CR9). */
  readonly runtimeLogsDir?: string;
}
