/** A function's dependencies, except its event; provided by Lambda's environment, the local function host, or a test. */
import type { Digester } from "@deltaloop/kube/pod-template";
import type { ControllerName } from "@deltaloop/kube/objects";
import type { Signer, MessageSource, Doorbells, Store } from "@deltaloop/store/ports";
import { createLeaseProof, provenReader } from "../kit/lease-proof.ts";
import type { LeaseProof } from "../kit/lease-proof.ts";
import type { WriteGateway } from "../kit/write-gateway/gateway.ts";
import type { TraceLine } from "../kit/run.ts";
import { createWriteGateway } from "../kit/write-gateway/write-gateway.ts";
import type { GatewayContract } from "../kit/write-gateway/write-gateway.ts";
import type { Clock, Log, Random } from "@deltaloop/base";
import type { KubeReader, KubeWriter } from "@deltaloop/kube/client";
import type { Metrics } from "@deltaloop/base/metrics";

export interface FunctionWiring {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly digester: Digester;
  /** The connections and keys of one cluster; undefined for an unknown cluster id. */
  readonly cluster: (cid: string | undefined) => ClusterWiring | undefined;
  /** The cluster ids it serves, for functions without messages. */
  readonly clusters: readonly string[];
  /** The function's queue, to make failed records visible sooner. */
  readonly source?: Pick<MessageSource, "setVisibility">;
  readonly metrics?: Metrics;
  /** Reads the MAC keys again, rate-limited. Returns whether they changed. */
  readonly renewKeys?: () => Promise<boolean>;
  /** Reports the decisions of syncs to users. */
  readonly trace?: (line: TraceLine) => void;
}

export interface ClusterWiring {
  /** Its name in the directory of clusters; absent in a deployment of one cluster. */
  readonly name?: string;
  readonly store: Store;
  /** Verifies that a message is from this cluster's watcher. */
  readonly signer: Signer;
  readonly doorbells: Doorbells;
  /** Sends the function's component name as user agent; a gateway sets its controller's field manager. */
  readonly reader: KubeReader;
  /** Absent if no proof is required (shadow mode, replay). */
  readonly proof?: LeaseProof;
  /** For functions that take no key from the work queue, such as the applier. Each read needs a lease proof for the Store's current token. */
  readonly provenReader?: KubeReader;
  readonly gateway: (controller: ControllerName, contract: GatewayContract | undefined) => WriteGateway;
}

/** The Lease that proves which cluster fills the cache (lease-proof.ts), and the dependencies of that proof. */
export interface ProofOptions extends Pick<FunctionWiring, "clock" | "log"> {
  readonly metrics?: Metrics | undefined;
  readonly lease: { readonly namespace: string; readonly name: string };
}

/** The wiring of functions that serve exactly one cluster: reads and gateways share one client. */
export function serving(
  cid: string,
  kube: KubeReader & KubeWriter,
  mode: WriteGateway["mode"],
  { store, signer, doorbells }: Pick<ClusterWiring, "store" | "signer" | "doorbells">,
  options?: ProofOptions,
): Pick<FunctionWiring, "cluster" | "clusters"> {
  const gateway: ClusterWiring["gateway"] = (controller, contract) => createWriteGateway(kube, controller, mode, contract);
  const proof = options && createLeaseProof({ ...options, reader: kube, store }, options.lease);
  const requireCurrent = async (): Promise<void> => {
    const { current } = await store.lineage();
    if (current) await proof?.require(current.record.epoch, current.token);
  };
  const proven = proof && { proof, provenReader: provenReader(kube, proof, requireCurrent) };
  const cluster: ClusterWiring = { store, signer, doorbells, reader: kube, ...proven, gateway };
  return { clusters: [cid], cluster: (asked) => (asked === cid ? cluster : undefined) };
}
