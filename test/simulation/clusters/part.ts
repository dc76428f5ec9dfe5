/** One cluster's view of the deployment that serves several (deployment.ts). */
import type { RequestRecord } from "../../../shared/api-server/api-server.ts";
import type { ApiServer } from "../../../shared/api-server/api-server.ts";
import type { VirtualClock } from "../../../shared/base/memory/clock.ts";
import type { Random } from "../../../shared/base/random.ts";
import type { Kube } from "../../../shared/kube/client/kube.ts";
import type { FunctionHandlers } from "../../../shared/local/function-host.ts";
import type { MemoryData } from "../../../shared/store/memory/store/data.ts";
import type { MemoryDeltaQueue } from "../../../shared/store/memory/queue/delta-queue.ts";
import type { MemoryDoorbells } from "../../../shared/store/memory/queue/doorbells.ts";
import type { Signer } from "../../../shared/store/signer.ts";
import type { Fate } from "../fates.ts";
import type { Outages } from "../kube.ts";
import type { Loss } from "../losses.ts";
import type { Mirror } from "../mirror.ts";

export interface ClusterPart {
  readonly cid: string;
  /** The clock of all clusters, which the deployment advances. */
  readonly clock: VirtualClock;
  /** The cluster's keys in the Store. */
  readonly data: MemoryData;
  readonly signer: Signer;
  /** The queue of all clusters. `size` and `deadLetters` are those of this one. */
  readonly queue: MemoryDeltaQueue;
  readonly doorbells: Pick<MemoryDoorbells, "ring" | "sources">;
  readonly outages: Outages;
  /** The API server draws uids from it; clusters with equal seeds have objects with equal uids. */
  readonly uids: Random;
  /** The delta queue preserves the order of a lane. */
  readonly fifo: boolean;
  /** What the Store of all clusters loses, and the seed of the times. */
  readonly loss: Loss | undefined;
  readonly lossSeed: number;
  /** The running watchers, which are killed together, because one process serves all clusters. */
  readonly processes: Set<Fate>;
  /** Called before the first request. */
  start(cluster: StartedCluster): void;
  serve(handlers: FunctionHandlers): void;
  /** Called for each request that reached the API server. */
  requested(record: RequestRecord): void;
  /** Called for each call of the cluster's Store. */
  readonly touched: (verb: string) => void;
  /** The client that the component gets. */
  overKube(component: string, kube: Kube): Kube;
}

export interface StartedCluster {
  readonly server: ApiServer;
  readonly mirror: Mirror;
  readonly lease: { readonly namespace: string; readonly name: string };
  lost(loss: Loss): void;
  /** Called after the API server got a backup. In the quiet phase, users settle the restored objects, too. */
  restored(): Promise<void>;
}
