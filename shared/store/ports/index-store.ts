/** The index: rows, slices, look-ups, and the packs and manifests that change them (informer §11). */
import type { Cached, OwnerId, CachedResource, Controller, ObjectKey } from "@deltaloop/kube/objects";
import type { Doorbell } from "./doorbells.ts";

/**
 * Something that fails its MAC, is missing although its other half is there, or has been flagged `gone` for longer than a minute (A14).
 * Opaque to all but the Store: it identifies a place and its value.
 */
export interface Forged {
  readonly resource: CachedResource;
  /** As stored; it may be no valid key. */
  readonly key: ObjectKey;
  readonly where: "row" | "entry" | "tombstone";
  /** Of an entry: its slice. */
  readonly slice?: string;
  /** Empty: no value is stored. */
  readonly text: string;
}

/** A key's value for the audit (`readEntries`). */
export interface CachedEntry {
  readonly key: ObjectKey;
  /** Absent: the stored value fails its MAC. */
  readonly row?: Row;
  /** The stored value: returned with the object read live, it is replaced by that (A14). */
  readonly stands: Forged;
}

export interface Ghost {
  readonly stands: Forged;
  /** The owner of its slice, if known: queued once the ghost is removed. */
  readonly owner?: { readonly controller: Controller; readonly key: ObjectKey };
}

/** One cached object with its version row. */
export interface Row<R extends CachedResource = CachedResource> {
  readonly key: ObjectKey;
  readonly uid: string;
  readonly rv: string;
  /** Its controller owner: the slice that contains it. Absent = the orphans of its namespace. */
  readonly owner?: OwnerId;
  /** A delete was answered; the stream has not confirmed it yet. Readers treat the object as deleted. */
  readonly gone: boolean;
  readonly object: Cached<R>;
}

export interface NamespaceCount {
  readonly resource: CachedResource;
  readonly namespace: string;
  readonly count: number;
}

export interface IndexRequest {
  /**
   * `put`: the version about to be put; a row that is not older answers in `current`, without its object (A4). `listRV`: it was listed
   * at that version (IX9).
   */
  readonly rows?: readonly {
    readonly resource: CachedResource;
    readonly key: ObjectKey;
    readonly put?: string;
    readonly listRV?: string;
  }[];
  /** All primaries of a namespace (replicasets, replicationcontrollers, deployments). Their counts are read first. */
  readonly primaries?: readonly { readonly resource: CachedResource; readonly namespace: string }[];
  /** Counts to read (first) without the primaries, for rows whose owner chain an effect rests on. */
  readonly counts?: readonly { readonly resource: CachedResource; readonly namespace: string }[];
}

export interface IndexView {
  readonly rows: readonly { readonly resource: CachedResource; readonly row: Row }[];
  /** Rows that are at the version about to be put, or newer, and of one history with it (IX9). */
  readonly current?: readonly { readonly resource: CachedResource; readonly row: Omit<Row, "object"> }[];
  readonly primaries: readonly { readonly resource: CachedResource; readonly namespace: string; readonly rows: readonly Row[] }[];
  readonly counts: readonly NamespaceCount[];
  /** Requested entries that fail their MAC; they are in none of the lists above. */
  readonly forged?: readonly Forged[];
}

/** A key to queue because an object changed; decided by the controllers' affected-keys.ts, carried out inside the Store's step. */
export interface Effect {
  readonly controller: Controller;
  readonly key: ObjectKey;
  /** uid of the primary; the key is queued only if the Store knows that primary by this uid. `self` effects skip the check. */
  readonly uid: string;
  /** `act`: a create, delete or claim may follow, so now. `status`: end of its last run + min(1 s, 1 ms × dependents). */
  readonly urgency: "act" | "status";
  /** The item is that primary itself (also when it goes away). */
  readonly self?: boolean;
}

/** One object's change with what was read to decide its effects. */
export interface ItemChange {
  /**
   * `gone`: a live read found nothing, so the row of this uid is flagged `gone` until its DELETED event comes (informer §10.4).
   * It has the affected keys of a delete; without such a row, or with the flag set already, it is `same`.
   */
  readonly type: "put" | "delete" | "gone";
  readonly key: ObjectKey;
  readonly uid: string;
  readonly rv: string;
  /** Puts only. */
  readonly object?: Cached;
  /** Puts only: its controller owner. */
  readonly owner?: OwnerId;
  /**
   * The row has not been read (IX10). A put is done if nothing does, no tombstone either, or if it is cached exactly so; with
   * `expected`, which is then itself, only if it is. Anything else, and any delete, is answered by `retry` with what was found.
   */
  readonly unread?: boolean;
  /** The row as read; absent = none was there. */
  readonly expected?: { readonly rv: string; readonly uid: string; readonly owner?: OwnerId };
  readonly effects: readonly Effect[];
  /** A primary appeared, disappeared, or changed uid, selector or controller owner: its namespace's count moves. */
  readonly counted: boolean;
  /** The stored value of this key, which must be unchanged: the item, which was read live after it, replaces it (A14). */
  readonly forged?: readonly Forged[];
  /**
   * Intents this change answers: `c:<pod name>` or `d:<pod uid>` of an owner. `t:left`: one of the owner's pods is no longer active
   * (`Snapshot.left`).
   */
  readonly lowers: readonly { readonly owner: OwnerId; readonly op: string }[];
}

