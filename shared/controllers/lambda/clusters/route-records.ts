/**
 * Routes the records of one function to the handlers of the clusters that they are for. Each cluster has handlers of its own, with its own
 * credentials, Store and keys, exactly as if it were the only one.
 *
 * RO1 a record reaches a cluster's handler only if that cluster's key has signed it. The handler of a delta verifies its MAC itself.
 * RO2 records of clusters that are not in the directory, and doorbells of paused ones, are acknowledged: a cluster that returns is listed
 *     again. One line for each cluster and minute is logged.
 * RO3 a cluster has at most `share` invocations at once; further doorbells return to the queue for a second. So one whose API server hangs
 *     does not hold all invocations.
 * RO4 heartbeats of several clusters in one message reach the handlers of their clusters; the message is acknowledged whatever they answer.
 * RO5 doorbells of one cluster are handled in parallel. Their message group, which is the cluster, is for the fairness of SQS only.
 */
import type { SQSBatchResponse, SQSRecord } from "aws-lambda";

import type { Clock, Log } from "@deltaloop/base";
import { describeError } from "@deltaloop/kube/client";
import { doorbellParts } from "@deltaloop/store/ports";
import type { DoorbellMessage, MessageSource, Signer } from "@deltaloop/store/ports";
import { isHeartbeats, joinHeartbeats, splitHeartbeats } from "../../cache/messages/heartbeats.ts";
import { makeVisible, RETRY_SECONDS } from "../batch.ts";
import type { SqsHandler } from "../sqs-handler.ts";

/** One function of one cluster. */
export interface ClusterFunction {
  readonly handler: SqsHandler;
  readonly signer: Pick<Signer, "verify">;
}

/** Why records reach no handler. `forged`: no key of this deployment has signed them. */
export type NotServed = "missing" | "paused" | "forged";

/** What happened with a cluster's records, for metrics. `postponed`: doorbells that returned to the queue. */
export type LoadKind = "invocations" | "failures" | "postponed";

export interface RecordsOf {
  readonly kind: "deltas" | "doorbells" | "heartbeats";
  readonly bodies: readonly string[];
}

