/** Obtains the Lease's proof before each call that needs one, so that syncs need not (lease-proof.ts LP1). */
import type { Taken } from "@deltaloop/store/ports";
import { provenReader, watched } from "./lease-proof.ts";
import type { SyncPorts } from "./run.ts";

/** Returns the same dependencies, but each live read and each write, including writes to the Store, obtains a proof first. */
export function withProof(ports: SyncPorts, { epoch, lineage }: Taken): SyncPorts {
  const { proof, reader, gateway, store } = ports;
  const token = lineage?.token;
  if (!proof || !token) return ports;
  const require = (): Promise<void> => proof.require(epoch, token);
  return {
    ...ports,
    reader: provenReader(reader, proof, require),
    store: {
      readIndex: (...request) => store.readIndex(...request),
      readSlices: (...request) => store.readSlices(...request),
      markSuspect: (...request) => store.markSuspect(...request),
      registerIntents: async (...request) => {
        await require();
        return await store.registerIntents(...request);
      },
      // Sent in the same turn of the event loop if there is a proof, so that an early follow-up's `take` is sent after it (GO6).
      writeThrough: (...request) =>
        proof.holds(epoch, token) ? store.writeThrough(...request) : require().then(() => store.writeThrough(...request)),
      correlateEvents: async (...request) => {
        await require();
        return await store.correlateEvents(...request);
      },
    },
    gateway: {
      mode: gateway.mode,
      forRun(owner) {
        const run = gateway.forRun(owner);
        return {
          create: async (request) => {
            await require();
            return await watched(proof, run.create(request));
          },
          patch: async (request, row) => {
            await require();
            return await watched(proof, run.patch(request, row));
          },
          delete: async (request, row) => {
            await require();
            return await watched(proof, run.delete(request, row));
          },
        };
      },
    },
  };
}
