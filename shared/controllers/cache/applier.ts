/**
 * The applier: folds one delta message into the index (informer §11.2). It reads what a decision needs; the Store owns the ordering rules; the
 * controllers' events tables compute the affected keys.
 *
 * AP0 a message without a valid signature is acknowledged, logged and its id stored; its content is not read.
 * AP1 content never blocks a lane: an item or message that cannot be applied is quarantined, and the lane continues. An item whose effects
 *     cannot be computed is quarantined but cached: it enqueues no key.
 * AP2 only failures that pass with time are retried: no epoch yet, a fence that is not open yet, a list's manifest that arrives before
 *     earlier messages of its lane, and an envelope version or view that only a newer build knows.
 * AP3 doorbells are rung after the step that queued their keys and before the message is acknowledged.
 * AP4 an item that travelled without its object (`tooBig`) is read live and stripped here; a call holds few of them.
 * AP5 a message that exceeds its time makes progress on each delivery: a call has 100 items, on redelivery 10, then one, and grows while
 *     calls are quick. Items that an earlier delivery applied are skipped.
 * AP6 each call of a message requires that the previous call was applied. Rows that an earlier delivery applied are read before and after a
 *     call of this delivery (A15).
 */
import type { Digester } from "@deltaloop/kube/pod-template";
import { compareResourceVersions, controllerIn, isCurrent, messageOf, splitKey } from "@deltaloop/kube/objects";
import type { Cached, View, ObjectKey } from "@deltaloop/kube/objects";
import type {
  Signer,
  Doorbell,
  Doorbells,
  ApplyResult,
  Ended,
  Forged,
  IndexView,
  ItemChange,
  PackHeader,
  Store,
} from "@deltaloop/store/ports";
import type { Clock, Log, LogFields } from "@deltaloop/base";
import type { KubeReader } from "@deltaloop/kube/client";
import type { Metrics } from "@deltaloop/base/metrics";
import { decodeEnvelope } from "./messages/decode.ts";
import type { Envelope, EnvelopeItem } from "./messages/envelope.ts";
import { cachedAs, readable, resourceOf } from "./cache-registry.ts";
import type { CacheRegistry } from "./cache-registry.ts";
import { applyHeartbeats } from "./apply-heartbeats.ts";
import { reportForgery } from "./messages/forgery.ts";
import { isHeartbeats } from "./messages/heartbeats.ts";
import { prepareChanges, prepareUnread } from "./prepare.ts";
import type { Change, Prepared } from "./prepare.ts";
import { repair, readLive } from "./repair.ts";
import { callLength, faultOf, highestVersion, identityOf } from "./messages/pack-items.ts";
import { informerLabels } from "./informer-labels.ts";
import { ring } from "./ring.ts";
import { withRenewedKeys } from "./messages/signed-body.ts";

/** The connections and keys of one cluster. */
export interface AppliedCluster {
  readonly store: Store;
  readonly doorbells: Doorbells;
  readonly reader: KubeReader;
  /** A reader that obtains the Lease's proof before each read. Absent if no proof is needed. */
  readonly provenReader?: KubeReader;
  /** Verifies that the watcher sent a message. */
  readonly signer: Signer;
}

export interface ApplierPorts {
  /** The cluster that a message names; undefined if this deployment does not have it. */
  readonly cluster: (cid: string | undefined) => AppliedCluster | undefined;
  /** All clusters of this deployment: each of them stores the id of a message that names no cluster. */
  readonly clusters: readonly string[];
  readonly registry: CacheRegistry;
  readonly digester: Digester;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics?: Metrics;
  /** Reads the MAC keys again, rate-limited. Returns whether they changed. */
  readonly renewKeys?: () => Promise<boolean>;
  /** Called with the affected keys of each change, for a replay or a live view. `isListed`: a list has found the items. */
  readonly onChanges?: (resource: View, items: readonly ItemChange[], isListed: boolean) => void;
}

/** `retry`: leave the message and all later messages of its lane in the queue for this many seconds. */
export type Verdict = { readonly kind: "ack" } | { readonly kind: "retry"; readonly afterSeconds: number; readonly why: string };

/**
 * Where the stored rows of the items come from. `unread`: they are not read; the Store applies the items that need no row and returns the
 * rows of the others (IX10). `found`: the Store has returned them. `read`: the applier reads them before it calls the Store.
 */
