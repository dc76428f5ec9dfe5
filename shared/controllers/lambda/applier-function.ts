/** The function of the applier: writes delta messages to the cache, and sends doorbells for the affected keys. */
import { applyMessage } from "../cache/applier.ts";
import type { ApplierPorts } from "../cache/applier.ts";
import { CORE_CACHE } from "../registry/registry.ts";
import { settleRecords } from "./batch.ts";
import type { SqsHandler } from "./sqs-handler.ts";
import type { FunctionWiring } from "./wiring.ts";

type Wiring = Omit<FunctionWiring, "trace"> & Pick<ApplierPorts, "onChanges"> & Partial<Pick<ApplierPorts, "registry">>;

export function createApplierFunction(wiring: Wiring): SqsHandler {
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
