/** The applier: writes delta messages to the cache, and sends doorbells for the affected keys. */
import { applyMessage } from "@deltaloop/controllers/cache";
import type { ApplierPorts } from "@deltaloop/controllers/cache";
import { settleRecords, deployed } from "@deltaloop/controllers/lambda";
import type { SqsHandler, FunctionWiring } from "@deltaloop/controllers/lambda";
import { CORE_CACHE } from "@deltaloop/controllers/registry";

export function createApplyDeltas(wiring: Omit<FunctionWiring, "trace"> & Pick<ApplierPorts, "onChanges">): SqsHandler {
  const ports: ApplierPorts = { ...wiring, registry: CORE_CACHE };
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
