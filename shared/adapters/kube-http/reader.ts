import type { Resource } from "../../api/resources.ts";
import type { KubeObject } from "../../api/wire.ts";
import { isGone, isNotFound, UnansweredError } from "../../ports/errors.ts";
import type { KubeList, KubeReader } from "../../ports/kube.ts";
import type { KubeClient } from "./client.ts";
import { resourcePath } from "./path.ts";

const PAGE_SIZE = 500;
/** A list whose continue token expired starts again from its first page, so that it stays one snapshot. */
const LIST_ATTEMPTS_MAX = 3;

/** Quorum reads: no resourceVersion is ever sent (K2). */
export function createReader(client: KubeClient): KubeReader {
  const timeout = `${Math.ceil(client.requestTimeoutMs / 1000)}s`;

  return {
    async get(resource, namespace, name) {
      try {
        return asObject(await client.json({ method: "GET", path: resourcePath(resource, namespace, name), query: { timeout } }));
      } catch (error) {
        if (isNotFound(error)) return undefined;
        throw error;
      }
    },

    async list(resource, namespace, options = {}) {
      for (let attempt = 1; ; attempt++) {
        try {
          return await listOnce(resource, namespace, options.labelSelector);
        } catch (error) {
          if (!isGone(error) || attempt === LIST_ATTEMPTS_MAX) throw error;
        }
      }
    },
  };

  async function listOnce(resource: Resource, namespace: string, labelSelector: string | undefined): Promise<KubeList> {
    const items: KubeObject[] = [];
    let token: string | undefined;
    for (;;) {
      const page = asPage(
        await client.json({
          method: "GET",
          path: resourcePath(resource, namespace),
          query: { limit: PAGE_SIZE, continue: token, labelSelector, timeout },
        }),
      );
      // The server's list kinds hold whole objects of the resource asked for.
      items.push(...(page.items as readonly KubeObject[]));
      if (page.continue === undefined) return { resourceVersion: page.resourceVersion, items };
      token = page.continue;
    }
  }
}

/** @throws {UnansweredError} when a success holds no object: something else than the API server answered. */
export function asObject(value: unknown): KubeObject {
  if (isRecord(value) && isRecord(value["metadata"])) return value as unknown as KubeObject;
  throw new UnansweredError("the answer is no Kubernetes object");
}

export function asPage(value: unknown): {
  readonly resourceVersion: string;
  readonly continue?: string;
  readonly items: readonly unknown[];
} {
  const metadata = isRecord(value) ? value["metadata"] : undefined;
  if (!isRecord(value) || !isRecord(metadata)) throw new UnansweredError("the answer is no Kubernetes list");
  const { resourceVersion, continue: token } = metadata;
  const items = value["items"] ?? [];
  if (typeof resourceVersion !== "string" || !Array.isArray(items)) throw new UnansweredError("the answer is no Kubernetes list");
  return { resourceVersion, items, ...(typeof token === "string" && token !== "" ? { continue: token } : {}) };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
