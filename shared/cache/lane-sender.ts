/**
 * From deltas to messages: packs per lane, numbers them and sends them (informer §10.3–§10.5).
 *
 * S1 a message holds one lane's items of one kind and generation, in the order they came; its sequence has no holes.
 * S2 one send is in flight per lane, of consecutive messages; what failed is sent again under the same id before anything
 *    later of that lane.
 * S3 a watermark or heartbeat closes the open pack first, so it never claims what has not been handed over.
 * S4 within an open pack a newer state of the same uid replaces the older one; a delete or another uid never does.
 * S5 nothing is given up: a send is repeated until it succeeds or the stream ends.
 */
import { laneOf } from "../api/lane.ts";
import type { CachedResource, ObjectKey } from "../api/resources.ts";
import type { Clock } from "../ports/clock.ts";
import type { DeltaQueue, QueueEntry } from "../ports/delta-queue.ts";
import type { Log } from "../ports/log.ts";
import type { Random } from "../ports/random.ts";
import type { ManifestRow } from "../ports/store.ts";
import { FRESH_BACKOFF, stepBackoff } from "./backoff.ts";
import type { DeltaSink, SinkItem } from "./delta-sink.ts";
import { ENVELOPE_VERSION } from "./envelope.ts";
import { encodePackText } from "./pack-codec.ts";

export interface LaneSenderOptions {
  readonly cluster: string;
  readonly resource: CachedResource;
  readonly lanes: number;
  readonly epoch: string;
  readonly fence: string;
}

export interface LaneSenderPorts {
  readonly queue: DeltaQueue;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

/** An item above this travels without its object; the applier reads it live. */
const ITEM_BYTES_MAX = 900 * 1024;
const PACK_BYTES_MAX = 200 * 1024;
/** As many as one `apply` call takes. */
const PACK_ITEMS_MAX = 100;
const LINGER_MS = 10;
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
  readonly items: string[];
  readonly places: Map<ObjectKey, { readonly index: number; readonly uid: string; readonly type: SinkItem["type"] }>;
  bytes: number;
}

interface Lane {
  readonly number: number;
  sequence: number;
  open: Pack | undefined;
  readonly waiting: { readonly entry: QueueEntry; readonly items: number }[];
  sending: boolean;
  lastEnqueuedMs: number;
}

export class LaneSender implements DeltaSink {
  readonly #ports: LaneSenderPorts;
  readonly #options: LaneSenderOptions;
  readonly #signal: AbortSignal;
  readonly #lanes: readonly Lane[];
  #bufferedItems = 0;
  #bufferedBytes = 0;
  #lingering = false;
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
      waiting: [],
      sending: false,
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
    this.#put("D", 0, item);
  }

  listed(item: SinkItem, generation: number): void {
    this.#put("L", generation, item);
  }

  manifest(listRV: string, rows: readonly ManifestRow[], generation: number): void {
    const byLane = this.#lanes.map((): ManifestRow[] => []);
    for (const row of rows) byLane[laneOf(row.key, this.#lanes.length)]?.push(row);
    this.#lanes.forEach((lane, number) => {
      this.#close(lane);
      const own = byLane[number] ?? [];
      const parts = Math.max(1, Math.ceil(own.length / MANIFEST_ROWS_MAX));
      for (let part = 1; part <= parts; part++) {
        const slice = own.slice((part - 1) * MANIFEST_ROWS_MAX, part * MANIFEST_ROWS_MAX);
        this.#enqueue(lane, `"g":${generation},"k":"M","L":"${listRV}","part":${part},"parts":${parts},"rows":${JSON.stringify(slice)}`, 0);
      }
    });
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

  #put(kind: "D" | "L", generation: number, item: SinkItem): void {
    const lane = this.#lanes[laneOf(item.key, this.#lanes.length)];
    if (!lane) return;
    const text = itemText(item);
    if (lane.open && (lane.open.kind !== kind || lane.open.generation !== generation)) this.#close(lane);
    const place = lane.open?.places.get(item.key);
    if (lane.open && place) {
      if (place.uid === item.uid && place.type !== "D" && item.type !== "D") {
        lane.open.bytes += text.length - (lane.open.items[place.index]?.length ?? 0);
        lane.open.items[place.index] = text;
        return;
      }
      this.#close(lane); // S4; and a call of the applier takes a key once
    }
    if (lane.open && lane.open.bytes + text.length > PACK_BYTES_MAX) this.#close(lane);
    lane.open ??= { kind, generation, items: [], places: new Map(), bytes: 0 };
    lane.open.places.set(item.key, { index: lane.open.items.length, uid: item.uid, type: item.type });
    lane.open.items.push(text);
    lane.open.bytes += text.length;
    this.#bufferedItems++;
    if (lane.open.items.length >= PACK_ITEMS_MAX || lane.open.bytes >= PACK_BYTES_MAX) this.#close(lane);
    else this.#linger();
  }

  /** One timer for all lanes: packs wait up to 10 ms for company. */
  #linger(): void {
    if (this.#lingering) return;
    this.#lingering = true;
    void this.#ports.clock.after(LINGER_MS, this.#signal).then(
      () => {
        this.#lingering = false;
        for (const lane of this.#lanes) this.#close(lane);
      },
      () => undefined, // the stream ended
    );
  }

  #close(lane: Lane): void {
    const pack = lane.open;
    if (!pack) return;
    lane.open = undefined;
    this.#enqueue(lane, `"g":${pack.generation},"k":"${pack.kind}","items":[${pack.items.join(",")}]`, pack.items.length);
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
    const body = encodePackText(
      `{"v":${ENVELOPE_VERSION},"c":"${cluster}","r":"${resource}","e":"${epoch}","f":"${fence}","ln":${lane.number},"sq":${sequence},"ts":${now},${fields}}`,
    );
    lane.waiting.push({ entry: { group, id: `${group}-${epoch}-${fence}-${sequence}`, body }, items });
    lane.lastEnqueuedMs = now;
    this.#bufferedBytes += body.length;
    if (!lane.sending) void this.#send(lane);
  }

  async #send(lane: Lane): Promise<void> {
    lane.sending = true;
    let backoff = FRESH_BACKOFF;
    while (lane.waiting.length > 0 && !this.#signal.aborted) {
      const batch = nextBatch(lane.waiting.map(({ entry }) => entry));
      const failed = await this.#trySend(batch);
      const kept = new Set(failed);
      const done = lane.waiting.splice(0, batch.length);
      for (const { entry, items } of done) {
        if (kept.has(entry.id)) continue;
        this.#bufferedItems -= items;
        this.#bufferedBytes -= entry.body.length;
      }
      lane.waiting.unshift(...done.filter(({ entry }) => kept.has(entry.id)));
      if (failed.length > 0) {
        const [next, delayMs] = stepBackoff(backoff, this.#ports.clock.now(), this.#ports.random.next());
        backoff = next;
        await this.#ports.clock.after(delayMs, this.#signal).catch(() => undefined);
      }
      if (this.idle) this.#sentRV = this.#rv;
      this.#wake();
    }
    lane.sending = false;
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
        error: String(error),
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

/** The first messages that fit one SendMessageBatch; at least one. */
function nextBatch(waiting: readonly QueueEntry[]): readonly QueueEntry[] {
  let bytes = 0;
  const batch: QueueEntry[] = [];
  for (const entry of waiting) {
    bytes += Buffer.byteLength(entry.body);
    if (batch.length > 0 && (batch.length === BATCH_ENTRIES_MAX || bytes > BATCH_BYTES_MAX)) break;
    batch.push(entry);
  }
  return batch;
}
