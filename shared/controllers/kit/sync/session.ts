/** The interface of one key's sync: reads, the run's snapshot, and three ways to have an effect. */
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

/** Made by the worker for one run, and gone with it. There is no gateway here: nothing is sent but by `perform` and `emit`. */
export interface SyncSession
  extends Pick<Run, "key" | "snapshot" | "mayWrite">, Pick<SyncPorts, "reader" | "digester" | "clock" | "log" | "metrics"> {
  readonly store: Pick<SyncPorts["store"], "readSlices">;
  readonly mode: WriteGateway["mode"];
  readonly release: Release;
  /** Of the Store: a loss between two checkpoints shows nowhere. */
  readonly losesUnseen: boolean;
  /**
   * Dependents as they are at this moment: what is adopted of them is adopted by an owner that was read after that. With `foresee` the
   * owner is read beside them, for writes to come; not in shadow, where none is made.
   */
  list(resource: CachedResource, namespace: string, options: ListOptions): Promise<readonly KubeObject[]>;
  /**
   * Lists the owner's pods live and writes what differs through. Returns the snapshot that the run continues with, or "suspect" when lists
   * contradicted the cache too often. @throws {Error} when the list fails.
   */
  listPods(owner: Owner, selector: Selector): Promise<Snapshot | "suspect">;
  /** The status of the owner as creates or deletes read it, or undefined: `perform` says why there is none. */
  liveStatus(
    owner: Owner,
    purpose: "create" | "delete",
  ): Promise<{ readonly resourceVersion: string; readonly replicas: number } | undefined>;
  /** @throws {Error} when the sync cannot continue: the lease ends, the key was taken over, the owner cannot be read. */
  perform(writes: readonly ListedWrite[]): Promise<Performed>;
  /** @throws as `perform` */
  createReplicaSet(write: WriteOf<"CreateReplicaSet">, build: BuildReplicaSet): Promise<Performed>;
  /** @throws as `perform` */
  rollBack(write: WriteOf<"RollBack">, build: BuildRollback): Promise<Performed>;
  /** @throws as `perform` */
  updateStatus(write: WriteOf<"UpdateStatus">, options?: StatusOptions): Promise<Performed>;
  /** Writes live reads through (one call of the Store), if there are any. Answers the objects as cached. */
  save<R extends CachedResource>(answers: AnswersOf<R>): Promise<readonly Cached<R>[]>;
  /** Reports the reason of the next writes to a tracer, if there is one. */
  because(...reasons: readonly Reason[]): void;
  /** Notes Events about the owner. They leave together when the handler has ended, however it ends. */
  emit(owner: Owner, notes: readonly EventNote[]): void;
}

/** As the worker has it. */
export interface OpenSession extends SyncSession {
  /** Sends the Events, each tried once. Never fails. */
  sendEvents(): Promise<void>;
  /** How the run was ended by its last write-through (WQ8), if it was. */
  done(): DoneResult | undefined;
}

/** A thrown error is the third way a sync ends: retry with back-off. */
export type SyncHandler = (session: SyncSession) => Promise<SyncResult>;

/** How the keys of one controller are synced. */
export interface KeySync {
  readonly sync: SyncHandler;
  /** A key that has failed this often is dropped at its next failure. Absent: never. */
  readonly maxRetries?: number;
}

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
