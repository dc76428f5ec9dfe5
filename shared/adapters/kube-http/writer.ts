import type { KubeWriter } from "../../ports/kube.ts";
import type { KubeClient } from "./client.ts";
import { resourcePath } from "./path.ts";
import { asObject } from "./reader.ts";
import { isStatus } from "./status-error.ts";

/** Mutating calls, each sent once (W3). DELETE knows no fieldManager; every other write carries ours. */
export function createWriter(client: KubeClient): KubeWriter {
  const timeout = `${Math.ceil(client.requestTimeoutMs / 1000)}s`;
  const query = { fieldManager: client.fieldManager, timeout };

  return {
    async create({ resource, namespace, of, body }) {
      const path = resourcePath(resource, namespace, of?.name, of?.subresource);
      return asObject(await client.json({ method: "POST", path, query, body }));
    },

    async patch({ resource, namespace, name, subresource, type, body }) {
      const path = resourcePath(resource, namespace, name, subresource);
      return asObject(await client.json({ method: "PATCH", path, query, body, contentType: type }));
    },

    async delete({ resource, namespace, name, preconditions, gracePeriodSeconds }) {
      const body = {
        apiVersion: "v1",
        kind: "DeleteOptions",
        preconditions,
        ...(gracePeriodSeconds !== undefined && { gracePeriodSeconds }),
      };
      const answer = await client.json({ method: "DELETE", path: resourcePath(resource, namespace, name), query: { timeout }, body });
      return isStatus(answer) ? undefined : asObject(answer);
    },

    async replace({ resource, namespace, name, body }) {
      return asObject(await client.json({ method: "PUT", path: resourcePath(resource, namespace, name), query, body }));
    },
  };
}
