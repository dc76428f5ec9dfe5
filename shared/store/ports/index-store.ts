/** The index: rows, slices, look-ups, and the packs (batches of deltas) and manifests that change them (informer §11). */
import type { Cached, CachedResource, OwnerId, View, ControllerName, ObjectKey } from "@deltaloop/kube/objects";
import type { Doorbell } from "./doorbells.ts";

/**
 * A value with an invalid MAC, a missing half of a row and its entry, or a row flagged `gone` for over a minute (A14). Opaque to callers:
 * identifies a location and its value.
 */
export interface Forged {
  readonly resource: View;
  /** The stored key, which may be invalid. */
  readonly key: ObjectKey;
  readonly where: "row" | "entry" | "tombstone";
  /** The slice, if the value is an entry. */
  readonly slice?: string;
  /** The stored value; empty if there is none. */
  readonly text: string;
}

/** The cached value of a key, for the audit (`readEntries`). */
export interface CachedEntry {
  readonly key: ObjectKey;
  /** Absent if the stored value has an invalid MAC. */
  readonly row?: Row;
  /** Identifies the stored value. To replace it (A14), a caller passes it back together with the object read live. */
  readonly stands: Forged;
}

export interface Ghost {
  readonly stands: Forged;
  /** The owner of the slice, if known; its key is enqueued once the ghost is removed. */
  readonly owner?: { readonly controller: ControllerName; readonly key: ObjectKey };
}

/** One cached object with its version row. */
export interface Row<R extends View = CachedResource> {
  readonly key: ObjectKey;
  readonly uid: string;
  readonly rv: string;
  /** The object's controller owner, whose slice contains the object. Absent if the object is an orphan of its namespace. */
  readonly owner?: OwnerId;
  /** Whether a delete succeeded that the stream has not confirmed yet. Readers treat the object as deleted. */
  readonly gone: boolean;
  readonly object: Cached<R>;
}

export interface NamespaceCount {
  readonly resource: View;
  readonly namespace: string;
  readonly count: number;
}

export interface IndexRequest {
  /**
   * `put`: the version about to be put; a row that is not older is returned in `current`, without its object (A4). `listRV`: the object was
   * listed at that version (IX9).
   */
  readonly rows?: readonly {
    readonly resource: View;
    readonly key: ObjectKey;
    readonly put?: string;
    readonly listRV?: string;
  }[];
  /**
   * All primaries of a namespace (replicasets, replicationcontrollers, deployments, and those of a user controller that has a slice
   * by namespace or cluster). Their counts are read first. Any other view is refused with a RangeError (`checkListed`).
   */
  readonly primaries?: readonly { readonly resource: View; readonly namespace: string }[];
  /** Namespaces whose counts, but not primaries, are read before the rows, because an effect depends on owners of the rows. */
  readonly counts?: readonly { readonly resource: View; readonly namespace: string }[];
}

export interface IndexView {
  readonly rows: readonly { readonly resource: View; readonly row: Row }[];
  /** Rows at the version to put or newer, without objects and without rows that IX9 replaces. */
  readonly current?: readonly { readonly resource: View; readonly row: Omit<Row, "object"> }[];
  readonly primaries: readonly { readonly resource: View; readonly namespace: string; readonly rows: readonly Row[] }[];
  readonly counts: readonly NamespaceCount[];
  /** Requested entries with an invalid MAC; the lists above omit them. */
  readonly forged?: readonly Forged[];
}

/** A key to queue because an object changed; computed by the controllers' affected-keys.ts, applied within the Store's step. */
export interface Effect {
  readonly controller: ControllerName;
  readonly key: ObjectKey;
  /** uid of the primary; the key is queued only if the Store has that primary with this uid. `self` effects skip the check. */
  readonly uid: string;
  /**
   * `act`: due now, because a create, delete or claim may follow. `status`: due at the end of its last run + min(1 s, 1 ms × dependents).
   */
  readonly urgency: "act" | "status";
  /** Whether the item is the primary itself, possibly deleted. */
  readonly self?: boolean;
}

