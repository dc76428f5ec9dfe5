/**
 * Applies the heartbeats of one message (informer §10.8).
 *
 * AH1 the message is acknowledged whatever happens: a heartbeat that fails is followed by the cluster's next one, and one cluster's failure
 *     delays no other.
 * AH2 of the lines without a valid signature, the first of a message is reported.
 */
import { describeError } from "@deltaloop/kube/client";
import type { Signer, Store } from "@deltaloop/store/ports";
import type { CacheRegistry } from "./cache-registry.ts";
import { reportForgery } from "./messages/forgery.ts";
import type { ForgeryPorts } from "./messages/forgery.ts";
import { openHeartbeat, splitHeartbeats } from "./messages/heartbeats.ts";
import type { Forged } from "./messages/signed-body.ts";
import { withRenewedKeys } from "./messages/signed-body.ts";

/** More than a watcher sends. */
const LINES_MAX = 1_000;

interface Ports extends ForgeryPorts {
  readonly cluster: (
    cid: string | undefined,
  ) => { readonly store: Pick<Store, "heartbeat" | "noteForgery">; readonly signer: Signer } | undefined;
  readonly registry: Pick<CacheRegistry, "catalog">;
  /** Reads the MAC keys again. Returns whether they changed. */
  readonly renewKeys?: () => Promise<boolean>;
}

/** Never rejects. */
export async function applyHeartbeats(ports: Ports, message: { readonly id: string; readonly body: string }): Promise<void> {
  const lines = splitHeartbeats(message.body).slice(0, LINES_MAX);
  const forged = await Promise.all(lines.map(async (line) => ({ line, forged: await applyLine(ports, line) })));
  const first = forged.find((each) => each.forged);
  if (first?.forged) await reportForgery(ports, { id: message.id, body: first.line, where: "delta queue" }, first.forged);
}

async function applyLine({ cluster, registry, log, renewKeys }: Ports, line: string): Promise<Forged | undefined> {
  try {
    const opened = await withRenewedKeys(() => openHeartbeat(line, (cid) => cluster(cid)?.signer, registry.catalog), renewKeys);
    if (opened.kind === "forged") return opened;
    if (opened.kind === "unreadable") {
      log.warn("heartbeat of another build", { cluster: opened.cluster, why: opened.why });
      return undefined;
    }
    const result = await cluster(opened.cluster)?.store.heartbeat(opened.heartbeat);
    if (result?.kind === "applied" && result.ahead.length > 0)
      log.warn("messages before a heartbeat are missing", {
        cluster: opened.cluster,
        lanes: result.ahead.map(({ resource, lane }) => `${resource} ${lane}`).join(", "),
      });
  } catch (error) {
    log.warn("failed to apply a heartbeat; the next one follows", { error: describeError(error) });
  }
  return undefined;
}
