/**
 * Turns deltas into messages: collects the items of each lane in a pack (one message), numbers the packs and sends them (informer
 * §10.3–§10.5).
 *
 * LS1 a message holds items of one lane and kind, and of at most one list, in order of arrival; its sequence numbers have no gaps.
 * LS2 one call holds messages of several lanes, the next ones of each in order; no lane is in two calls at once. A failed message
 *    is sent again under the same id before any later one of its lane.
 * LS3 a watermark or heartbeat first closes the lane's open pack, so that it never covers items that come after it.
 * LS4 within an open pack a newer state of the same uid replaces the older one, and a delete the last state of an object that existed
 *    before the pack. Nothing replaces a delete, and another uid replaces nothing.
 * LS5 a pack that holds nothing but own writes has a longer batching window; until it is sent, other items of its lane join it.
 * LS6 nothing is dropped: a send is repeated until it succeeds or the stream ends. A pack that the queue rejects permanently is
 *    sent again under the same number and id without its objects, which the applier then reads live.
 * LS8 with `restsWhenApplied`, a lane whose messages the Store has all confirmed sends no watermark or heartbeat of its own: `quietLanes`
 *    reports it, and its cluster's heartbeat carries both. A lane with unconfirmed messages sends its own, behind them in its group.
 * LS9 with `restsWhenApplied`, there is no room while UNAPPLIED_MAX messages wait for the applier: a FIFO queue looks for free groups only
 *    among its first 120,000 messages, so a backlog of one cluster would stop the others. The stream waits, or resumes with a list.
 * LS7 every message fits, measured after encoding. A pack that does not fit travels without its objects; keys always fit.
 *    A part of a manifest is cut so that it fits even if it does not compress.
 */
import { laneOf } from "@deltaloop/store/ports";
import type { View, ObjectKey } from "@deltaloop/kube/objects";
import type { Signer, DeltaQueue, HeartbeatLane, QueueEntry, SendResult, ManifestRow } from "@deltaloop/store/ports";
import { describeError } from "@deltaloop/kube/client";
import type { Clock, Log, Random } from "@deltaloop/base";
import { FRESH_BACKOFF, stepBackoff } from "@deltaloop/kube/list-watch";
import type { Backoff } from "@deltaloop/kube/list-watch";
import type { DeltaSink, SinkItem } from "./delta-sink.ts";
import { ENVELOPE_VERSION } from "../messages/envelope.ts";
import { FlowMeter, isPause, remainingWindowMs, ownWritesWindowMs } from "./batching-window.ts";
import { ManifestPart } from "../messages/manifest-part.ts";
import { encodePackText } from "../messages/pack-codec.ts";
import { signBody } from "../messages/signed-body.ts";

export interface LaneSenderOptions {
  readonly cluster: string;
  readonly resource: View;
  readonly lanes: number;
  readonly epoch: string;
  readonly fence: string;
  /** Batching window of open packs of live events; if absent, batching-window.ts chooses it. */
  readonly batchingWindowMs?: number;
  /** Whether quiet lanes are in the cluster's heartbeat (LS8). */
  readonly restsWhenApplied?: boolean;
  /** False if nothing is written through, so that own writes (own-write.ts) are new to the cache. Default true. */
  readonly knowsOwn?: boolean;
}

export interface LaneSenderPorts {
  readonly queue: DeltaQueue;
  readonly clock: Clock;
  readonly random: Random;
  readonly signer: Signer;
  readonly log: Log;
  /** Called before each message. */
  readonly onMessage?: () => void;
}

/** SQS takes 1 MiB per message, counted in bytes of its body; the difference is a margin. */
const MESSAGE_BYTES_MAX = 1000 * 1024;
/** A larger item travels without its object: inflated it would exceed the applier's limit (pack-codec.ts). */
const ITEM_CHARACTERS_MAX = 900 * 1024;
/**
 * Only a pack with a single item may be larger. Smaller packs always fit: 200 Ki characters are at most 600 KiB in UTF-8, and 801 KiB after
 * deflate (which adds at most 1/1000) and base64.
 */