export interface RouterPorts {
  /** The kind of the records. */
  readonly records: "deltas" | "doorbells";
  /** The function of the cluster that `records` claim to be of. A rejection leaves them in the queue. */
  readonly functionOf: (cid: string, records: RecordsOf) => Promise<ClusterFunction | NotServed>;
  /** Limit of concurrent invocations for one cluster. Absent if the host's invocations do not share a process. */
  readonly share?: {
    readonly most: number;
    /** Sends doorbells of a cluster again with a delay. */
    readonly postpone: (cid: string, bodies: readonly string[]) => Promise<void>;
  };
  /** Called for each cluster that is served. */
  readonly onLoad?: (cid: string, kind: LoadKind, by: number) => void;
  /** The queue of the records, to make those visible soon that reached no handler (BA4). */
  readonly source?: Pick<MessageSource, "setVisibility"> | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

const CID = /^[0-9a-f]{32}$/;
const SAID_MS = 60_000;
const SAID_MAX = 1_000;

const WHY: { readonly [W in NotServed]: string } = {
  missing: "cluster is not in the directory, or its kubeconfig is rejected; acknowledging its messages",
  paused: "cluster is paused; acknowledging its doorbells, whose keys stay queued",
  forged: "messages without the signature of their cluster; acknowledging them",
};

export function routeRecords({ records, functionOf, share, onLoad, source, clock, log }: RouterPorts): SqsHandler {
  const running = new Map<string, number>();
  const claimedBy = records === "deltas" ? claimOfDelta : claimOfDoorbell;
  /** When a line was logged, by cluster and reason. */
  const said = new Map<string, number>();

  function say(cid: string, why: NotServed, count: number): void {
    const now = clock.now();
    const line = `${why} ${cid}`;
    if (now - (said.get(line) ?? -Infinity) < SAID_MS) return;
    if (said.size >= SAID_MAX) said.clear();
    said.set(line, now);
    log.warn(WHY[why], { cluster: cid, count });
  }

  async function invoke(cid: string, own: readonly SQSRecord[], context: Parameters<SqsHandler>[1]): Promise<readonly string[]> {
    const target = cid === "" ? "forged" : await functionOf(cid, { kind: records, bodies: own.map(({ body }) => body) });
    if (typeof target === "string") {
      say(cid, target, own.length);
      return [];
    }
    const authentic = own.filter((record) => records === "deltas" || isSignedDoorbell(record.body, target.signer));
    if (authentic.length < own.length) say(cid, "forged", own.length - authentic.length);
    if (authentic.length === 0) return [];
    const busy = running.get(cid) ?? 0;
    if (share && records === "doorbells" && busy >= share.most) {
      onLoad?.(cid, "postponed", authentic.length);
      await share.postpone(
        cid,
        authentic.map(({ body }) => body),
      );
      return [];
    }
    running.set(cid, busy + 1);
    onLoad?.(cid, "invocations", 1);
    try {
      const Records = records === "deltas" ? [...authentic] : authentic.map(withoutGroup); // RO5
      const answer = await target.handler({ Records }, context);
      const failed = (answer?.batchItemFailures ?? []).map(({ itemIdentifier }) => itemIdentifier);
      if (failed.length > 0) onLoad?.(cid, "failures", failed.length);
      return failed;
    } finally {
      const left = (running.get(cid) ?? 1) - 1;
      if (left === 0) running.delete(cid);
      else running.set(cid, left);
    }
  }

  async function beat(record: SQSRecord, context: Parameters<SqsHandler>[1]): Promise<void> {
    const byCluster = Map.groupBy(splitHeartbeats(record.body), (line) => claimOfDelta(line) ?? "");
    await Promise.all(
      [...byCluster].map(async ([cid, lines]) => {
        const own = { ...withoutGroup(record), body: joinHeartbeats(lines) };
        try {
          const target = cid === "" ? "forged" : await functionOf(cid, { kind: "heartbeats", bodies: lines });
          if (typeof target !== "string") await target.handler({ Records: [own] }, context);
        } catch (error) {
          log.warn("failed to apply a heartbeat; the next one follows", { cluster: cid, error: describeError(error) });
        }
      }),
    );
  }

  return async ({ Records: all }, context): Promise<SQSBatchResponse> => {
    const beats = records === "deltas" ? all.filter(({ body }) => isHeartbeats(body)) : [];
    const Records = beats.length === 0 ? all : all.filter((record) => !beats.includes(record));
    const beaten = beats.map(async (record) => await beat(record, context));
    const byCluster = Map.groupBy(Records, ({ body }) => claimedBy(body) ?? "");
    const unhandled: SQSRecord[] = [];
    const failed = await Promise.all(
      [...byCluster].map(async ([cid, own]) => {
        try {
          return await invoke(cid, own, context);
        } catch (error) {
          log.error("failed to process a cluster's records; they are redelivered", { cluster: cid, error: describeError(error) });
          onLoad?.(cid, "failures", own.length);
          unhandled.push(...own);
          return own.map(({ messageId }) => messageId);
        }
      }),
    );
    await Promise.all(beaten);
    if (source) {
      const later = unhandled.map((record) => ({ record, afterSeconds: RETRY_SECONDS }));
      await makeVisible(later, { log, source, ends: { clock, remainingMs: context.getRemainingTimeInMillis() } });
    }
    return { batchItemFailures: failed.flat().map((itemIdentifier) => ({ itemIdentifier })) };
  };
}

function withoutGroup({ attributes: { MessageGroupId: _, ...attributes }, ...record }: SQSRecord): SQSRecord {
  return { ...record, attributes };
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
export function isSignedDoorbell(body: string, signer: Pick<Signer, "verify">): boolean {
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
