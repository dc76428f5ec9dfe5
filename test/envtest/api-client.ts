import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { KubeHttpConfig } from "../../shared/kube/http/config.ts";

/** The API server's response: a status code and JSON, or text if it is not JSON (`/readyz`). */
interface ApiAnswer {
  readonly code: number;
  readonly body: unknown;
  /** The texts of the Warning header. */
  readonly warnings: readonly string[];
}

/**
 * Returns every response as it is, including rejections. Used to start a control plane and to compare servers; other code uses the
 * project's own adapter.
 */
export type ApiClient = (method: string, path: string, body?: unknown, contentType?: string, accept?: string) => Promise<ApiAnswer>;

const ANSWER_TIMEOUT_MS = 10_000;

/** Rejects when no response arrives; resolves for every status code. */
export function createApiClient({ server, ...tls }: Pick<KubeHttpConfig, "server" | "ca" | "cert" | "key">): ApiClient {
  const open = server.startsWith("https:") ? httpsRequest : httpRequest;
  return async (method, path, body, contentType = "application/json", accept = "application/json") => {
    // Bytes are sent unchanged.
    const text = body === undefined ? "" : Buffer.isBuffer(body) ? body : JSON.stringify(body);
    const headers = { accept, "content-type": contentType, "content-length": Buffer.byteLength(text) };
    return await new Promise((resolve, reject) => {
      const request = open(
        new URL(path, server),
        {
          ...tls,
          method,
          agent: false, // one connection per call, so that no pool keeps connections to an API server that has restarted
          headers,
          timeout: ANSWER_TIMEOUT_MS,
        },
        (response) => {
          let text = "";
          response.setEncoding("utf8");
          response.on("data", (chunk: string) => (text += chunk));
          response.on("error", reject);
          response.on("end", () =>
            resolve({ code: response.statusCode ?? 0, body: parsed(text), warnings: warningsIn(response.headers["warning"]) }),
          );
        },
      );
      request.on("timeout", () => request.destroy(new Error(`${method} ${path}: no response within ${ANSWER_TIMEOUT_MS} ms`)));
      request.on("error", reject);
      request.end(text);
    });
  };
}

function warningsIn(header = ""): string[] {
  return [...header.matchAll(/299 - "((?:[^"\\]|\\.)*)"/gu)].map(([, text = ""]) => text.replaceAll(/\\(.)/gu, "$1"));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