const PACK_CHARACTERS_MAX = 200 * 1024;
/** Items of one pack; the limit of one `applyPack` call. */
const PACK_ITEMS_MAX = 100;
const BATCH_ENTRIES_MAX = 10;
const BATCH_BYTES_MAX = 1024 * 1024;
const BUFFER_DELTAS_MAX = 10_000;
/** Messages of one resource; a cluster of the built-in controllers has at most 2,000. */
const UNAPPLIED_MAX = 500;
const BUFFER_BYTES_MAX = 64 * 1024 * 1024;
const HEARTBEAT_MS = 15_000;
/** Number of keys of a rejected pack in its log line. */
const KEYS_NAMED_MAX = 10;

/** An item as text. */
interface Packed {
  readonly text: string;
  /** The item without its object. */
  readonly bare: string;
  /**
   * Characters that the item adds to a pack. An item without its object counts as a full pack, so that a function reads one such object
   * live at a time.
   */
  readonly size: number;
}

interface Pack {
  readonly kind: "D" | "L";
  readonly generation: number;
  /** Version of the list that contains the items (L); each list has its own. */
  readonly listRV: string | undefined;
  readonly items: Packed[];
  readonly places: Map<ObjectKey, { readonly index: number; readonly uid: string; readonly type: SinkItem["type"] }>;
  size: number;
  /** Whether the pack holds items other than own writes. */
  isNews: boolean;
}

/** A pack without its objects. */
interface Bare {
  readonly fields: string;
  readonly keys: readonly ObjectKey[];
}

interface Waiting {
  readonly entry: QueueEntry;
  readonly sequence: number;
  readonly items: number;
  readonly bytes: number;
  /** The same pack without objects, which is sent if the queue rejects this one permanently (LS6); absent if it holds no object. */
  readonly bare?: Bare | undefined;
}

type Failure = Pick<SendResult["failed"][number], "reason" | "permanent">;

interface Lane {
  readonly number: number;
  sequence: number;
  open: Pack | undefined;
  /** The batching window has closed: the pack is sent once no message of the lane is in flight. */
  due: boolean;
  readonly waiting: Waiting[];
  /** A message of the lane is in a call, or waits for its next retry. */
  sending: boolean;
  backoff: Backoff;
  lastEnqueuedMs: number;
  /** The sequence number up to which the Store has confirmed the lane's messages. */
  applied: number;
}

/** Open packs of one batching window; they are sent together. */
interface OpenWindow {
  readonly sinceMs: number;
  readonly isFlow: boolean;
  /** Whether nothing arrived for some time before the window (batching-window.ts). */
  readonly followsPause: boolean;
  items: number;
}

export class LaneSender implements DeltaSink {
  readonly #ports: LaneSenderPorts;
  readonly #options: LaneSenderOptions;
  readonly #signal: AbortSignal;
  readonly #lanes: readonly Lane[];
  #bufferedItems = 0;
  #bufferedBytes = 0;
  #window: OpenWindow | undefined;
  #isOwnWindowOpen = false;
  #pumping = false;
  #lastItemMs = Number.NEGATIVE_INFINITY;
  readonly #flow = new FlowMeter();
  #rv = "0";
  #sentRV = "0";
  #waiters: (() => void)[] = [];

