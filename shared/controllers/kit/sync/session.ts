/** The interface of one key's sync: reads, the run's snapshot, and the ways to cause effects. */
import type { Cached, CachedResource, KubeObject } from "@deltaloop/kube/objects";
import type { WriteGateway } from "../write-gateway/gateway.ts";
import { OWN_RELEASE } from "@deltaloop/kube/releases";
import type { Release } from "@deltaloop/kube/releases";
import type { Selector } from "@deltaloop/kube/selectors";
import type { DoneResult, Snapshot } from "@deltaloop/store/ports";
import { listPods } from "../perform/list-pods.ts";
import { perform, performCreate, performRollback, performStatus } from "../perform/perform.ts";
import { RunCalls } from "../perform/calls.ts";
import type { AnswersOf, ListOptions } from "../perform/calls.ts";
import type { BuildReplicaSet, BuildRollback, ListedWrite, Performed, StatusOptions, WriteOf } from "../performed.ts";
import type { Reason } from "../reason.ts";
import type { Run, SyncPorts, SyncResult } from "../run.ts";
import type { EventNote, Owner } from "../writes.ts";

/** Created by the worker for one run. It has no gateway: only `perform` and `emit` send anything. */
export interface SyncSession
  extends Pick<Run, "key" | "snapshot" | "mayWrite">, Pick<SyncPorts, "reader" | "digester" | "clock" | "log" | "metrics"> {
  readonly store: Pick<SyncPorts["store"], "readSlices">;
  readonly mode: WriteGateway["mode"];
  readonly release: Release;
  /** Whether the Store may lose data between two checkpoints without this being detected. */
  readonly losesUnseen: boolean;
  /**
   * Lists dependents live. The owner that adopts them is read after this list. `foresee`: reads the owner in parallel for later writes; not
   * in shadow mode, which has none.
   */
  list(resource: CachedResource, namespace: string, options: ListOptions): Promise<readonly KubeObject[]>;
  /**
   * Lists the owner's pods live and writes differences through. Returns the snapshot for the rest of the run, or "suspect" if lists
   * contradicted the cache too often. @throws {Error} when the list fails.
   */
  listPods(owner: Owner, selector: Selector): Promise<Snapshot | "suspect">;
  /** The live status of the owner, as read for creates or deletes. Undefined if it could not be read; `perform` then reports the reason. */
  liveStatus(
    owner: Owner,
    purpose: "create" | "delete",
  ): Promise<{ readonly resourceVersion: string; readonly replicas: number } | undefined>;
  /**
   * Executes writes in order.
   *
   * @throws {Error} when the sync cannot continue: the lease ends, the key was taken over, the owner cannot be read.
   */
  perform(writes: readonly ListedWrite[]): Promise<Performed>;
  /** Creates a ReplicaSet. @throws as `perform` */
  createReplicaSet(write: WriteOf<"CreateReplicaSet">, build: BuildReplicaSet): Promise<Performed>;
  /** Ends a rollback request. @throws as `perform` */
  rollBack(write: WriteOf<"RollBack">, build: BuildRollback): Promise<Performed>;
  /** Writes a status. @throws as `perform` */
  updateStatus(write: WriteOf<"UpdateStatus">, options?: StatusOptions): Promise<Performed>;
  /** Writes live reads through in one call of the Store, if there are any. Returns the objects as cached. */
  save<R extends CachedResource>(answers: AnswersOf<R>): Promise<readonly Cached<R>[]>;
  /** Reports the reasons of the next writes to a tracer, if there is one. */
  because(...reasons: readonly Reason[]): void;
  /** Records Events about the owner. They are sent together when the handler has ended, however it ends. */
  emit(owner: Owner, notes: readonly EventNote[]): void;
}

/** The session with the worker's own methods. */
export interface OpenSession extends SyncSession {
  /** Sends the Events without retries. Never fails. */
  sendEvents(): Promise<void>;
  /** The result if the last write-through ended the run (WQ8). */
  done(): DoneResult | undefined;
}

/** A handler may also throw: the key is then retried with back-off. */
export type SyncHandler = (session: SyncSession) => Promise<SyncResult>;

export function createSession(ports: SyncPorts, run: Run): OpenSession {
  const { reader, store, digester, clock, log, metrics, gateway, trace } = ports;
  const { controller, key, snapshot, release = OWN_RELEASE, mayWrite } = run;
  const losesUnseen = run.lineage?.losesUnseen ?? false;
  const reads = {
    key,
    snapshot,
    release,
    mayWrite,
    reader,
    store,
    digester,
    clock,
    log,
    ...(metrics && { metrics }),
    mode: gateway.mode,
    losesUnseen,
  };
  const calls = new RunCalls(ports, run);
  return {
    ...reads,
    list: (resource, namespace, options) => calls.list(resource, namespace, options),
    listPods: (owner, selector) => listPods(calls, owner, selector),
    liveStatus: async (owner, purpose) => {
      const live = await (purpose === "create" ? calls.ownerToCreate(owner) : calls.liveOwner(owner));
      if (live.kind !== "live") return undefined;
      const { metadata, status } = live.cached;
      return { resourceVersion: metadata.resourceVersion, replicas: status.replicas ?? 0 };
    },
    perform: (writes) => perform(calls, writes),
    createReplicaSet: (write, build) => performCreate(calls, write, build),
    rollBack: (write, build) => performRollback(calls, write, build),
    updateStatus: (write, options = {}) => performStatus(calls, write, options),
    save: (answers) => calls.save(answers),
    because: (...reasons) => {
      for (const reason of trace ? reasons : []) trace?.({ controller, key, kind: "reason", reason });
    },
    emit: (owner, notes) => calls.emit(owner, notes),
    sendEvents: () => calls.sendEvents(),
    done: () => calls.done,
  };
}