/** One object's change, with the data that its effects were computed from. */
export interface ItemChange {
  /**
   * `gone`: a live read found nothing, so the row of this uid is flagged `gone` until its DELETED event arrives (informer §10.4). It
   * affects the same keys as a delete. If there is no such row, or it is flagged already, the outcome is `same`.
   */
  readonly type: "put" | "delete" | "gone";
  readonly key: ObjectKey;
  readonly uid: string;
  readonly rv: string;
  /** The object; only for puts. */
  readonly object?: Cached<View>;
  /** The controller owner; puts only. */
  readonly owner?: OwnerId;
  /**
   * A primary that its controller does not select. Lists and resyncs do not enqueue it; a put without `expected` does, if the primary owns
   * objects in the controller's slices.
   */
  readonly isOutside?: boolean;
  /**
   * The caller has not read the row (IX10). A put is applied if the key has neither row nor tombstone, or an equal row; with `expected`
   * (the item's version), only if the key has an equal row. For any other put, and for a delete, the call returns `retry` with the stored
   * row.
   */
  readonly unread?: boolean;
  /** The row that the caller has read; absent if there was no row. */
  readonly expected?: { readonly rv: string; readonly uid: string; readonly owner?: OwnerId };
  readonly effects: readonly Effect[];
  /** Whether the namespace's count must change: a primary was added or removed, or its uid, selector or controller owner changed. */
  readonly counted: boolean;
  /** Forged values of this key that the item, which was read live after them, replaces if they are unchanged (A14). */
  readonly forged?: readonly Forged[];
  /**
   * Intents that this change settles: `c:<pod name>` or `d:<pod uid>` of an owner. `t:left`: one of the owner's pods is no longer active
   * (`Snapshot.left`).
   */
  readonly lowers: readonly { readonly owner: OwnerId; readonly op: string }[];
}

export interface PackHeader {
  readonly epoch: string;
  readonly fence: string;
  readonly generation: number;
  readonly resource: View;
  readonly lane: number;
  readonly sequence: number;
  /** `D`: live delta, `L`: listed object, `W`: watermark. Manifests have a separate call. */
  readonly kind: "D" | "L" | "W";
}

export type ApplyResult =
  /** `outcomes` has one outcome per item of this call. */
  | { readonly kind: "applied"; readonly bells: readonly Doorbell[]; readonly outcomes: readonly ItemOutcome[] }
  /**
   * The items before `index` are applied. The caller reads the rows of the other items again and resends these items. `found`: if the item
   * at `index` was `unread`, the stored rows from it on, so that no read is needed; absent if look-ups must also be read.
   */
  | {
      readonly kind: "retry";
      readonly index: number;
      readonly bells: readonly Doorbell[];
      readonly outcomes: readonly ItemOutcome[];
      readonly found?: Pick<IndexView, "rows" | "current">;
    }
  | { readonly kind: "duplicate"; readonly bells: readonly Doorbell[] }
  /** A15: the Store has lost the message's preceding call, for example in a failover. Nothing changed; apply the message from its start. */
  | { readonly kind: "setBack" }
  /** The message has an older fence or another epoch: acknowledge and ignore it. */
  | { readonly kind: "dropped"; readonly why: "fence" | "epoch" }
  /** There is no epoch, or the fence is not open yet: leave the message in the queue. */
  | { readonly kind: "noEpoch" }
  | { readonly kind: "notOpen" }
  /** A16: leave the message in the queue for a build that can apply it. */
  | { readonly kind: "otherProjection" };

/** `changed` A7/A9 · `same` A4/A8 · `late` A5, and a response by A4 whose row has another owner · `absent` A6 · `full` FU2. */
export type ItemOutcome = "changed" | "same" | "late" | "absent" | "full";

export interface ManifestRow {
  readonly key: ObjectKey;
  readonly uid: string;
  readonly rv: string;
}

