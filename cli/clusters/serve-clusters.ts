/**
 * The functions of all clusters of a directory behind one set of queues.
 *
 * SV1 the functions of a cluster use its own credentials and connections only, and are used for its own records only (RO1).
 * SV2 a paused cluster is still cached, so that it loses no message; nothing is synced.
 * SV3 the connections of a removed cluster are closed when its runs in flight have ended.
 */
import type { Log } from "@deltaloop/base";
import { createSystemClock } from "@deltaloop/base/system";
import type { Configuration } from "@deltaloop/controllers/configuration";
import { routeRecords } from "@deltaloop/controllers/clusters";
import type { SqsHandler } from "@deltaloop/controllers/lambda";
import type { ClusterDirectory, ListedCluster } from "@deltaloop/kube/kubeconfig";
import { describeError } from "@deltaloop/kube/client";
import { CONTROLLERS, tableOf } from "@deltaloop/kube/objects";
import type { FunctionHandlers } from "@deltaloop/local";
import { sqsCalls } from "@deltaloop/store/sqs";
import type { ClusterLoad } from "./cluster-load.ts";
import type { OpenedFunctions } from "./open-functions.ts";

export interface ServedClustersPorts {
  readonly directory: ClusterDirectory;
  readonly open: (cluster: ListedCluster) => Promise<OpenedFunctions>;
  readonly queues: Configuration["queues"];
  /** Maximum number of concurrent invocations of one function for one cluster. */
  readonly share: number;
  readonly load?: Pick<ClusterLoad, "count" | "forget">;
  readonly log: Log;
}

/** Time after which runs in flight have ended: the function's timeout and a reserve. */
const RUNS_END_MS = 60_000;
const REOPEN_MS = 5_000;
const POSTPONED_SECONDS = 1;

interface Served {
  readonly name: string;
  isPaused: boolean;
  /** Absent until they are open. */
  functions?: OpenedFunctions;
  readonly opening: Promise<void>;
}

/** Serves the clusters until `ends` aborts. */
export function serveClusters({ directory, open, queues, share, load, log }: ServedClustersPorts, ends: AbortSignal): FunctionHandlers {
  const { endpoint } = queues;
  const clock = createSystemClock();
  const sqs = sqsCalls(endpoint === undefined ? {} : { endpoint });
  const served = new Map<string, Served>();

  function add(cluster: ListedCluster): void {
    const opening = open(cluster).then(
      (functions) => {
        if (served.get(cluster.cid) === own) own.functions = functions;
        else void functions.close();
      },
      (error: unknown) => {
        log.error("failed to start the functions of a cluster; retrying", { cluster: cluster.name, error: describeError(error) });
        setTimeout(() => served.get(cluster.cid) === own && add(cluster), REOPEN_MS).unref();
      },
    );
    const own: Served = { name: cluster.name, isPaused: cluster.isPaused, opening };
    served.set(cluster.cid, own);
  }

  /** Stops serving a cluster, and closes its connections later (SV3). */
  function remove({ cid, name }: ListedCluster): void {
    load?.forget(name);
    const { functions } = served.get(cid) ?? {};
    served.delete(cid);
    if (functions) setTimeout(() => void functions.close().catch(() => undefined), RUNS_END_MS).unref();
  }

  directory.follow(({ kind, cluster }) => {
    const known = served.get(cluster.cid);
    if (kind === "removed") remove(cluster);
    else if (kind === "added") add(cluster);
    else if (known) known.isPaused = cluster.isPaused;
  }, ends);

  async function postpone(QueueUrl: string, MessageGroupId: string, bodies: readonly string[]): Promise<void> {
    const Entries = bodies.map((MessageBody, i) => ({ Id: String(i), MessageBody, MessageGroupId, DelaySeconds: POSTPONED_SECONDS }));
    await sqs.call("SendMessageBatch", { QueueUrl, Entries });
  }

  function router(records: "deltas" | "doorbells", queueUrl: string, handlerOf: (handlers: FunctionHandlers) => SqsHandler): SqsHandler {
    return routeRecords({
      ...{ records, clock, log },
      onLoad(cid, kind, by) {
        const { name } = served.get(cid) ?? {};
        if (name !== undefined) load?.count(name, kind, by);
      },
      share: { most: share, postpone: async (cid, bodies) => await postpone(queueUrl, cid, bodies) },
      async functionOf(cid, { kind }) {
        if (kind !== "heartbeats") {
          if (!served.has(cid)) await directory.refresh(); // it may be new
          await served.get(cid)?.opening;
        } // a heartbeat is not waited for: the next one follows
        const { functions, isPaused } = served.get(cid) ?? {};
        if (!functions) return "missing";
        if (isPaused && kind === "doorbells") return "paused"; // SV2
        return { handler: handlerOf(functions.handlers), signer: functions.signer };
      },
    });
  }

  return {
    applyDeltas: router("deltas", queues.deltas, ({ applyDeltas }) => applyDeltas),
    deadDeltas: router("deltas", queues.deltas, ({ deadDeltas }) => deadDeltas),
    sync: tableOf(CONTROLLERS, (name) => router("doorbells", queues.doorbells[name], ({ sync }) => sync[name])),
  };
}