  /** Sends until `signal` aborts. Unsent messages are then dropped, and a successor reads their events again from the least watermark. */
  constructor(ports: LaneSenderPorts, options: LaneSenderOptions, signal: AbortSignal) {
    this.#ports = ports;
    this.#options = options;
    this.#signal = signal;
    const lane = (number: number): Lane => ({
      number,
      sequence: 0,
      open: undefined,
      due: false,
      waiting: [],
      sending: false,
      backoff: FRESH_BACKOFF,
      lastEnqueuedMs: ports.clock.now(),
      applied: 0,
    });
    this.#lanes = Array.from({ length: options.lanes }, (_, number) => lane(number));
    signal.addEventListener("abort", () => this.#wake());
  }

  get lanes(): number {
    return this.#lanes.length;
  }

  /** All events at or below this version are in the queue. */
  get sentRV(): string {
    return this.#sentRV;
  }

  get idle(): boolean {
    return this.#bufferedItems === 0 && this.#lanes.every((lane) => lane.waiting.length === 0);
  }

  live(item: SinkItem): void {
    this.#rv = item.rv;
    this.#put("D", 0, undefined, item);
  }

  /**
   * After a pause, the events of one read share a pack that waits for no timer. Pods always wait: several often change at once, by separate
   * writes. A Deployment that sees only the first of them may scale down another ReplicaSet than upstream does.
   */
  readDone(): void {
    if (this.#options.resource === "pods") return;
    if (this.#window?.followsPause && this.#options.batchingWindowMs === undefined) this.#closeWindow();
  }

  listed(item: SinkItem, listRV: string, generation: number): void {
    this.#put("L", generation, listRV, item);
  }

  /** Sends the manifest. Iterates `rows` twice, so that at most one part per lane is in memory. */
  manifest(listRV: string, rows: Iterable<ManifestRow>, generation: number): void {
    const parts = this.#lanes.map((lane) => {
      this.#close(lane);
      return { lane, counted: new ManifestPart(), open: new ManifestPart(), texts: [] as string[] };
    });
    for (const row of rows) parts[laneOf(row.key, parts.length)]?.counted.add(JSON.stringify(row));
    const send = ({ lane, counted, texts }: (typeof parts)[number], part: number): void => {
      this.#enqueue(
        lane,
        `"g":${generation},"k":"M","L":"${listRV}","lanes":${parts.length},"part":${part},"parts":${counted.number},"rows":[${texts.join(",")}]`,
        0,
      );
    };
    for (const row of rows) {
      const part = parts[laneOf(row.key, parts.length)];
      if (!part) continue;
      const text = JSON.stringify(row);
      const full = part.open.number;
      if (part.open.add(text)) {
        send(part, full);
        part.texts = [];
      }
      part.texts.push(text);
    }
    for (const part of parts) send(part, part.open.number);
    this.#rv = listRV;
  }

