import type { Resource } from "../objects/resources.ts";
import type { KubeObject } from "../objects/wire.ts";
import { isGone, isNotFound, NotKubernetesError, UnansweredError } from "../client/errors.ts";
import type { KubeList, KubeReader } from "../client/kube.ts";
import { createPager } from "../client/page-size.ts";
import { isObject } from "@deltaloop/base";
import type { RetryBudget } from "@deltaloop/base";
import type { KubeCalls } from "./calls.ts";
import { resourcePath } from "./path.ts";

/** Limit of a list, above the size of any cluster: so that an endless list cannot exhaust the memory. */
const OBJECTS_MAX = 200_000;
/** Attempts to list when the continue token expires; each starts from the first page, so that the list is one snapshot. */
const LIST_ATTEMPTS_MAX = 3;

/** Quorum reads: no resourceVersion is ever sent (KC2). */
export function createReader(client: KubeCalls): KubeReader {
  return {
    async get(resource, namespace, name, { retryBudget } = {}) {
      const query = { timeout: serverTimeout(client, retryBudget) };
      try {
        return asObject(
          await client.json({ method: "GET", path: resourcePath(resource, namespace, name), query, ...(retryBudget && { retryBudget }) }),
        );
      } catch (error) {
        if (isNotFound(error)) return undefined;
        throw error;
      }
    },

    async list(resource, namespace, options = {}) {
      for (let attempt = 1; ; attempt++) {
        try {
          return await listOnce(resource, namespace, options);
        } catch (error) {
          if (!isGone(error) || attempt === LIST_ATTEMPTS_MAX) throw error;
        }
      }
    },
  };

  async function listOnce(
    resource: Resource,
    namespace: string,
    { labelSelector, fieldSelector, retryBudget }: NonNullable<Parameters<KubeReader["list"]>[2]>,
  ): Promise<KubeList> {
    const timeout = serverTimeout(client, retryBudget);
    const items: KubeObject[] = [];
    let token: string | undefined;
    const pager = createPager();
    for (let requested = 0; requested < OBJECTS_MAX;) {
      const [answer, limit] = await pager(async (objects) => {
        const query = { limit: objects, continue: token, labelSelector, fieldSelector, timeout };
        const path = resourcePath(resource, namespace);
        return [await client.json({ method: "GET", path, query, ...(retryBudget && { retryBudget }) }), objects] as const;
      });
      requested += limit;
      const page = asPage(answer, token);
      // The server's list kinds contain whole objects of the requested resource.
      items.push(...(page.items as readonly KubeObject[]));
      if (page.continue === undefined) return { resourceVersion: page.resourceVersion, items };
      token = page.continue;
    }
    throw new Error(`the list of ${resource} has more pages after ${items.length} objects`);
  }
}

/** The `timeout` parameter in whole seconds, so that the server does not execute a call after the client has given up. */
export function serverTimeout(client: Pick<KubeCalls, "requestTimeoutMs">, retryBudget: RetryBudget | undefined): string {
  return `${Math.ceil((retryBudget?.requestTimeoutMs ?? client.requestTimeoutMs) / 1000)}s`;
}

/** @throws {UnansweredError} when a successful response is not an object, and so not from an API server. */
export function asObject(value: unknown): KubeObject {
  if (isObject(value) && isObject(value["metadata"])) return value as unknown as KubeObject;
  throw new NotKubernetesError("the response is not a Kubernetes object");
}

/**
 * The page that follows the continue token `requestToken`.
 *
 * @throws {UnansweredError} when the response is not a list, or its token equals `requestToken`, so that the list would never end
 */
export function asPage(
  value: unknown,
  requestToken: string | undefined,
): {
  readonly resourceVersion: string;
  readonly continue?: string;
  readonly items: readonly unknown[];
} {
  const metadata = isObject(value) ? value["metadata"] : undefined;
  if (!isObject(value) || !isObject(metadata)) throw new NotKubernetesError("the response is not a Kubernetes list");
  const { resourceVersion, continue: token } = metadata;
  const items = value["items"] ?? [];
  if (typeof resourceVersion !== "string" || !Array.isArray(items)) throw new NotKubernetesError("the response is not a Kubernetes list");
  if (typeof token === "string" && token !== "" && token === requestToken)
    throw new UnansweredError("the list does not advance: the server returned the same continue token");
  return { resourceVersion, items, ...(typeof token === "string" && token !== "" ? { continue: token } : {}) };
}