type Look = { readonly kind: "unread" | "read" } | { readonly kind: "found"; readonly found: Pick<IndexView, "rows" | "current"> };

/** The items of a message that go to the Store in one call. */
interface Call {
  readonly kind: "D" | "L";
  readonly listRV?: string;
  /** Only in the last call of the message: commits its sequence number. */
  readonly commit?: { readonly watermark?: string };
}

export interface Message {
  readonly id: string;
  readonly body: string;
  /**
   * Number of deliveries as the queue counts them, including this one. The queue also counts deliveries that did not try this message
   * because an earlier message of the lane failed. Calls are then smaller than needed, which costs a few milliseconds.
   */
  readonly receiveCount?: number;
}

const ACK: Verdict = { kind: "ack" };
/** Lua runs one call at a time; 100 items keep a call near a millisecond. */
const ITEMS_PER_CALL_MAX = 100;
/** Factor by which the batch shrinks on each redelivery. */
const CALL_SHRINKS_BY = 10;
/** A call that is faster than this doubles the size of the next call. The shortest function timeout has room for five such calls. */
const QUICK_CALL_MS = 1_000;
/** Consecutive retries of a call whose rows kept changing. After that, the message returns to the queue. */
const RETRIES_MAX = 5;
const RETRY_SECONDS = 5;
/** Number of deliveries that wait for room in a full Store. After that, deletes are applied without the puts before them (FU2). */
const FULL_RECEIVES = 3;
const EARLY_MANIFEST_SECONDS = 2;

/** Applies one message body. @throws when the Store or the API server is unreachable; the queue then redelivers the message */
export async function applyMessage(ports: ApplierPorts, message: Message): Promise<Verdict> {
  if (isHeartbeats(message.body)) {
    await applyHeartbeats(ports, message);
    return ACK;
  }
  const decoded = await withRenewedKeys(
    () => decodeEnvelope(message.body, (cid) => ports.cluster(cid)?.signer, ports.registry.catalog),
    ports.renewKeys,
  );
  if (decoded.kind === "forged") {
    await reportForgery(ports, { id: message.id, body: message.body, where: "delta queue" }, decoded);
    return ACK;
  }
  if (decoded.kind === "newer") {
    return otherBuild(ports.log, { messageId: message.id, why: decoded.why });
  }
  if (decoded.kind === "undecodable") {
    await quarantine(
      ports,
      decoded.cluster,
      { what: message.id, where: "delta message", why: decoded.why },
      {
        ...(decoded.resource && { resource: decoded.resource }),
        items: 1,
      },
    );
    return ACK;
  }
  const { envelope } = decoded;
  const cluster = ports.cluster(envelope.c);
  if (!cluster) throw new Error(`the message was signed for cluster ${envelope.c}, which is not configured`);
  return applyEnvelope(ports, cluster, envelope, message.receiveCount);
}

/** Applies a decoded message whose MAC is verified. @throws as applyMessage does. */
export async function applyEnvelope(ports: ApplierPorts, cluster: AppliedCluster, envelope: Envelope, receiveCount = 1): Promise<Verdict> {
  return new MessageApplier(ports, cluster, envelope, receiveCount).run();
}

function otherBuild(log: Log, fields: LogFields & { readonly why: string }): Verdict {
  log.error("message of another build stays in the queue: deploy watcher and functions of the same version", fields);
  return { kind: "retry", afterSeconds: RETRY_SECONDS, why: fields.why };
}

async function quarantine(
  ports: ApplierPorts,
  cid: string | undefined,
  entry: { readonly what: string; readonly where: string; readonly why: string },
  ended: Omit<Ended, "fate">,
): Promise<void> {
  ports.log.error("quarantined", entry);
  await ports.cluster(cid)?.store.quarantine({ ...entry, atMs: ports.clock.now() }, { ...ended, fate: "quarantined" });
}

class MessageApplier {
  readonly #ports: ApplierPorts;
  readonly #cluster: AppliedCluster;
  readonly #envelope: Envelope;
  readonly #receiveCount: number;
  readonly #bells = new Map<string, Doorbell>();
  /** Items already reported as invalid; a retry prepares the batch again. */
  readonly #faulty = new Set<ObjectKey>();
  /** Prefix of the `part` texts of this delivery's calls (A15); unique to the delivery. */
  readonly #partPrefix: string;
  /** Number of calls that this delivery has made before its last call. */
  #parts = 0;

