/** KubeHttp straight into an in-memory API server, for simulation: no socket, no serialising. */
import type { ApiResponse, ApiServer } from "./api-server.ts";
import { errorOf, type KubeHttp, type KubeHttpObject, readPages, type Query } from "../scripted-nodes/kube-http.ts";

export function createInProcessClient(server: ApiServer, { userAgent }: { readonly userAgent: string }): KubeHttp {
  const ask = async (
    method: string,
    path: string,
    options: { query?: Query; body?: object; contentType?: string },
  ): Promise<ApiResponse> => {
    const { query = {}, body, contentType = "application/json" } = options;
    const response = await server.request({ method, path, query, headers: { "user-agent": userAgent, "content-type": contentType }, body });
    if (response.status >= 400) throw errorOf(response.status, response.kind === "object" ? response.body : undefined);
    return response;
  };
  const objectOf = (response: ApiResponse): KubeHttpObject => (response.kind === "object" ? response.body : {});

  return {
    list: (path, query) => readPages(async (page) => objectOf(await ask("GET", path, { query: page })), query),
    async watch(path, query, onEvent, signal) {
      const response = await ask("GET", path, { query: { ...query, watch: true } });
      if (response.kind !== "watch") throw new TypeError(`${path} answered a watch with an object`);
      const { stream } = response;
      const end = (): void => stream.end();
      signal.addEventListener("abort", end, { once: true });
      try {
        for await (const { type, object } of stream) {
          signal.throwIfAborted();
          if (type === "ERROR") throw errorOf(500, object);
          onEvent({ type, object });
        }
      } finally {
        signal.removeEventListener("abort", end);
      }
    },
    request: async (method, path, body, contentType) =>
      objectOf(await ask(method, path, { ...(body === undefined ? {} : { body }), ...(contentType === undefined ? {} : { contentType }) })),
  };
}