  watermark(rv: string): void {
    this.#rv = rv;
    for (const lane of this.#lanes) if (!this.#rests(lane)) this.#mark(lane);
  }

  /** Sends a watermark on each lane that was idle for 15 s: the gate stays open only while messages arrive on every lane. */
  heartbeat(): void {
    const now = this.#ports.clock.now();
    for (const lane of this.#lanes) if (now - lane.lastEnqueuedMs >= HEARTBEAT_MS && !this.#rests(lane)) this.#mark(lane);
  }

  /** `applied`: the sequence number up to which the Store has each lane's messages, under this sender's fence. */
  confirm(applied: readonly number[]): void {
    for (const lane of this.#lanes) lane.applied = applied[lane.number] ?? lane.applied;
    this.#wake();
  }

  /** Messages that the Store has not confirmed. */
  get unapplied(): number {
    return this.#lanes.reduce((sum, lane) => sum + lane.sequence - lane.applied, 0);
  }

  /** LS9 */
  #isFarAhead(): boolean {
    return this.#options.restsWhenApplied === true && this.unapplied >= UNAPPLIED_MAX;
  }

  /** The lanes whose messages are all confirmed, with the last version of the stream (LS8). */
  quietLanes(): readonly HeartbeatLane[] {
    const { resource } = this.#options;
    return this.#lanes
      .filter((lane) => isApplied(lane))
      .map(({ number, sequence }) => ({ resource, lane: number, sequence, rv: this.#rv }));
  }

  /** Since when every lane is quiet; undefined if one is not. */
  get quietSinceMs(): number | undefined {
    return this.#lanes.every(isApplied) ? Math.max(...this.#lanes.map(({ lastEnqueuedMs }) => lastEnqueuedMs)) : undefined;
  }

  #rests(lane: Lane): boolean {
    return this.#options.restsWhenApplied === true && isApplied(lane);
  }

  async room(signal: AbortSignal): Promise<void> {
    while (
      !signal.aborted &&
      !this.#signal.aborted &&
      (this.#bufferedItems > BUFFER_DELTAS_MAX || this.#bufferedBytes > BUFFER_BYTES_MAX || this.#isFarAhead())
    ) {
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
  }

  #put(kind: "D" | "L", generation: number, listRV: string | undefined, item: SinkItem): void {
    const lane = this.#lanes[laneOf(item.key, this.#lanes.length)];
    if (!lane) return;
    const packed = packedOf(item);
    if (lane.open && (lane.open.kind !== kind || lane.open.generation !== generation)) this.#close(lane);
    const place = lane.open?.places.get(item.key);
    if (lane.open && place) {
      const size = lane.open.size + packed.size - (lane.open.items[place.index]?.size ?? 0);
      const isReplaced = place.uid === item.uid && (item.type === "D" ? place.type === "M" : place.type !== "D");
      if (isReplaced && size <= PACK_CHARACTERS_MAX) {
        lane.open.size = size;
        lane.open.items[place.index] = packed;
        if (item.type === "D") lane.open.places.set(item.key, { ...place, type: "D" });
        this.#wait(lane.open, item);
        return;
      }
      this.#close(lane); // LS4 applies, or the pack is full. `applyPack` accepts each key once per call.
    }
    if (lane.open && lane.open.size + packed.size > PACK_CHARACTERS_MAX) this.#close(lane);
    lane.open ??= { kind, generation, listRV, items: [], places: new Map(), size: 0, isNews: false };
    lane.open.places.set(item.key, { index: lane.open.items.length, uid: item.uid, type: item.type });
    lane.open.items.push(packed);
    lane.open.size += packed.size;
    this.#bufferedItems++;
    if (lane.open.items.length >= PACK_ITEMS_MAX || lane.open.size >= PACK_CHARACTERS_MAX) this.#close(lane);
    else this.#wait(lane.open, item);
  }

  /** Starts the pack's batching window. Items of a list have no window: their packs are sent when full, or before the manifest. */
  #wait(pack: Pack, { isOwn }: SinkItem): void {
    if (pack.kind === "L") return;
    pack.isNews ||= isOwn !== true || this.#options.knowsOwn === false;
    if (pack.isNews) this.#openWindow();
    else this.#openOwnWindow();
  }

  /** One timer for all lanes, started by the first waiting pack. */
  #openOwnWindow(): void {
    if (this.#isOwnWindowOpen) return;
    this.#isOwnWindowOpen = true;
    void this.#ports.clock.after(ownWritesWindowMs(this.#ports.clock.now(), this.#options.batchingWindowMs), this.#signal).then(
      () => {
        this.#isOwnWindowOpen = false;
        this.#leave(this.#lanes.filter(({ open }) => open?.kind === "D"));
      },
      () => undefined, // the stream ended
    );
  }

  #openWindow(): void {
    const nowMs = this.#ports.clock.now();
    const isFlow = this.#flow.came(nowMs);
    const followsPause = isPause(nowMs - this.#lastItemMs);
    this.#lastItemMs = nowMs;
    if (this.#window) {
      this.#window.items++;
      return;
    }
    this.#window = { sinceMs: nowMs, isFlow, followsPause, items: 1 };
    this.#restartWindow(this.#window);
  }

  /** One timer for all lanes, restarted while items keep arriving (batching-window.ts). */
  #restartWindow(open: OpenWindow): void {
    if (this.#window !== open) return; // the read's end has closed it
    const nowMs = this.#ports.clock.now();
    const { sinceMs, isFlow, items } = open;
    const live = this.#lanesWithNews();
    const waitMs = remainingWindowMs(
      { items, packs: live.length, ageMs: nowMs - sinceMs, quietMs: nowMs - this.#lastItemMs, isFlow },
      this.#options.batchingWindowMs,
    );
    if (waitMs > 0) {
      void this.#ports.clock.after(waitMs, this.#signal).then(
        () => this.#restartWindow(open),
        () => undefined, // the stream ended
      );
      return;
    }
    this.#closeWindow();
  }

  #closeWindow(): void {
    this.#window = undefined;
    this.#leave(this.#lanesWithNews());
  }

  #lanesWithNews(): readonly Lane[] {
    return this.#lanes.filter(({ open }) => open?.kind === "D" && open.isNews);
  }

  #leave(lanes: readonly Lane[]): void {
    for (const lane of lanes) {
      if (lane.sending) lane.due = true;
      else this.#close(lane);
    }
  }

