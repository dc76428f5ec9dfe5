import type { ServerResponse } from "node:http";

/** The whole of a short answer. Errors are plain text here; kubectl shows them as they are. */
export function answer(response: ServerResponse, code: number, body: string, contentType = "text/plain; charset=utf-8"): void {
  response.writeHead(code, { "content-type": contentType, "content-length": Buffer.byteLength(body), "x-content-type-options": "nosniff" });
  response.end(body);
}

/** The server cannot do what this machine or the runtime should let it do. The message is shown to people: it says what to do. */
export class NodeApiError extends Error {
  override readonly name = "NodeApiError";
}
