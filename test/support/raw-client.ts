/** A raw HTTP client over the product's own client: any verb on any path, as `kubectl --raw`. */
import { kubeHttpConfigFrom } from "../../shared/kube/kubeconfig/kubeconfig.ts";
import { createClient } from "../../shared/kube/http/client.ts";
import type { KubeClient } from "../../shared/kube/http/client.ts";
import { asPage } from "../../shared/kube/http/reader.ts";
import { createWatch } from "../../shared/kube/http/watch.ts";
import type { Resource } from "../../shared/kube/objects/resources.ts";
import type { ApiServer } from "../../shared/api-server/api-server.ts";
import { createInProcessClient } from "../../shared/api-server/in-process-client.ts";
import type { KubeWatch } from "../../shared/kube/client/kube.ts";

/** Rejections are KubeApiErrors. */
export interface RawClient extends KubeWatch<Resource> {
  /** The decoded response. A body is sent as JSON unless `contentType` says otherwise; `path` may have a query. */
  request<T extends object = AnyObject>(
    method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE",
    path: string,
    body?: object,
    contentType?: string,
  ): Promise<T>;
  /** Returns the items of the whole list. */
  list<T extends object = AnyObject>(path: string, query?: Readonly<Record<string, string>>): Promise<{ readonly items: readonly T[] }>;
}

/** The undecoded body. */
export type AnyObject = Readonly<Record<string, unknown>>;

export function rawClientOf(client: KubeClient): RawClient {
  return {
    ...createWatch(client),
    request: async <T extends object>(...[method, path, body, contentType]: Parameters<RawClient["request"]>) =>
      (await client.json({ method, path, ...(body && { body }), ...(contentType !== undefined && { contentType }) })) as T,
    // Requests no limit, so the list is one page.
    list: async <T extends object>(...[path, query]: Parameters<RawClient["list"]>) => ({
      items: asPage(await client.json({ method: "GET", path, ...(query && { query }) }), undefined).items as T[],
    }),
  };
}

/** `name` is the User-Agent, to distinguish requests from those of our components. */
export function rawClientIn(server: ApiServer, name = "person"): RawClient {
  return rawClientOf(createInProcessClient(server, { component: name }));
}

/** With the credentials of a kubeconfig's current context. */
export async function rawClientAt(kubeconfig: string, name: string): Promise<RawClient> {
  return rawClientOf(createClient({ ...(await kubeHttpConfigFrom(kubeconfig, { component: name })), userAgent: name }));
}