export interface IndexStore {
  readIndex(request: IndexRequest): Promise<IndexView>;
  /**
   * Entries of whole slices: dependents of an owner, or (`orphansOf`) a namespace's objects without controller owner.
   * @throws {ForgedRowsError} when an entry has an invalid MAC (A14).
   */
  readSlices(slices: readonly SliceRef[]): Promise<readonly (readonly Row[])[]>;
  /**
   * Version rows of one lane, without objects. Rows and tombstones with an invalid MAC are returned as forged only. `watermark` is that of
   * the lane at the same moment, `lanes` the resource's number of lanes. A lane that does not exist is empty.
   */
  readLane(
    resource: View,
    lane: number,
  ): Promise<{
    readonly rows: readonly Omit<Row, "object">[];
    readonly forged: readonly Forged[];
    readonly watermark: string;
    readonly lanes: number;
  }>;
  /**
   * The values of these keys, for the audit: the cached object, or a forged value (A14), including an entry whose version differs from
   * its row's. Keys without a row are omitted. Row and entry are read one after the other, so a concurrent change may look forged: read again.
   */
  readEntries(resource: View, keys: readonly ObjectKey[]): Promise<readonly CachedEntry[]>;
  /**
   * Ghosts: slice entries without a row, or whose row references another slice (at most 1,000). Their owners would count objects that do
   * not exist or belong to another owner. No other read finds them, because look-ups go from rows to entries.
   */
  readGhosts(resource: View): Promise<readonly Ghost[]>;
  /**
   * Applies items in order (≤ 100, one per key). `commit`, in a message's last call, commits the sequence number and, when contiguous,
   * raises the lane's watermark to `watermark` (D: greatest rv of the message; W: its rv; L: none). `listRV`: the version of the list that
   * contains the items (L; IX9). `leaveOut`: skips puts for which a full Store has no room (FU2); without it such a call fails, unless its
   * lane is frozen. `part`: a text unique to this call, which the Store keeps with the lane unless the call commits or returns `retry` at
   * its first item; `after`: the `part` of the message's preceding call (A15).
   */
  applyPack(
    pack: PackHeader,
    items: readonly ItemChange[],
    options: {
      readonly counts: readonly NamespaceCount[];
      readonly listRV?: string;
      readonly commit?: { readonly watermark?: string };
      readonly leaveOut?: boolean;
      readonly part?: string;
      readonly after?: string;
    },
  ): Promise<ApplyResult>;
  /** Stores a part of a manifest other than the last part. A manifest has key, uid and version of all objects of a lane in a list. */
  stashManifest(pack: Omit<PackHeader, "kind">, rows: readonly ManifestRow[]): Promise<ApplyResult | { readonly kind: "early" }>;
  /** Content and number of the earlier parts, without those with an invalid MAC. */
  readManifest(pack: Omit<PackHeader, "kind">): Promise<{ readonly rows: readonly ManifestRow[]; readonly parts: number }>;
  /**
   * Applies a manifest with its last (or only) part. `rows`: all listed objects of the lane at `listRV`. `sweep`: a delete for each cached
   * row that is not among them and not newer than `listRV`. `needed`: listed objects have no row; the lane is frozen. `early`: earlier
   * messages of the lane are missing, which opens a hole. `incomplete`: only parts of the manifest are missing; nothing changed. `forged`
   * rows count as absent and are removed (A14); `sweep` has an item for each of them that is not listed.
   */
  applyManifest(
    pack: Omit<PackHeader, "kind">,
    manifest: {
      readonly listRV: string;
      readonly rows: readonly ManifestRow[];
      readonly sweep: readonly ItemChange[];
      readonly counts: readonly NamespaceCount[];
      readonly forged?: readonly Forged[];
      /** False if earlier parts are missing. */
      readonly whole?: boolean;
    },
  ): Promise<
    | ApplyResult
    | { readonly kind: "early" }
    | { readonly kind: "incomplete" }
    | { readonly kind: "needed"; readonly keys: readonly ObjectKey[] }
  >;
}

export type SliceRef = { readonly resource: View; readonly owner: OwnerId } | { readonly resource: View; readonly orphansOf: string };
