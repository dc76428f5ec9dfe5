import type { ServerResponse } from "node:http";

/** The whole of a short answer. Errors are plain text here; kubectl shows them as they are. */
export function answer(response: ServerResponse, code: number, body: string, contentType = "text/plain; charset=utf-8"): void {
  response.writeHead(code, { "content-type": contentType, "content-length": Buffer.byteLength(body), "x-content-type-options": "nosniff" });
  response.end(body);
}
