/**
 * Routes the records of one function to the handlers of the clusters that they are for. Each cluster has handlers of its own, with its own
 * credentials, Store and keys, exactly as if it were the only one.
 *
 * RO1 a record reaches a cluster's handler only if that cluster's key has signed it. The handler of a delta verifies its MAC itself.
 * RO2 records of unknown clusters are acknowledged, after the directory was read again: the cluster may be new.
 * RO4 heartbeats of several clusters in one message reach the handlers of their clusters; the message is acknowledged whatever they answer.
 * RO3 a cluster has at most `share` invocations at once; further doorbells return to the queue for a second. So one whose API server hangs
 *     does not hold all invocations.
 */
import type { SQSBatchResponse, SQSRecord } from "aws-lambda";

import type { Log } from "@deltaloop/base";
import { isHeartbeats, joinHeartbeats, splitHeartbeats } from "@deltaloop/controllers/cache";
import type { SqsHandler } from "@deltaloop/controllers/lambda";
import type { LoadKind } from "./cluster-load.ts";
import { doorbellParts } from "@deltaloop/store/ports";
import type { DoorbellMessage, Signer } from "@deltaloop/store/ports";

/** One function of one cluster. */
export interface ClusterFunction {
  readonly handler: SqsHandler;
  readonly signer: Pick<Signer, "verify">;
}

export interface RouterPorts {
  /** The kind of the records. */
  readonly records: "deltas" | "doorbells";
  /** Returns undefined for a cluster that this function does not serve. */
  readonly functionOf: (cid: string) => ClusterFunction | undefined;
  /** Reads the directory again, and waits until the functions of the cluster are open if it is listed. */
  readonly refresh: (cid: string) => Promise<unknown>;
  /** Maximum number of concurrent invocations for one cluster. */
  readonly share: number;
  /** Sends doorbells of a cluster again with a delay. */
  readonly postpone: (cid: string, bodies: readonly string[]) => Promise<void>;
  /** Called for each cluster that is served. */
  readonly onLoad?: (cid: string, kind: LoadKind, by: number) => void;
  readonly log: Pick<Log, "error" | "warn">;
}

const CID = /^[0-9a-f]{32}$/;

export function routeRecords({ records, functionOf, refresh, share, postpone, onLoad, log }: RouterPorts): SqsHandler {
  const running = new Map<string, number>();
  const claimedBy = records === "deltas" ? claimOfDelta : claimOfDoorbell;

  async function invoke(cid: string, own: readonly SQSRecord[], context: Parameters<SqsHandler>[1]): Promise<readonly string[]> {
    let target = functionOf(cid);
    if (target === undefined && cid !== "") {
      await refresh(cid); // RO2
      target = functionOf(cid);
    }
    const authentic = target === undefined ? [] : own.filter((record) => records === "deltas" || isSigned(record.body, target.signer));
    if (authentic.length < own.length)
      log.warn("messages of a cluster that is not served, or without its signature; acknowledging them", {
        cluster: cid,
        count: own.length - authentic.length,
      });
    if (target === undefined || authentic.length === 0) return [];
    const busy = running.get(cid) ?? 0;
    if (records === "doorbells" && busy >= share) {
      onLoad?.(cid, "postponed", authentic.length);
      await postpone(
        cid,
        authentic.map(({ body }) => body),
      );
      return [];
    }
    running.set(cid, busy + 1);
    onLoad?.(cid, "invocations", 1);
    try {
      const answer = await target.handler({ Records: [...authentic] }, context);
      const failed = (answer?.batchItemFailures ?? []).map(({ itemIdentifier }) => itemIdentifier);
      if (failed.length > 0) onLoad?.(cid, "failures", failed.length);
      return failed;
    } finally {
      const left = (running.get(cid) ?? 1) - 1;
      if (left === 0) running.delete(cid);
      else running.set(cid, left);
    }
  }

  /** RO4. A line of a cluster that is not served yet is dropped: its next heartbeat follows. */
  async function beat(record: SQSRecord, context: Parameters<SqsHandler>[1]): Promise<void> {
    const byCluster = Map.groupBy(splitHeartbeats(record.body), (line) => claimOfDelta(line) ?? "");
    await Promise.all(
      [...byCluster].map(async ([cid, lines]) => {
        const { MessageGroupId: _, ...attributes } = record.attributes;
        const own = { ...record, attributes, body: joinHeartbeats(lines) };
        await functionOf(cid)
          ?.handler({ Records: [own] }, context)
          ?.catch((error: unknown) =>
            log.warn("failed to apply a heartbeat; the next one follows", { cluster: cid, error: String(error) }),
          );
      }),
    );
  }

  return async ({ Records: all }, context): Promise<SQSBatchResponse> => {
    const beats = records === "deltas" ? all.filter(({ body }) => isHeartbeats(body)) : [];
    const Records = beats.length === 0 ? all : all.filter((record) => !beats.includes(record));
    const beaten = beats.map(async (record) => await beat(record, context));
    const byCluster = Map.groupBy(Records, ({ body }) => claimedBy(body) ?? "");
    const failed = await Promise.all(
      [...byCluster].map(async ([cid, own]) => {
        try {
          return await invoke(cid, own, context);
        } catch (error) {
          log.error("failed to process a cluster's records; they are redelivered", { cluster: cid, error: String(error) });
          onLoad?.(cid, "failures", own.length);
          return own.map(({ messageId }) => messageId);
        }
      }),
    );
    await Promise.all(beaten);
    return { batchItemFailures: failed.flat().map((itemIdentifier) => ({ itemIdentifier })) };
  };
}

/** The cluster that a delta claims to be of: the beginning of its frame. */
function claimOfDelta(body: string): string | undefined {
  const [cid = ""] = body.slice(0, 33).split(".");
  return CID.test(cid) ? cid : undefined;
}

/** The cluster that a doorbell claims to be of. */
export function claimOfDoorbell(body: string): string | undefined {
  const cid = parsed(body)?.c;
  return typeof cid === "string" && CID.test(cid) ? cid : undefined;
}

/** Whether the doorbell is signed with the cluster's key (RO1). */
function isSigned(body: string, signer: Pick<Signer, "verify">): boolean {
  const message = parsed(body);
  if (message === undefined) return false;
  const { c, ctl, e, k, u, o, m } = message;
  const texts = [c, ctl, e, k, u ?? "", o ?? "", m];
  if (!texts.every((text) => typeof text === "string")) return false;
  const bell = message as DoorbellMessage; // each field is a text
  const verdict = signer.verify("d", doorbellParts(bell), bell.m ?? "");
  return verdict === "current" || verdict === "former";
}

function parsed(body: string): { readonly [F in keyof DoorbellMessage]?: unknown } | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
