import type { KubeWriter, ManagedWrite } from "../client/kube.ts";
import type { RetryBudget } from "@deltaloop/base";
import type { Call, KubeCalls } from "./calls.ts";
import { resourcePath } from "./path.ts";
import { asObject, serverTimeout } from "./reader.ts";
import { isStatus } from "./status-error.ts";

/**
 * Mutating calls. Every write but DELETE sends a field manager.
 *
 * Responses are JSON. A created pod as protobuf, decoded to the fields that are cached, took 238 instead of 322 µs of CPU per call with a
 * small pod and 355 instead of 373 with a large one, and 4 to 12 % less of the server's. The spread was larger, every bundle would contain
 * the decoder, and code that reads another field of the response would fail only on a real API server.
 */
export function createWriter(client: KubeCalls): KubeWriter {
  const send = (call: Call, retryBudget: RetryBudget | undefined): Promise<unknown> =>
    client.json({ ...call, query: { ...call.query, timeout: serverTimeout(client, retryBudget) }, ...(retryBudget && { retryBudget }) });

  const managed = ({ fieldManager = client.fieldManager, ...others }: Omit<ManagedWrite, "retryBudget"> & { readonly force?: true }) => ({
    fieldManager,
    ...others,
  });

  return {
    async create({ resource, namespace, of, body, retryBudget, ...write }) {
      const path = resourcePath(resource, namespace, of?.name, of?.subresource);
      return asObject(await send({ method: "POST", path, query: managed(write), body }, retryBudget));
    },

    async patch({ resource, namespace, name, subresource, type, body, retryBudget, ...write }) {
      const path = resourcePath(resource, namespace, name, subresource);
      return asObject(await send({ method: "PATCH", path, query: managed(write), body, contentType: type }, retryBudget));
    },

    async delete({ resource, namespace, name, preconditions, gracePeriodSeconds, retryBudget }) {
      const body = {
        apiVersion: "v1",
        kind: "DeleteOptions",
        preconditions,
        ...(gracePeriodSeconds !== undefined && { gracePeriodSeconds }),
      };
      const answer = await send({ method: "DELETE", path: resourcePath(resource, namespace, name), body }, retryBudget);
      return isStatus(answer) ? undefined : asObject(answer);
    },

    async replace({ resource, namespace, name, body, retryBudget }) {
      return asObject(
        await send(
          { method: "PUT", path: resourcePath(resource, namespace, name), query: { fieldManager: client.fieldManager }, body },
          retryBudget,
        ),
      );
    },
  };
}
