/**
 * From deltas to messages: packs per lane, numbers them and sends them (informer §10.3–§10.5).
 *
 * LS1 a message holds one lane's items of one kind and generation, in the order they came; its sequence has no holes.
 * LS2 one call holds messages of several lanes, of each the next ones in order; no lane is in two calls at once. What failed
 *    is sent again under the same id before anything later of that lane.
 * LS3 a watermark or heartbeat closes the open pack first, so it never claims what has not been handed over.
 * LS4 within an open pack a newer state of the same uid replaces the older one; a delete or another uid never does.
 * LS5 a pack of nothing but own writes waits longer for company, and as long as it is open goes with whatever else comes in its lane.
 * LS6 nothing is given up: a send is repeated until it succeeds or the stream ends.
 */
import { laneOf } from "../api/lane.ts";
import type { CachedResource, ObjectKey } from "../api/resources.ts";
import type { Signer } from "../api/signer.ts";
import { describeError } from "../ports/describe-error.ts";
import type { Clock } from "../ports/clock.ts";
import type { DeltaQueue, QueueEntry } from "../ports/delta-queue.ts";
import type { Log } from "../ports/log.ts";
import type { Random } from "../ports/random.ts";
import type { ManifestRow } from "../ports/store.ts";
import { FRESH_BACKOFF, stepBackoff } from "./backoff.ts";
import type { Backoff } from "./backoff.ts";
import type { DeltaSink, SinkItem } from "./delta-sink.ts";
import { ENVELOPE_VERSION } from "./envelope.ts";
import { FlowMeter, lingerMs, ownLingerMs } from "./linger.ts";
import { encodePackText } from "./pack-codec.ts";
import { signBody } from "./signed-body.ts";

export interface LaneSenderOptions {
  readonly cluster: string;
  readonly resource: CachedResource;
  readonly lanes: number;
  readonly epoch: string;
  readonly fence: string;
  /** How long open packs of live events wait for company; absent: as linger.ts finds worth it. */
  readonly lingerMs?: number;
  /** False: nothing is written through, so what is our own (own-write.ts) is news to the cache as well. Default true. */
  readonly knowsOwn?: boolean;
}

export interface LaneSenderPorts {
  readonly queue: DeltaQueue;
  readonly clock: Clock;
  readonly random: Random;
  readonly signer: Signer;
  readonly log: Log;
}

/** An item above this travels without its object; the applier reads it live. */
const ITEM_BYTES_MAX = 900 * 1024;
const PACK_BYTES_MAX = 200 * 1024;
/** As many as one `apply` call takes. */
const PACK_ITEMS_MAX = 100;
/** About 900 KiB of rows before they are deflated. */
const MANIFEST_ROWS_MAX = 6000;
const BATCH_ENTRIES_MAX = 10;
const BATCH_BYTES_MAX = 1024 * 1024;
const BUFFER_DELTAS_MAX = 10_000;
const BUFFER_BYTES_MAX = 64 * 1024 * 1024;
const HEARTBEAT_MS = 15_000;

interface Pack {
  readonly kind: "D" | "L";
  readonly generation: number;
  /** L: the version of the list, one for each generation. */
  readonly listRV: string | undefined;
  readonly items: string[];
  readonly places: Map<ObjectKey, { readonly index: number; readonly uid: string; readonly type: SinkItem["type"] }>;
  bytes: number;
  /** It holds more than own writes. */
  isNews: boolean;
}

interface Waiting {
  readonly entry: QueueEntry;
  readonly items: number;
  readonly bytes: number;
}

interface Lane {
  readonly number: number;
  sequence: number;
  open: Pack | undefined;
  /** The open pack has waited long enough and leaves once the lane is free; what comes until then goes with it. */
  due: boolean;
  readonly waiting: Waiting[];
  /** In a call, or waiting for its next try. */
  sending: boolean;
  backoff: Backoff;
  lastEnqueuedMs: number;
}

/** Open packs wait for company; they leave together. */
interface Lingering {
  readonly sinceMs: number;
  readonly isFlow: boolean;
  items: number;
}

export class LaneSender implements DeltaSink {
  readonly #ports: LaneSenderPorts;
  readonly #options: LaneSenderOptions;
  readonly #signal: AbortSignal;
  readonly #lanes: readonly Lane[];
  #bufferedItems = 0;
  #bufferedBytes = 0;
  #lingering: Lingering | undefined;
  #ownLinger = false;
  #pumping = false;
  #lastItemMs = Number.NEGATIVE_INFINITY;
  readonly #flow = new FlowMeter();
  #rv = "0";
  #sentRV = "0";
  #waiters: (() => void)[] = [];

