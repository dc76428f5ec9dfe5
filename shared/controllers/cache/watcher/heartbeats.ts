/**
 * Sends the heartbeats of all clusters of a process together (informer §10.8).
 *
 * HT1 a heartbeat waits at most BATCH_MS for those of other clusters.
 * HT2 one whose leader has lost its Lease meanwhile is not sent.
 * HT3 a failed message is not sent again: each cluster's next heartbeat follows in 15 s, and a gate closes after 60 s.
 */
import { describeError } from "@deltaloop/kube/client";
import type { DeltaQueue } from "@deltaloop/store/ports";
import type { Clock, Log, Random } from "@deltaloop/base";
import { joinHeartbeats } from "../messages/heartbeats.ts";

export interface Heartbeats {
  /** `line`: of one cluster. `isCurrent`: whether it may still be sent. */
  add(line: string, isCurrent: () => boolean): void;
}

const BATCH_MS = 5_000;
/** Some 40 KiB. */
const LINES_MAX = 100;

export function createHeartbeats(ports: {
  readonly queue: DeltaQueue;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}): Heartbeats {
  const { queue, clock, random, log } = ports;
  const group = `heartbeats.${Math.floor(random.next() * 2 ** 48).toString(36)}`;
  let waiting: { readonly line: string; readonly isCurrent: () => boolean }[] = [];
  let messages = 0;

  async function send(): Promise<void> {
    const lines = waiting.filter(({ isCurrent }) => isCurrent()).map(({ line }) => line);
    waiting = [];
    if (lines.length === 0) return;
    const id = `${group}-${++messages}`;
    try {
      const { failed } = await queue.send([{ group, id, body: joinHeartbeats(lines) }]);
      if (failed[0]) log.warn("heartbeats not sent; the next ones follow", { clusters: lines.length, reason: failed[0].reason });
    } catch (error) {
      log.warn("heartbeats not sent; the next ones follow", { clusters: lines.length, reason: describeError(error) });
    }
  }

  return {
    add(line, isCurrent) {
      waiting.push({ line, isCurrent });
      if (waiting.length === 1) {
        const first = waiting;
        void clock.after(BATCH_MS).then(() => (waiting === first ? send() : undefined));
      }
      if (waiting.length >= LINES_MAX) void send();
    },
  };
}