  #close(lane: Lane): void {
    const pack = lane.open;
    if (!pack) return;
    lane.open = undefined;
    lane.due = false;
    const list = pack.listRV === undefined ? "" : `"L":"${pack.listRV}",`;
    const fields = (texts: readonly string[]): string => `"g":${pack.generation},"k":"${pack.kind}",${list}"items":[${texts.join(",")}]`;
    this.#enqueue(lane, fields(pack.items.map(({ text }) => text)), pack.items.length, {
      fields: fields(pack.items.map(({ bare }) => bare)),
      keys: [...pack.places.keys()],
    });
  }

  #mark(lane: Lane): void {
    this.#close(lane);
    this.#enqueue(lane, `"g":0,"k":"W","rv":"${this.#rv}"`, 0);
  }

  #enqueue(lane: Lane, fields: string, items: number, bare?: Bare): void {
    this.#ports.onMessage?.();
    const sequence = ++lane.sequence;
    let waiting: Waiting = { ...this.#message(lane, sequence, fields), sequence, items, bare };
    if (bare && waiting.bytes > MESSAGE_BYTES_MAX) {
      waiting = { ...this.#message(lane, sequence, bare.fields), sequence, items };
    }
    lane.waiting.push(waiting);
    lane.lastEnqueuedMs = this.#ports.clock.now();
    this.#bufferedBytes += waiting.bytes;
    this.#pump();
  }

  #message(lane: Lane, sequence: number, fields: string): Pick<Waiting, "entry" | "bytes"> {
    const { cluster, resource, epoch, fence } = this.#options;
    const group = `${cluster}.${resource}.${lane.number}`;
    const payload = encodePackText(
      `{"v":${ENVELOPE_VERSION},"c":"${cluster}","r":"${resource}","e":"${epoch}","f":"${fence}","ln":${lane.number},"sq":${sequence},"ts":${this.#ports.clock.now()},${fields}}`,
    );
    const body = signBody(this.#ports.signer, cluster, payload);
    return { entry: { group, id: `${group}-${epoch}-${fence}-${sequence}`, body }, bytes: Buffer.byteLength(body) };
  }

  /** Called after all lanes are filled: sends the waiting messages until no free lane has any. */
  #pump(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    void Promise.resolve().then(() => {
      this.#pumping = false;
      while (!this.#signal.aborted) {
        const batch = nextBatch(this.#lanes.filter((lane) => !lane.sending && lane.waiting.length > 0));
        if (batch.size === 0) return;
        void this.#send(batch);
      }
    });
  }

  async #send(batch: ReadonlyMap<Lane, number>): Promise<void> {
    for (const lane of batch.keys()) lane.sending = true;
    const failed = await this.#trySend([...batch].flatMap(([lane, count]) => lane.waiting.slice(0, count).map(({ entry }) => entry)));
    for (const [lane, count] of batch) {
      const kept: Waiting[] = [];
      for (const waiting of lane.waiting.splice(0, count)) {
        const failure = failed.get(waiting.entry.id);
        if (!failure) this.#bufferedItems -= waiting.items;
        else kept.push(failure.permanent ? this.#withoutObjects(lane, waiting, failure.reason) : waiting);
        this.#bufferedBytes -= waiting.bytes;
      }
      lane.waiting.unshift(...kept);
      for (const { bytes } of kept) this.#bufferedBytes += bytes;
      if (kept.length > 0) void this.#sendAgain(lane);
      else this.#free(lane, FRESH_BACKOFF);
    }
    if (this.idle) this.#sentRV = this.#rv;
    this.#wake();
    this.#pump();
  }

  async #sendAgain(lane: Lane): Promise<void> {
    const [next, delayMs] = stepBackoff(lane.backoff, this.#ports.clock.now(), this.#ports.random.next());
    await this.#ports.clock.after(delayMs, this.#signal).catch(() => undefined);
    this.#free(lane, next);
    this.#pump();
  }

  #free(lane: Lane, backoff: Backoff): void {
    lane.sending = false;
    lane.backoff = backoff;
    if (lane.due) this.#close(lane);
  }

  /**
   * Returns the same message without objects. It keeps its number and id, so that the sequence has no gap if the queue has accepted later
   * messages of the lane.
   */
  #withoutObjects(lane: Lane, waiting: Waiting, reason: string): Waiting {
    const { entry, sequence, items, bare } = waiting;
    if (!bare) {
      // The queue cannot reject a message without objects for its content: retry unchanged.
      this.#ports.log.error("queue permanently rejected a message that has no objects, retrying", { id: entry.id, reason });
      return waiting;
    }
    this.#ports.log.error("queue permanently rejected the message, sending it again without objects", {
      id: entry.id,
      reason,
      items,
      keys: bare.keys.slice(0, KEYS_NAMED_MAX).join(", "),
    });
    return { ...this.#message(lane, sequence, bare.fields), sequence, items };
  }

  /** Sends, and returns the failed messages by id. A call without a response counts as failed: the same ids are sent again (T28). */
  async #trySend(batch: readonly QueueEntry[]): Promise<ReadonlyMap<string, Failure>> {
    try {
      const { failed } = await this.#ports.queue.send(batch);
      for (const { id, reason, permanent } of failed) if (!permanent) this.#ports.log.warn("message not sent, retrying", { id, reason });
      return new Map(failed.map((failure) => [failure.id, failure]));
    } catch (error) {
      const reason = describeError(error);
      this.#ports.log.warn("batch not sent, retrying", {
        resource: this.#options.resource,
        messages: batch.length,
        error: reason,
      });
      return new Map(batch.map(({ id }) => [id, { reason, permanent: false }]));
    }
  }

  #wake(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const resolve of waiters) resolve();
  }
}