  /** Sends until `signal` aborts; what is then unsent is dropped, and a successor reads it again from min W. */
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
    });
    this.#lanes = Array.from({ length: options.lanes }, (_, number) => lane(number));
    signal.addEventListener("abort", () => this.#wake());
  }

  /** The queue has everything at or below this. */
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

  listed(item: SinkItem, listRV: string, generation: number): void {
    this.#put("L", generation, listRV, item);
  }

  /** Reads the rows twice, so that no more than a part per lane is held at a time. */
  manifest(listRV: string, rows: Iterable<ManifestRow>, generation: number): void {
    const parts = this.#lanes.map((lane) => {
      this.#close(lane);
      return { lane, rows: 0, sent: 0, of: 1, texts: [] as string[] };
    });
    for (const { key } of rows) {
      const part = parts[laneOf(key, parts.length)];
      if (part) part.of = Math.max(1, Math.ceil(++part.rows / MANIFEST_ROWS_MAX));
    }
    const send = (part: (typeof parts)[number]): void => {
      this.#enqueue(
        part.lane,
        `"g":${generation},"k":"M","L":"${listRV}","part":${++part.sent},"parts":${part.of},"rows":[${part.texts.join(",")}]`,
        0,
      );
      part.texts = [];
    };
    for (const row of rows) {
      const part = parts[laneOf(row.key, parts.length)];
      part?.texts.push(JSON.stringify(row));
      if (part?.texts.length === MANIFEST_ROWS_MAX) send(part);
    }
    for (const part of parts) if (part.sent < part.of) send(part);
    this.#rv = listRV;
  }

  watermark(rv: string): void {
    this.#rv = rv;
    for (const lane of this.#lanes) this.#mark(lane);
  }

  /** Proves to the gate that watcher and applier live: a watermark on each lane that has been silent for 15 s. */
  heartbeat(): void {
    const now = this.#ports.clock.now();
    for (const lane of this.#lanes) if (now - lane.lastEnqueuedMs >= HEARTBEAT_MS) this.#mark(lane);
  }

  async room(signal: AbortSignal): Promise<void> {
    while (
      !signal.aborted &&
      !this.#signal.aborted &&
      (this.#bufferedItems > BUFFER_DELTAS_MAX || this.#bufferedBytes > BUFFER_BYTES_MAX)
    ) {
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
  }

  #put(kind: "D" | "L", generation: number, listRV: string | undefined, item: SinkItem): void {
    const lane = this.#lanes[laneOf(item.key, this.#lanes.length)];
    if (!lane) return;
    const text = itemText(item);
    if (lane.open && (lane.open.kind !== kind || lane.open.generation !== generation)) this.#close(lane);
    const place = lane.open?.places.get(item.key);
    if (lane.open && place) {
      const bytes = lane.open.bytes + text.length - (lane.open.items[place.index]?.length ?? 0);
      if (place.uid === item.uid && place.type !== "D" && item.type !== "D" && bytes <= PACK_BYTES_MAX) {
        lane.open.bytes = bytes;
        lane.open.items[place.index] = text;
        this.#wait(lane.open, item);
        return;
      }
      this.#close(lane); // LS4, or it has grown too large; and a call of the applier takes a key once
    }
    if (lane.open && lane.open.bytes + text.length > PACK_BYTES_MAX) this.#close(lane);
    lane.open ??= { kind, generation, listRV, items: [], places: new Map(), bytes: 0, isNews: false };
    lane.open.places.set(item.key, { index: lane.open.items.length, uid: item.uid, type: item.type });
    lane.open.items.push(text);
    lane.open.bytes += text.length;
    this.#bufferedItems++;
    if (lane.open.items.length >= PACK_ITEMS_MAX || lane.open.bytes >= PACK_BYTES_MAX) this.#close(lane);
    else this.#wait(lane.open, item);
  }

  /** A list is known once it is whole: its packs leave when they are full, or with the manifest. */
  #wait(pack: Pack, { isOwn }: SinkItem): void {
    if (pack.kind === "L") return;
    pack.isNews ||= isOwn !== true || this.#options.knowsOwn === false;
    if (pack.isNews) this.#linger();
    else this.#lingerOwn();
  }

  /** One timer for all lanes, from the first that waits. */
  #lingerOwn(): void {
    if (this.#ownLinger) return;
    this.#ownLinger = true;
    void this.#ports.clock.after(ownLingerMs(this.#ports.clock.now(), this.#options.lingerMs), this.#signal).then(
      () => {
        this.#ownLinger = false;
        this.#leave(this.#lanes.filter(({ open }) => open?.kind === "D"));
      },
      () => undefined, // the stream ended
    );
  }

  #linger(): void {
    const nowMs = this.#ports.clock.now();
    const isFlow = this.#flow.came(nowMs);
    this.#lastItemMs = nowMs;
    if (this.#lingering) {
      this.#lingering.items++;
      return;
    }
    this.#lingering = { sinceMs: nowMs, isFlow, items: 1 };
    this.#lingerOn(this.#lingering);
  }

  /** One timer for all lanes, set again while company keeps coming (linger.ts). */
  #lingerOn(lingering: Lingering): void {
    const nowMs = this.#ports.clock.now();
    const { sinceMs, isFlow, items } = lingering;
    const live = this.#lanes.filter(({ open }) => open?.kind === "D" && open.isNews);
    const waitMs = lingerMs(
      { items, packs: live.length, ageMs: nowMs - sinceMs, quietMs: nowMs - this.#lastItemMs, isFlow },
      this.#options.lingerMs,
    );
    if (waitMs > 0) {
      void this.#ports.clock.after(waitMs, this.#signal).then(
        () => this.#lingerOn(lingering),
        () => undefined, // the stream ended
      );
      return;
    }
    this.#lingering = undefined;
    this.#leave(live);
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
    this.#enqueue(lane, `"g":${pack.generation},"k":"${pack.kind}",${list}"items":[${pack.items.join(",")}]`, pack.items.length);
  }

  #mark(lane: Lane): void {
    this.#close(lane);
    this.#enqueue(lane, `"g":0,"k":"W","rv":"${this.#rv}"`, 0);
  }

  #enqueue(lane: Lane, fields: string, items: number): void {
    const { cluster, resource, epoch, fence } = this.#options;
    const sequence = ++lane.sequence;
    const group = `${cluster}.${resource}.${lane.number}`;
    const now = this.#ports.clock.now();
    const payload = encodePackText(
      `{"v":${ENVELOPE_VERSION},"c":"${cluster}","r":"${resource}","e":"${epoch}","f":"${fence}","ln":${lane.number},"sq":${sequence},"ts":${now},${fields}}`,
    );
    const body = signBody(this.#ports.signer, cluster, payload);
    const bytes = Buffer.byteLength(body);
    lane.waiting.push({ entry: { group, id: `${group}-${epoch}-${fence}-${sequence}`, body }, items, bytes });
    lane.lastEnqueuedMs = now;
    this.#bufferedBytes += bytes;
    this.#pump();
  }

  /** Once whoever enqueues has done so for all lanes: calls with what waits, until no free lane has anything left. */
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
    const failed = new Set(
      await this.#trySend([...batch].flatMap(([lane, count]) => lane.waiting.slice(0, count).map(({ entry }) => entry))),
    );
    for (const [lane, count] of batch) {
      const done = lane.waiting.splice(0, count);
      const kept = done.filter(({ entry }) => failed.has(entry.id));
      lane.waiting.unshift(...kept);
      for (const { entry, items, bytes } of done) {
        if (failed.has(entry.id)) continue;
        this.#bufferedItems -= items;
        this.#bufferedBytes -= bytes;
      }
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

  /** Ids that are not in the queue. An answer that never came counts as none sent: the same ids go again (T28). */
  async #trySend(batch: readonly QueueEntry[]): Promise<readonly string[]> {
    try {
      const { failed } = await this.#ports.queue.send(batch);
      for (const { id, reason } of failed) this.#ports.log.warn("message not sent, it is sent again", { id, reason });
      return failed.map(({ id }) => id);
    } catch (error) {
      this.#ports.log.warn("batch not sent, it is sent again", {
        resource: this.#options.resource,
        messages: batch.length,
        error: describeError(error),
      });
      return batch.map(({ id }) => id);
    }
  }

  #wake(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const resolve of waiters) resolve();
  }
}

function itemText(item: SinkItem): string {
  const head = `{"t":"${item.type}","key":${JSON.stringify(item.key)},"uid":${JSON.stringify(item.uid)},"rv":"${item.rv}"`;
  const object = JSON.stringify(item.object);
  return object.length > ITEM_BYTES_MAX ? `${head},"tooBig":true}` : `${head},"o":${object}}`;
}

/** How many messages of each lane go into the next call: one of each first, so that none waits for another's backlog. */
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
