import type { ControllerName } from "@deltaloop/kube/objects";
import { doorbellParts } from "../ports/doorbells.ts";
import type { Doorbell, DoorbellMessage, Doorbells } from "../ports/doorbells.ts";
import type { Signer } from "../signer.ts";
import { RUNG_WITHIN_MS } from "@deltaloop/base";
import type { SqsCalls } from "./calls.ts";
import { batches, CALL_TIMEOUT_MS } from "./limits.ts";

export interface SqsDoorbellsOptions {
  readonly queueUrls: { readonly [C in ControllerName]: string };
  /** Cluster id. */
  readonly cid: string;
  /** Signs doorbells whose queues serve several clusters. Each cluster is then a message group: fair queues keep one from delaying others. */
  readonly signer?: Pick<Signer, "sign">;
}

/**
 * Sends doorbells to SQS standard queues, one per controller. All batches are tried; if one fails, the call fails (DB4). Doorbells with a
 * long delay are not sent (DB3).
 */
export function createSqsDoorbells(sqs: SqsCalls, options: SqsDoorbellsOptions): Doorbells {
  return {
    async ring(bells) {
      const soon = bells.filter(({ delayMs }) => delayMs <= RUNG_WITHIN_MS);
      const sends = Object.entries(options.queueUrls).flatMap(([controller, queueUrl]) =>
        batches(soon.filter((bell) => bell.controller === controller)).map((batch) => send(queueUrl, batch)),
      );
      const errors = (await Promise.allSettled(sends)).flatMap((result): unknown[] =>
        result.status === "rejected" ? [result.reason] : [],
      );
      if (errors.length > 0) throw new AggregateError(errors, `${errors.length} of ${sends.length} batches of doorbells failed`);
    },
  };

  async function send(QueueUrl: string, batch: readonly Doorbell[]): Promise<void> {
    const Entries = batch.map((bell, index) => ({
      Id: String(index),
      MessageBody: JSON.stringify(signed(doorbellMessage(options.cid, bell))),
      DelaySeconds: delaySeconds(bell.delayMs),
      ...(options.signer && { MessageGroupId: options.cid }),
    }));
    const answer = await sqs.call("SendMessageBatch", { QueueUrl, Entries }, { timeoutMs: CALL_TIMEOUT_MS });
    const first = answer.Failed?.[0];
    if (first !== undefined) throw new Error(`${answer.Failed?.length} doorbell(s) refused: ${first.Code} ${first.Message ?? ""}`.trim());
  }

  function signed(message: DoorbellMessage): DoorbellMessage {
    return options.signer ? { ...message, m: options.signer.sign("d", doorbellParts(message)) } : message;
  }
}

function doorbellMessage(cid: string, { controller, epoch, key, uid, owner }: Doorbell): DoorbellMessage {
  return {
    v: 1,
    c: cid,
    ctl: controller,
    e: epoch,
    k: key,
    ...(uid === undefined ? {} : { u: uid }),
    ...(owner === undefined ? {} : { o: owner }),
  };
}

/** SQS counts whole seconds. A shorter delay is sent at once, and the worker waits (informer §12.3). */
function delaySeconds(delayMs: number): number {
  return delayMs < 1_000 ? 0 : Math.ceil(delayMs / 1_000);
}
