import type { ServerResponse } from "node:http";

/** Sends a complete response. Errors are plain text, because kubectl prints them unchanged. */
export function answer(response: ServerResponse, code: number, body: string, contentType = "text/plain; charset=utf-8"): void {
  response.writeHead(code, { "content-type": contentType, "content-length": Buffer.byteLength(body), "x-content-type-options": "nosniff" });
  response.end(body);
}

/** The machine or the runtime lacks something that the server needs. The message contains the remedy. */
export class NodeApiError extends Error {
  override readonly name = "NodeApiError";
}