  constructor(ports: ApplierPorts, cluster: AppliedCluster, envelope: Envelope, receiveCount: number) {
    this.#ports = ports;
    this.#cluster = cluster;
    this.#envelope = envelope;
    this.#receiveCount = receiveCount;
    this.#partPrefix = `${envelope.sq}.${receiveCount}.${ports.clock.now()}`;
  }

  async run(): Promise<Verdict> {
    const { clock, log, metrics } = this.#ports;
    const startedMs = clock.now();
    try {
      const verdict = await this.#apply();
      this.#count(verdict.kind, startedMs);
      return verdict;
    } finally {
      if (this.#bells.size > 0) await ring({ doorbells: this.#cluster.doorbells, log, metrics }, [...this.#bells.values()]);
    }
  }

  #count(verdict: Verdict["kind"], startedMs: number): void {
    const { clock, metrics } = this.#ports;
    const { r: resource, ts: receivedMs, k: kind } = this.#envelope;
    const nowMs = clock.now();
    metrics?.count("deltaloop_messages_total", { resource, verdict });
    metrics?.observe("informer_processing_latency_seconds", informerLabels(resource), (nowMs - startedMs) / 1000);
    // Only for live events: a listed object may have changed long ago, and a heartbeat carries no event.
    if (kind === "D" && verdict === "ack")
      metrics?.observe("deltaloop_delta_lag_seconds", { resource }, Math.max(0, nowMs - receivedMs) / 1000);
  }

