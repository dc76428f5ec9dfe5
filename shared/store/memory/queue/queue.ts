/**
 * A message queue in memory with the weak guarantees of SQS and its emulators, and optional faults.
 *
 * MQ1 at most one message of a group is in flight, and one receive returns at most one of each group.
 * MQ2 ids are remembered for five minutes in the whole queue, including those of lost or removed messages.
 * MQ3 a receipt is valid until its visibility ends or the message is received again.
 */
import type { Clock, Random } from "@deltaloop/base";
import type { MessageSource, ReceivedMessage } from "../../ports/delta-queue.ts";

/** Probabilities from 0 to 1, all 0 unless given. */
export interface QueueFaults {
  /** A receive returns any message of a group instead of the oldest. */
  readonly reorder?: number;
  /** A message is delivered twice, the second time up to `delayMsMax` later. */
  readonly duplicate?: number;
  /** A message is delivered up to `delayMsMax` later. */
  readonly delay?: number;
  /** An accepted message is lost. */
  readonly drop?: number;
  /** Default 10 s. */
  readonly delayMsMax?: number;
}

export interface QueueOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly visibilityMs: number;
  /** A message that is received more often than this moves to the dead-letter queue. */
  readonly maxReceiveCount: number;
  /** Evaluated for each message, so that a simulation may switch faults on and off. */
  readonly faults?: () => QueueFaults;
  /** Called for each message that is repeated, delayed or lost. */
  readonly onFault?: (fault: keyof QueueFaults) => void;
}

export interface NewMessage {
  readonly body: string;
  readonly delayMs?: number;
  /** The message group of a FIFO queue, within which order and exclusion apply. */
  readonly group?: string;
  /** The de-duplication id of a FIFO queue, which drops a repeated message. */
  readonly id?: string;
}

export interface MemoryQueue extends MessageSource {
  put(message: NewMessage): void;
  /** Messages that are neither removed nor dead-lettered; `where` selects some by their bodies. */
  size(where?: (body: string) => boolean): number;
  deadLetters(): readonly ReceivedMessage[];
}

interface Stored {
  readonly messageId: string;
  readonly body: string;
  readonly group: string | undefined;
  readonly sentAtMs: number;
  visibleAtMs: number;
  receiveCount: number;
  /** The receipt while the message is in flight; empty otherwise. */
  receipt: string;
}

const DEDUPLICATION_MS = 300_000;
const DELAY_MS_MAX = 10_000;
const RECEIVE_MAX = 10;

