import type { NodeApiBackend } from "./options.ts";

/** The pods bound to this node, each with the status that the agent has of it, as a PodList. Source: server.go encodePods. */
export async function podList(backend: NodeApiBackend): Promise<string> {
  const items = await Promise.all(
    backend.pods().map(async (pod) => {
      const { namespace, name, uid } = pod.metadata;
      const status = (await backend.pod(namespace, name, uid))?.status ?? pod.status;
      return { ...pod, ...(status !== undefined && { status }) };
    }),
  );
  return JSON.stringify({ kind: "PodList", apiVersion: "v1", metadata: {}, items });
}