  #countItems(result: ApplyResult): void {
    if (result.kind !== "applied" && result.kind !== "retry") return;
    const { r: resource } = this.#envelope;
    const full = result.outcomes.filter((outcome) => outcome === "full").length;
    if (full > 0)
      this.#ports.log.error("the store is full: objects are skipped; the watcher lists everything again once there is room", {
        resource,
        count: full,
      });
    for (const outcome of result.outcomes) this.#ports.metrics?.count("deltaloop_applied_items_total", { resource, outcome });
  }

  #apply(): Promise<Verdict> {
    const envelope = this.#envelope;
    switch (envelope.k) {
      case "D":
        return this.#applyItems("D", envelope.items, undefined);
      case "L":
        return this.#applyItems("L", envelope.items, envelope.L);
      case "W":
        return this.#commitOnly(envelope.rv);
      case "M":
        return this.#applyManifest(envelope);
    }
  }

  async #commitOnly(watermark: string): Promise<Verdict> {
    return this.#verdict(await this.#cluster.store.applyPack(this.#header("W"), [], { counts: [], commit: { watermark } }));
  }

  async #applyItems(kind: "D" | "L", items: readonly EnvelopeItem[], listRV: string | undefined): Promise<Verdict> {
    const { clock } = this.#ports;
    const highest = kind === "D" ? highestVersion(items) : "0";
    const commit = highest === "0" ? {} : { watermark: highest };
    const list = listRV === undefined ? {} : { listRV };
    let size = Math.max(1, Math.floor(ITEMS_PER_CALL_MAX / CALL_SHRINKS_BY ** (this.#receiveCount - 1)));
    let rest = await this.#unapplied(kind, items, list);
    for (;;) {
      const startedMs = clock.now();
      const length = callLength(rest, size);
      const changes = await this.#changesOf(rest.slice(0, length));
      rest = rest.slice(length);
      const last = rest.length === 0;
      if (changes.length === 0 && !last) continue;
      const verdict = await this.#applyCall(changes, { kind, ...list, ...(last && { commit }) });
      if (verdict || last) return verdict ?? ACK;
      if (clock.now() - startedMs < QUICK_CALL_MS) size = Math.min(ITEMS_PER_CALL_MAX, size * 2);
    }
  }

  /** Returns undefined once all items are applied and their doorbells are recorded. */
  async #applyCall(changes: readonly Change[], { kind, listRV, commit }: Call): Promise<Verdict | undefined> {
    let look: Look = { kind: kind === "D" ? "unread" : "read" };
    let rest = changes;
    for (let retries = 0; retries <= RETRIES_MAX;) {
      const prepared = await this.#prepare(rest, { ...(listRV !== undefined && { listRV }), look });
      const result = await this.#cluster.store.applyPack(this.#header(kind), prepared.items, {
        counts: prepared.counts,
        ...(listRV !== undefined && { listRV }),
        ...(commit && { commit }),
        leaveOut: this.#receiveCount >= FULL_RECEIVES,
        ...this.#part(),
      });
      if (result.kind === "retry" ? result.index > 0 : result.kind === "applied" && !commit) this.#parts++;
      this.#countItems(result);
      if (look.kind === "unread") this.#tellChanges(prepared.items, result);
      if (result.kind === "retry") {
        retries = result.index > 0 ? 0 : retries + 1;
        this.#ringLater(result.bells);
        rest = rest.slice(result.index);
        look = result.found ? { kind: "found", found: result.found } : { kind: "read" };
        continue;
      }
      // A3 rings the doorbells of the affected keys again. For a delete these are known only once its row is read.
      if (result.kind === "duplicate" && look.kind === "unread" && prepared.items.some(({ type }) => type === "delete")) {
        this.#ringLater(result.bells);
        look = { kind: "read" };
        continue;
      }
      const verdict = this.#verdict(result);
      return result.kind === "applied" ? undefined : verdict;
    }
    return { kind: "retry", afterSeconds: RETRY_SECONDS, why: `rows kept changing during ${RETRIES_MAX} attempts` };
  }

  async #applyManifest(envelope: Extract<Envelope, { k: "M" }>): Promise<Verdict> {
    const { store } = this.#cluster;
    const header = this.#header("L");
    if (envelope.part < envelope.parts) return this.#verdict(await store.stashManifest(header, envelope.rows));
    const stashed = envelope.parts > 1 ? await store.readManifest(header) : { rows: [], parts: 0 };
    const rows = [...stashed.rows, ...envelope.rows];
    const whole = stashed.parts === envelope.parts - 1;
    const listed = new Set(rows.map((row) => row.key));
    for (let attempt = 0; attempt <= RETRIES_MAX; attempt++) {
      const cached = await store.readLane(envelope.r, envelope.ln);
      const unlisted = cached.rows.filter((row) => !listed.has(row.key) && compareResourceVersions(row.rv, envelope.L) <= 0);
      const prepared = await this.#prepare(
        unlisted.map(({ key, uid }) => ({ type: "delete", key, uid, rv: envelope.L, object: undefined })),
      );
      const result = await store.applyManifest(header, {
        listRV: envelope.L,
        rows,
        sweep: [...prepared.items, ...strays(cached.forged, listed, envelope.L)],
        counts: prepared.counts,
        forged: cached.forged.filter(({ key }) => listed.has(key)),
        whole,
      });
      if (result.kind === "incomplete") return this.#incomplete(envelope.parts - 1 - stashed.parts);
      if (result.kind !== "retry") return this.#verdict(result);
      this.#ringLater(result.bells);
    }
    return { kind: "retry", afterSeconds: EARLY_MANIFEST_SECONDS, why: `rows kept changing during ${RETRIES_MAX} attempts` };
  }

  /** Handles a manifest with missing or damaged parts: only a list shows which cached objects no longer exist. */
  async #incomplete(missing: number): Promise<Verdict> {
    const { r: resource, ln: lane, sq: sequence } = this.#envelope;
    this.#ports.log.error("list manifest of a lane is incomplete or fails MAC verification; relisting the resource", {
      resource,
      lane,
      sequence,
      missing,
    });
    await this.#cluster.store.markSuspect(resource, `lane ${lane}: ${missing} parts of the list manifest are missing`);
    return ACK;
  }

  #verdict(result: ApplyResult | { readonly kind: "early" } | { readonly kind: "needed"; readonly keys: readonly ObjectKey[] }): Verdict {
    const { r: resource, ln: lane, sq: sequence } = this.#envelope;
    switch (result.kind) {
      case "applied":
      case "duplicate":
        this.#ringLater(result.bells);
        return ACK;
      case "dropped":
        this.#ports.log.info("message dropped", { resource, lane, sequence, why: result.why });
        return ACK;
      case "needed":
        this.#ports.log.warn("listed objects did not reach the cache; the lane is frozen until the next list", {
          resource,
          lane,
          missing: result.keys.length,
        });
        return ACK;
      case "early":
        return {
          kind: "retry",
          afterSeconds: EARLY_MANIFEST_SECONDS,
          why: "the list manifest arrived before earlier messages of its lane",
        };
      case "noEpoch":
        return { kind: "retry", afterSeconds: RETRY_SECONDS, why: "the cache has no epoch" };
      case "notOpen":
        return { kind: "retry", afterSeconds: 1, why: "the fence is not open yet" };
      case "otherProjection":
        return otherBuild(this.#ports.log, { resource, lane, sequence, why: "the epoch has another projection" });
      case "setBack":
        return { kind: "retry", afterSeconds: 1, why: "the store was restored to an older state while the message was applied" };
      case "retry":
        return { kind: "retry", afterSeconds: RETRY_SECONDS, why: "rows moved" };
    }
  }

  async #prepare(
    changes: readonly Change[],
    { listRV, look = { kind: "read" } }: { readonly listRV?: string; readonly look?: Look } = {},
  ): Promise<Prepared> {
    if (changes.length === 0) return { items: [], counts: [], forged: [], faults: [] };
    const resource = this.#envelope.r;
    const { store } = this.#cluster;
    const { registry } = this.#ports;
    const live = (key: ObjectKey): Promise<Change> => readLive({ ...this.#ports, reader: this.#reader }, resource, key);
    const read = (): Promise<Prepared> =>
      look.kind === "unread"
        ? prepareUnread(store, registry, resource, changes, { live })
        : prepareChanges(store, registry, resource, changes, {
            ...(look.kind === "found" && { found: look.found }),
            ...(listRV !== undefined && { listRV }),
            live,
          });
    let prepared = await read();
    if (prepared.forged.length > 0) {
      await this.#repair(prepared.forged);
      prepared = await read();
    }
    for (const { key, why } of prepared.faults) {
      if (this.#faulty.has(key)) continue;
      this.#faulty.add(key);
      // 0, because the item is also cached and `applyPack` counts it.
      await this.#quarantine(`${resource} ${key}`, `failed to compute the affected keys: ${why}`, 0);
    }
    for (const { key, forged } of prepared.items)
      if (forged)
        this.#ports.log.error("MAC verification of cached rows failed; reading their objects live", {
          key,
          resource,
          count: forged.length,
        });
    if (look.kind !== "unread") this.#ports.onChanges?.(this.#envelope.r, prepared.items, this.#envelope.k === "L");
    return prepared;
  }

  /** Reports the changed items. Needed for unread items, because only the result of the call shows whether they were new. */
  #tellChanges(items: readonly ItemChange[], result: ApplyResult): void {
    if (result.kind !== "applied" && result.kind !== "retry") return;
    const changed = items.filter((_, i) => result.outcomes[i] === "changed");
    if (changed.length > 0) this.#ports.onChanges?.(this.#envelope.r, changed, this.#envelope.k === "L");
  }

  /** Repairs forged rows of primaries that the affected keys depend on. The key of each repaired primary is enqueued. */
  async #repair(forged: readonly Forged[]): Promise<void> {
    const { e: epoch } = this.#envelope;
    for (const each of forged) {
      const controller = controllerIn(this.#ports.registry.catalog, each.resource);
      if (controller)
        await repair({ ...this.#ports, ...this.#cluster, reader: this.#reader }, { epoch, controller, key: each.key, token: "" }, [each]);
    }
  }

  async #changesOf(items: readonly EnvelopeItem[]): Promise<readonly Change[]> {
    const changes = await Promise.all(items.map((item) => this.#changeOf(item)));
    return changes.filter((change) => change !== undefined);
  }

  /**
   * Returns the items that are newer than their rows. An earlier delivery applied the others, or a newer version superseded them (A4). A
   * skipped item rings no doorbells, so the second delivery skips only items that need a live read.
   */
  async #unapplied(
    kind: Call["kind"],
    items: readonly EnvelopeItem[],
    list: { readonly listRV?: string },
  ): Promise<readonly EnvelopeItem[]> {
    if (this.#receiveCount === 1) return items;
    const { r: resource } = this.#envelope;
    const rows = items
      .filter((item) => faultOf(item) === undefined && item.t !== "D" && (item.tooBig || this.#receiveCount > 2))
      .map(({ key, rv }) => ({ resource, key, put: rv, ...list }));
    if (rows.length === 0) return items;
    const readCurrent = async () => new Map((await this.#cluster.store.readIndex({ rows })).current?.map(({ row }) => [row.key, row.rv]));
    const before = await readCurrent();
    if (before.size === 0) return items;
    const begun = await this.#cluster.store.applyPack(this.#header(kind), [], { counts: [], ...this.#part() });
    // The message is committed or the fence is not open, so the rows that were read are not reliable: no item is skipped.
    if (begun.kind !== "applied") return items;
    this.#parts++;
    // Detects a Store that was restored to an older state between the two reads.
    const after = await readCurrent();
    return items.filter((item) => {
      const rows = faultOf(item) === undefined && item.t !== "D" ? [before.get(item.key), after.get(item.key)] : [];
      return rows.length === 0 || rows.some((rv) => rv === undefined || !isCurrent(rv, item.rv, list.listRV));
    });
  }

  #part(): { readonly part: string; readonly after?: string } {
    return {
      part: `${this.#partPrefix}.${this.#parts + 1}`,
      ...(this.#parts > 0 && { after: `${this.#partPrefix}.${this.#parts}` }),
    };
  }

  /** Returns undefined if the item was quarantined. */
  async #changeOf(item: EnvelopeItem): Promise<Change | undefined> {
    const fault = faultOf(item);
    if (fault !== undefined) return this.#quarantineItem(item, fault);
    const { key, uid, rv } = item;
    if (item.t === "D") return { type: "delete", key, uid, rv, object: readable(this.#ports.registry, this.#envelope.r, item.o) };
    if (item.tooBig) return this.#readLive(item);
    try {
      const object = this.#cached(item.o);
      return identityOf(object) === `${key} ${uid}`
        ? { type: "put", key, uid, rv, object, ...(item.t === "A" && { isNew: true }) }
        : await this.#quarantineItem(item, "its object has another key or uid than the item");
    } catch (error) {
      return this.#quarantineItem(item, messageOf(error));
    }
  }

  #cached(object: unknown): Cached<View> {
    return cachedAs(this.#ports.registry, this.#envelope.r, object, this.#ports.digester);
  }

  get #reader(): KubeReader {
    return this.#cluster.provenReader ?? this.#cluster.reader;
  }

  async #readLive(item: EnvelopeItem): Promise<Change | undefined> {
    const { key, uid, rv } = item;
    const { namespace, name } = splitKey(key);
    const live = await this.#reader.get(resourceOf(this.#ports.registry, this.#envelope.r), namespace, name);
    if (!live) return { type: "gone", key, uid, rv, object: undefined };
    try {
      const object = this.#cached(live);
      return { type: "put", key, uid: live.metadata.uid, rv: live.metadata.resourceVersion, object };
    } catch (error) {
      return this.#quarantineItem(item, messageOf(error));
    }
  }

  async #quarantineItem(item: EnvelopeItem, why: string): Promise<undefined> {
    const { r } = this.#envelope;
    await this.#quarantine(typeof item?.key === "string" && item.key !== "" ? `${r} ${item.key}` : `${r} without a key`, why, 1);
    return undefined;
  }

  async #quarantine(what: string, why: string, items: number): Promise<void> {
    const { c, r: resource, ln: lane, sq } = this.#envelope;
    await quarantine(this.#ports, c, { what, where: `lane ${lane}, sequence ${sq}`, why }, { resource, lane, items });
  }

  #header(kind: PackHeader["kind"]): PackHeader {
    const { e: epoch, f: fence, g: generation, r: resource, ln: lane, sq: sequence } = this.#envelope;
    return { epoch, fence, generation, resource, lane, sequence, kind };
  }

  #ringLater(bells: readonly Doorbell[]): void {
    for (const bell of bells) this.#bells.set(`${bell.controller} ${bell.key}`, bell);
  }
}

/** Returns deletes of the rows that have an invalid MAC and are not in the list. Their content cannot be trusted, so they enqueue no key. */
function strays(forged: readonly Forged[], listed: ReadonlySet<ObjectKey>, listRV: string): readonly ItemChange[] {
  return forged
    .filter(({ key, where }) => where === "row" && !listed.has(key))
    .map((each) => ({ type: "delete", key: each.key, uid: "", rv: listRV, forged: [each], effects: [], counted: false, lowers: [] }));
}
