/** What is done about a message that nobody who holds a key of ours has made (design decision 15). */
import type { Clock, Log } from "@deltaloop/base";
import { describeError } from "@deltaloop/kube/client";
import type { Store } from "@deltaloop/store/ports";
import type { Forged } from "./signed-body.ts";

export interface ForgeryPorts {
  readonly cluster: (cid: string) => { readonly store: Pick<Store, "noteForgery"> } | undefined;
  /** All that are configured. */
  readonly clusters: readonly string[];
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Says so and keeps the message's id: with the cluster that the message claims, or with all when it claims none of ours. Never
 * rejects: whoever forges a message must not bring it back, so the log has to do while the Store is away.
 */
export async function reportForgery(
  { cluster, clusters, clock, log }: ForgeryPorts,
  message: { readonly id: string; readonly body: string; readonly where: string },
  { why, cluster: claimed }: Forged,
): Promise<void> {
  const { id: messageId, where } = message;
  const entry = { messageId, where, why, bytes: Buffer.byteLength(message.body) };
  log.error("forged message", { ...entry, claimed });
  for (const cid of claimed === undefined ? clusters : [claimed]) {
    try {
      await cluster(cid)?.store.noteForgery({ ...entry, atMs: clock.now() });
    } catch (error) {
      log.warn("forgery not kept, the Store is out of reach", { messageId, error: describeError(error) });
    }
  }
}