export interface PackHeader {
  readonly epoch: string;
  readonly fence: string;
  readonly generation: number;
  readonly resource: CachedResource;
  readonly lane: number;
  readonly sequence: number;
  /** `D` live delta, `L` listed object, `W` watermark. Manifests have a call of their own. */
  readonly kind: "D" | "L" | "W";
}

export type ApplyResult =
  /** `outcomes` has one rule (`A4` … `A9`) per item of this call. */
  | { readonly kind: "applied"; readonly bells: readonly Doorbell[]; readonly outcomes: readonly ItemOutcome[] }
  /**
   * Items before `index` are applied; read again and send the rest. `found`: the rows of an unread item and of all after it, read in that
   * step; absent when more must be read.
   */
  | {
      readonly kind: "retry";
      readonly index: number;
      readonly bells: readonly Doorbell[];
      readonly outcomes: readonly ItemOutcome[];
      readonly found?: Pick<IndexView, "rows" | "current">;
    }
  | { readonly kind: "duplicate"; readonly bells: readonly Doorbell[] }
  /** Older fence or another epoch: acknowledge and forget. */
  | { readonly kind: "dropped"; readonly why: "fence" | "epoch" }
  /** Come back: no epoch, or the fence is not open yet. */
  | { readonly kind: "noEpoch" }
  | { readonly kind: "notOpen" };

/** `changed` A7/A9 · `same` A4/A8 · `late` A5 · `absent` A6 · `full` FU2. */
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
   * @throws {ForgedRowsError} when an entry fails its MAC (A14).
   */
  readSlices(slices: readonly SliceRef[]): Promise<readonly (readonly Row[])[]>;
  /**
   * Version rows of one lane, without objects; of those that fail their MAC nothing but that, as of such tombstones. `watermark`: that
   * of the lane in the same moment.
   */
  readLane(
    resource: CachedResource,
    lane: number,
  ): Promise<{ readonly rows: readonly Omit<Row, "object">[]; readonly forged: readonly Forged[]; readonly watermark: string }>;
  /**
   * The values of these keys, for the audit: an object as cached, or unbelieved (A14), also for an entry of another version than its row.
   * Of a key without a row there is nothing. Row and entry are read one after the other, so what
   * changes in between may look unbelievable: look again.
   */
  readEntries(resource: CachedResource, keys: readonly ObjectKey[]): Promise<readonly CachedEntry[]>;
  /**
   * Entries whose row is not there, or names another slice (at most 1,000): objects that their owners count and that do not exist, or
   * not there. No rule of the index finds these, since nothing looks from an entry to its row.
   */
  readGhosts(resource: CachedResource): Promise<readonly Ghost[]>;
  /**
   * Applies items in order (≤ 100, one per key). `commit` goes with the last call of a message: it commits the sequence and,
   * when contiguous, raises W to `watermark` (greatest rv of the message; W: its rv; L: none). `listRV`: the version of the
   * list that the items are of (L; IX9). `leaveOut`: puts that a full Store has no room for are left out (FU2); without it such a call is
   * refused, unless its lane is frozen anyway.
   */
  applyPack(
    pack: PackHeader,
    items: readonly ItemChange[],
    options: {
      readonly counts: readonly NamespaceCount[];
      readonly listRV?: string;
      readonly commit?: { readonly watermark?: string };
      readonly leaveOut?: boolean;
    },
  ): Promise<ApplyResult>;
  /** A part that is not the last: kept until the last one comes. */
  stashManifest(pack: Omit<PackHeader, "kind">, rows: readonly ManifestRow[]): Promise<ApplyResult | { readonly kind: "early" }>;
  /** The content and number of the earlier parts, without those that fail their MAC. */
  readManifest(pack: Omit<PackHeader, "kind">): Promise<{ readonly rows: readonly ManifestRow[]; readonly parts: number }>;
  /**
   * The last (or only) part. `rows` are all rows of the lane at `listRV`, `sweep` a delete for each cached row that is not
   * among them and not newer than `listRV`. `needed`: a listed row is missing, the lane is frozen. `early`: not contiguous,
   * which is a hole from now on. `incomplete`: in its turn, but parts of it are missing; nothing is done.
   * `forged` counts as absent and goes (A14); `sweep` has an item for each such row that is not listed.
   */
  applyManifest(
    pack: Omit<PackHeader, "kind">,
    manifest: {
      readonly listRV: string;
      readonly rows: readonly ManifestRow[];
      readonly sweep: readonly ItemChange[];
      readonly counts: readonly NamespaceCount[];
      readonly forged?: readonly Forged[];
      /** False: earlier parts are missing. */
      readonly whole?: boolean;
    },
  ): Promise<
    | ApplyResult
    | { readonly kind: "early" }
    | { readonly kind: "incomplete" }
    | { readonly kind: "needed"; readonly keys: readonly ObjectKey[] }
  >;
}

export type SliceRef =
  | { readonly resource: CachedResource; readonly owner: OwnerId }
  | { readonly resource: CachedResource; readonly orphansOf: string };
