import { request as httpsRequest } from "node:https";
import type { Certificate } from "./pki.ts";

/** What the API server answered: a status code and its JSON, or its text where it is none (`/readyz`). */
interface ApiAnswer {
  readonly code: number;
  readonly body: unknown;
}

/** Only for the few calls that bring a control plane up; tests use kubectl or the project's own adapter. */
export type ApiClient = (method: "GET" | "POST", path: string, body?: object) => Promise<ApiAnswer>;

const ANSWER_TIMEOUT_MS = 10_000;

/** A client that shows `identity` and trusts only `ca` (both PEM). It rejects when no answer comes, on any code it resolves. */
export function createApiClient(url: string, ca: string, identity: Certificate): ApiClient {
  return async (method, path, body) =>
    await new Promise((resolve, reject) => {
      const request = httpsRequest(
        new URL(path, url),
        {
          method,
          ca,
          cert: identity.certificate,
          key: identity.key,
          agent: false, // one connection per call: an API server that restarts leaves no dead ones in a pool
          headers: { accept: "application/json", "content-type": "application/json" },
          timeout: ANSWER_TIMEOUT_MS,
        },
        (response) => {
          let text = "";
          response.setEncoding("utf8");
          response.on("data", (chunk: string) => (text += chunk));
          response.on("error", reject);
          response.on("end", () => resolve({ code: response.statusCode ?? 0, body: parsed(text) }));
        },
      );
      request.on("timeout", () => request.destroy(new Error(`${method} ${path}: no answer in ${ANSWER_TIMEOUT_MS} ms`)));
      request.on("error", reject);
      request.end(body === undefined ? undefined : JSON.stringify(body));
    });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
