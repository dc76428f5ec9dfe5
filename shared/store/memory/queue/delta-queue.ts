/** The delta queue in memory: an SQS FIFO queue for tests, replay and simulation, with only the guarantees of SQS. */
import type { Clock, Random } from "@deltaloop/base";
import type { DeltaQueue, MessageSource, QueueEntry, ReceivedMessage, SendResult } from "../../ports/delta-queue.ts";
import { UnansweredError } from "@deltaloop/kube/client";
import { createMemoryQueue } from "./queue.ts";
import type { QueueFaults, QueueOptions } from "./queue.ts";

export interface DeltaQueueFaults extends QueueFaults {
  /** Probability that `send` reports an entry as failed, but not permanently. */
  readonly refuse?: number;
  /** Probability that the call fails although every entry was accepted. */
  readonly unanswered?: number;
}

export interface MemoryDeltaQueueOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Default 30 s. */
  readonly visibilityMs?: number;
  /** Default 1,000. */
  readonly maxReceiveCount?: number;
  /** Evaluated at each use, so that a simulation may switch faults on and off; none by default. */
  readonly faults?: () => DeltaQueueFaults;
  /** Called for each message that is repeated, delayed or lost. */
  readonly onFault?: QueueOptions["onFault"];
}

export interface MemoryDeltaQueue extends DeltaQueue, MessageSource {
  /** Messages that are neither removed nor dead; `where` selects some by their bodies. */
  size(where?: (body: string) => boolean): number;
  deadLetters(): readonly ReceivedMessage[];
}

const VISIBILITY_MS = 30_000;
const RECEIVE_COUNT_MAX = 1_000;
const ENTRIES_MAX = 10;
/** Limit of the bodies of a message, and of a call. */
const BYTES_MAX = 1024 * 1024;
const ID_LENGTH_MAX = 128;

export function createMemoryDeltaQueue(options: MemoryDeltaQueueOptions): MemoryDeltaQueue {
  const {
    clock,
    random,
    faults = (): DeltaQueueFaults => ({}),
    onFault,
    visibilityMs = VISIBILITY_MS,
    maxReceiveCount = RECEIVE_COUNT_MAX,
  } = options;
  const queue = createMemoryQueue({ clock, random, visibilityMs, maxReceiveCount, faults, ...(onFault && { onFault }) });
  return {
    ...queue,
    async send(entries) {
      const { refuse = 0, unanswered = 0 } = faults();
      const failed: SendResult["failed"][number][] = [];
      for (const entry of asOneCall(entries)) {
        const tooLarge = bytes(entry) > BYTES_MAX;
        const refused = !tooLarge && refuse > 0 && random.next() < refuse;
        if (tooLarge) failed.push({ id: entry.id, reason: `over ${BYTES_MAX} bytes`, permanent: true });
        else if (refused) failed.push({ id: entry.id, reason: "throttled", permanent: false });
        else queue.put(entry);
      }
      if (unanswered > 0 && random.next() < unanswered) throw new UnansweredError("no response from the queue");
      return { failed };
    },
  };
}

/** Returns the entries of a call. @throws {RangeError} for a call that SQS would reject as a whole, which is a bug of the caller */
function asOneCall(entries: readonly QueueEntry[]): readonly QueueEntry[] {
  if (entries.length > ENTRIES_MAX) throw new RangeError(`the call has ${entries.length} entries, more than allowed`);
  if (new Set(entries.map((entry) => entry.id)).size !== entries.length) throw new RangeError("two entries of one call have the same id");
  const long = entries.find((entry) => entry.id.length > ID_LENGTH_MAX || entry.group.length > ID_LENGTH_MAX);
  if (long) throw new RangeError(`id or group is longer than ${ID_LENGTH_MAX} characters: ${long.id}`);
  const sendable = entries.filter((entry) => bytes(entry) <= BYTES_MAX);
  const total = sendable.reduce((sum, entry) => sum + bytes(entry), 0);
  if (total > BYTES_MAX) throw new RangeError(`the call has ${total} bytes, more than allowed`);
  return entries;
}

function bytes(entry: QueueEntry): number {
  return Buffer.byteLength(entry.body);
}
