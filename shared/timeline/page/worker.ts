/** The worker that unpacks and parses the data. */
import { parsed, partsOf } from "./parse.ts";

const scope = self as unknown as Worker; // the configured types are for a page, not for a worker
scope.addEventListener("message", ({ data }: MessageEvent<string>) => {
  void (async () => {
    for (const part of partsOf(await parsed(data))) scope.postMessage(part);
    scope.postMessage("end");
  })().catch((error: unknown) => reportError(error)); // the page receives this as an error event of the worker
});