export function createMemoryQueue({ clock, random, ...options }: QueueOptions): MemoryQueue {
  let messages: Stored[] = []; // in send order
  const dead: ReceivedMessage[] = [];
  const seen = new Map<string, number>();
  const waiting = new Set<() => void>();
  let numbers = 0;

  const chance = (probability: number | undefined): boolean => probability !== undefined && probability > 0 && random.next() < probability;
  const strikes = (fault: "duplicate" | "delay" | "drop", probability: number | undefined): boolean => {
    const isHit = chance(probability);
    if (isHit) options.onFault?.(fault);
    return isHit;
  };
  const isOut = (message: Stored): boolean => message.receipt !== "" && message.visibleAtMs > clock.now();

  const isRepeat = (id: string): boolean => {
    const nowMs = clock.now();
    for (const [known, atMs] of seen) {
      if (nowMs - atMs < DEDUPLICATION_MS) break; // oldest first
      seen.delete(known);
    }
    if (seen.has(id)) return true;
    seen.set(id, nowMs);
    return false;
  };

  const store = (message: NewMessage, messageId: string, laterMs: number): void => {
    const sentAtMs = clock.now();
    messages.push({
      messageId,
      body: message.body,
      group: message.group,
      sentAtMs,
      visibleAtMs: sentAtMs + (message.delayMs ?? 0) + laterMs,
      receiveCount: 0,
      receipt: "",
    });
  };

  /** The oldest message of each group, unless it is in flight or delayed (MQ1). */
  const candidates = (): readonly Stored[] => {
    const nowMs = clock.now();
    const { reorder } = options.faults?.() ?? {};
    const loose: Stored[] = [];
    const groups = new Map<string, Stored[]>();
    for (const message of messages) {
      if (message.group === undefined) {
        if (message.visibleAtMs <= nowMs) loose.push(message);
        continue;
      }
      const group = groups.get(message.group);
      if (group) group.push(message);
      else groups.set(message.group, [message]);
    }
    const heads = [...groups.values()].flatMap((group) => {
      if (group.some(isOut)) return [];
      const ready = group.filter((message) => message.visibleAtMs <= nowMs);
      const [oldest] = chance(reorder) ? [ready[Math.floor(random.next() * ready.length)]] : group;
      return oldest && oldest.visibleAtMs <= nowMs ? [oldest] : [];
    });
    return shuffle([...loose, ...heads], chance(reorder), random);
  };

  const take = (max: number): readonly ReceivedMessage[] => {
    const batch: ReceivedMessage[] = [];
    for (const message of candidates()) {
      if (batch.length >= Math.min(max, RECEIVE_MAX)) break;
      if (message.receiveCount >= options.maxReceiveCount) {
        messages = messages.filter((each) => each !== message);
        dead.push(received(message));
        continue;
      }
      message.receiveCount++;
      message.visibleAtMs = clock.now() + options.visibilityMs;
      message.receipt = `receipt-${++numbers}`;
      batch.push(received(message));
    }
    return batch;
  };

  const outWith = (receipts: readonly string[]): readonly Stored[] =>
    messages.filter((message) => isOut(message) && receipts.includes(message.receipt));

  /** Resolves when a message is sent or becomes visible, or after `ms`. */
  const change = async (ms: number, signal: AbortSignal | undefined): Promise<void> => {
    const wake = new AbortController();
    const onChange = (): void => wake.abort("changed"); // the reason avoids the exception with a stack that abort() would create
    waiting.add(onChange);
    signal?.addEventListener("abort", onChange, { once: true });
    try {
      await clock.after(ms, wake.signal).catch(() => undefined); // an early abort has the same result
    } finally {
      waiting.delete(onChange);
      signal?.removeEventListener("abort", onChange);
    }
    signal?.throwIfAborted();
  };
  const wakeAll = (): void => {
    for (const onChange of [...waiting]) onChange();
  };

  return {
    put(message) {
      if (message.id !== undefined && isRepeat(message.id)) return;
      const { delay, duplicate, drop, delayMsMax = DELAY_MS_MAX } = options.faults?.() ?? {};
      const later = (): number => Math.floor(random.next() * delayMsMax);
      const messageId = `message-${++numbers}`;
      if (strikes("drop", drop)) return;
      store(message, messageId, strikes("delay", delay) ? later() : 0);
      if (strikes("duplicate", duplicate)) store(message, messageId, later());
      wakeAll();
    },

    async receive({ max, waitMs, signal }) {
      signal?.throwIfAborted();
      const untilMs = clock.now() + waitMs;
      for (;;) {
        const batch = take(max);
        const nowMs = clock.now();
        if (batch.length > 0 || nowMs >= untilMs) return batch;
        const nextMs = messages.reduce((least, { visibleAtMs }) => (visibleAtMs > nowMs ? Math.min(least, visibleAtMs) : least), untilMs);
        await change(nextMs - nowMs, signal);
      }
    },

    async remove(receipts) {
      const gone = outWith(receipts);
      messages = messages.filter((message) => !gone.includes(message));
      wakeAll();
    },

    async setVisibility(receipts, seconds) {
      for (const message of outWith(receipts)) message.visibleAtMs = clock.now() + seconds * 1_000;
      wakeAll();
    },

    size: (where) => (where ? messages.filter(({ body }) => where(body)).length : messages.length),
    deadLetters: () => [...dead],
  };
}

function received({ messageId, receipt, body, receiveCount, group, sentAtMs }: Stored): ReceivedMessage {
  return { messageId, receipt, body, receiveCount, sentAtMs, ...(group !== undefined && { group }) };
}

/** Returns `values`, in the order of a Fisher–Yates shuffle if `really` is true. */
function shuffle<T>(values: readonly T[], really: boolean, random: Random): readonly T[] {
  if (!really) return values;
  const shuffled = [...values];
  for (let index = shuffled.length - 1; index > 0; index--) {
    const other = Math.floor(random.next() * (index + 1));
    // Both indices are within the array.
    [shuffled[index], shuffled[other]] = [shuffled[other] as T, shuffled[index] as T];
  }
  return shuffled;
}
