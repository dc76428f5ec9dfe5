/** The in-memory API server without a socket: the same reader, writer and watch on `ApiServer.request`. */
import type { KubeClient } from "@deltaloop/kube/http";
import { kubeOver, statusError } from "@deltaloop/kube/http";
import { exactText, frozenText, jsonCopy, REQUEST_TIMEOUT_MS } from "@deltaloop/base";
import type { KubeApiError, Kube } from "@deltaloop/kube/client";
import type { ApiResponse, ApiServer } from "./api-server.ts";

export interface InProcessOptions {
  /** User-Agent and field manager. */
  readonly component: string;
  /** Requests and watches carry objects instead of JSON. Those of watches are the server's own. */
  readonly passesObjects?: boolean;
}

export function createInProcessKube(server: ApiServer, options: InProcessOptions): Kube {
  return kubeOver(createInProcessClient(server, options));
}

/** In process no response is lost or late, so there are no timeouts and retries (KC3 to KC5). */
export function createInProcessClient(
  server: Pick<ApiServer, "request">,
  { component, passesObjects = false }: InProcessOptions,
): KubeClient {
  return {
    requestTimeoutMs: REQUEST_TIMEOUT_MS,
    fieldManager: component,

    async json({ method, path, query = {}, body, contentType = "application/json", accept = "", signal }) {
      signal?.throwIfAborted();
      const headers = { "user-agent": component, "content-type": contentType, accept };
      const answer = await server.request({
        method,
        path,
        query,
        headers,
        ...(body && { body: passesObjects ? jsonCopy(body) : exactText(body) }),
      });
      if (answer.status >= 400) throw refusalOf(answer);
      return answer.kind === "object" ? answer.body : undefined;
    },

    async *lines({ path, query = {}, signal }) {
      signal.throwIfAborted();
      const answer = await server.request({ method: "GET", path, query, headers: { "user-agent": component } });
      if (answer.kind !== "watch") throw refusalOf(answer);
      const { stream } = answer;
      const end = (): void => stream.end();
      signal.addEventListener("abort", end, { once: true });
      try {
        for await (const events of stream.batches()) {
          signal.throwIfAborted();
          yield passesObjects ? events : events.map(({ type, object }) => `{"type":"${type}","object":${frozenText(object)}}`);
        }
        signal.throwIfAborted();
      } finally {
        signal.removeEventListener("abort", end);
        end();
      }
    },
  };
}

function refusalOf(answer: ApiResponse): KubeApiError {
  return statusError(answer.status, {}, JSON.stringify(answer.kind === "object" ? answer.body : {}));
}
