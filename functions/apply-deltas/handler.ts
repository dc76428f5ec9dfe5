/** The applier: writes delta messages to the cache, and sends doorbells for the affected keys. */
import { applyMessage } from "@deltaloop/controllers/cache";
import type { ApplierPorts } from "@deltaloop/controllers/cache";
import { settleRecords, deployed } from "@deltaloop/controllers/lambda";
import type { SqsHandler, FunctionWiring } from "@deltaloop/controllers/lambda";
import { CORE_CACHE } from "@deltaloop/controllers/registry";

type Wiring = Omit<FunctionWiring, "trace"> & Pick<ApplierPorts, "onChanges"> & Partial<Pick<ApplierPorts, "registry">>;

export function createApplyDeltas(wiring: Wiring): SqsHandler {
  const ports: ApplierPorts = { registry: CORE_CACHE, ...wiring };
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
