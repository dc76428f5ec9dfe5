/** Tells every call of a run how long it may be waited for; syncs need not know. */
import type { Resource } from "../api/resources.ts";
import type { Patience } from "../ports/patience.ts";
import { EVENT_WAIT_MS_MAX } from "../ports/times.ts";
import type { SyncPorts } from "./run.ts";

/**
 * The same ports, as patient as `patience`. An Event gets a little of it only: the sync awaits its Events, and somebody else may
 * want the key.
 */
export function patientPorts<P extends Pick<SyncPorts, "reader" | "gateway" | "clock">>(ports: P, patience: Patience): P {
  const { reader, gateway, clock } = ports;
  const forEvent = (): Patience => {
    const untilMs = clock.now() + EVENT_WAIT_MS_MAX;
    return { ...patience, waitMsMax: () => Math.min(patience.waitMsMax(), Math.max(0, untilMs - clock.now())) };
  };
  const patienceOf = (resource: Resource): Patience => (resource === "events" ? forEvent() : patience);
  return {
    ...ports,
    reader: {
      get: (resource, namespace, name) => reader.get(resource, namespace, name, { patience }),
      list: (resource, namespace, options) => reader.list(resource, namespace, { ...options, patience }),
    },
    gateway: {
      mode: gateway.mode,
      forRun(owner) {
        const run = gateway.forRun(owner);
        return {
          create: (request) => run.create({ ...request, patience: patienceOf(request.resource) }),
          patch: (request, row) => run.patch({ ...request, patience: patienceOf(request.resource) }, row),
          delete: (request, row) => run.delete({ ...request, patience }, row),
        };
      },
    },
  };
}
