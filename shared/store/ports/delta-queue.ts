/**
 * The delta queue: watcher in, applier out. SQS FIFO in production.
 *
 * DQ1 a message that `send` accepted is delivered at least once, in any order, any number of times.
 * DQ2 order within a group is kept without failures; correctness does not depend on it.
 * DQ3 messages with different ids are distinct. Ids are unique in the whole queue, not only in their group: equal
 *      lane, fence and sequence of two resources are both delivered.
 * DQ4 a message whose id was accepted within the last five minutes may be dropped. So a message sent again must be the same, or a shorter
 *     form of one that was rejected permanently. A rejected message does not use up its id.
 * DQ5 `send` reports failed entries by id; the others are in the queue.
 * DQ6 a received message is hidden until its visibility ends, then returns with a greater `receiveCount`; `remove`
 *      deletes it; past `maxReceiveCount` it moves to the dead-letter queue.
 * DQ7 bodies pass byte for byte up to 1 MiB; a larger one fails by id and does not block others.
 */
export interface DeltaQueue {
  /** Sends at most 10 entries and 1 MiB in all, as SQS does. Rejects only if the result of every entry is unknown. */
  send(entries: readonly QueueEntry[]): Promise<SendResult>;
}

export interface QueueEntry {
  /** Message group: `<cid>.<resource>.<lane>`. */
  readonly group: string;
  /** De-duplication id, under 128 characters: `<group>-<epoch>-<fence>-<sequence>`. */
  readonly id: string;
  readonly body: string;
}

export interface SendResult {
  readonly failed: readonly {
    readonly id: string;
    readonly reason: string;
    /** Sending the same message again cannot succeed. */ readonly permanent: boolean;
  }[];
}

/** The consumer's end of a queue; in production Lambda's event source mapping, locally shared/local. */
export interface MessageSource {
  /** Waits up to `waitMs` for at least one message. At most 10 at a time. */
  receive(options: { readonly max: number; readonly waitMs: number; readonly signal?: AbortSignal }): Promise<readonly ReceivedMessage[]>;
  /** Unknown or outdated receipts are no error. */
  remove(receipts: readonly string[]): Promise<void>;
  setVisibility(receipts: readonly string[], seconds: number): Promise<void>;
}

export interface ReceivedMessage {
  readonly messageId: string;
  readonly receipt: string;
  readonly body: string;
  readonly receiveCount: number;
  /** FIFO queues only. */
  readonly group?: string;
  readonly sentAtMs: number;
}
