/** The informer's second half: packs of the delta queue into the index, and doorbells for the keys they concern. */
import { applyMessage } from "../../shared/cache/applier.ts";
import type { ApplierPorts } from "../../shared/cache/applier.ts";
import { settleRecords } from "../../shared/lambda/batch.ts";
import { deployed } from "../../shared/lambda/deployed.ts";
import type { SqsHandler } from "../../shared/lambda/sqs-handler.ts";
import type { FunctionWiring } from "../../shared/lambda/wiring.ts";
import { AFFECTED_KEYS } from "../../shared/registry/registry.ts";

export function createApplyDeltas(wiring: Omit<FunctionWiring, "trace"> & Pick<ApplierPorts, "onChanges">): SqsHandler {
  const ports: ApplierPorts = { ...wiring, registry: AFFECTED_KEYS };
  return (event, context) =>
    settleRecords(
      event,
      ({ messageId: id, body, attributes }) =>
        applyMessage(ports, { id, body, receiveCount: Number(attributes.ApproximateReceiveCount) || 1 }),
      {
        ...wiring,
        ends: { clock: wiring.clock, remainingMs: context.getRemainingTimeInMillis() },
      },
    );
}

export const handler: SqsHandler = deployed("apply-deltas", createApplyDeltas);
