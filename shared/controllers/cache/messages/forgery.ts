/** Reports messages that were not signed with a key of this deployment (design decision 15). */
import type { Clock, Log } from "@deltaloop/base";
import { describeError } from "@deltaloop/kube/client";
import type { Store } from "@deltaloop/store/ports";
import type { Forged } from "./signed-body.ts";

export interface ForgeryPorts {
  readonly cluster: (cid: string) => { readonly store: Pick<Store, "noteForgery"> } | undefined;
  /** All configured clusters. */
  readonly clusters: readonly string[];
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Logs the forgery and stores the message's id for the cluster that the message names, or for all clusters if it names none. Never rejects,
 * so that a forged message is not redelivered; while the Store is unavailable, the log line is the only record.
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
      log.warn("failed to record the forged message: the Store is unreachable", { messageId, error: describeError(error) });
    }
  }
}