function isApplied({ applied, sequence, open, waiting, sending }: Lane): boolean {
  return applied === sequence && open === undefined && waiting.length === 0 && !sending;
}

function packedOf(item: SinkItem): Packed {
  const head = `{"t":"${item.type}","key":${JSON.stringify(item.key)},"uid":${JSON.stringify(item.uid)},"rv":"${item.rv}"`;
  const bare = `${head},"tooBig":true}`;
  const object = JSON.stringify(item.object);
  if (object.length > ITEM_CHARACTERS_MAX) return { text: bare, bare, size: PACK_CHARACTERS_MAX };
  const text = `${head},"o":${object}}`;
  return { text, bare, size: text.length };
}

/** The number of messages of each lane in the next call: one of each lane first, so that no lane waits for another's backlog. */
function nextBatch(lanes: readonly Lane[]): ReadonlyMap<Lane, number> {
  const batch = new Map<Lane, number>();
  let [entries, bytes] = [0, 0];
  for (let depth = 0; lanes.some(({ waiting }) => waiting.length > depth); depth++) {
    for (const lane of lanes) {
      const next = lane.waiting[depth];
      if (next === undefined) continue;
      if (entries === BATCH_ENTRIES_MAX || (entries > 0 && bytes + next.bytes > BATCH_BYTES_MAX)) return batch;
      batch.set(lane, depth + 1);
      entries++;
      bytes += next.bytes;
    }
  }
  return batch;
}
