/** The worker that unpacks and parses the data. */
import { parsed, partsOf } from "./parse.ts";

const scope = self as unknown as Worker; // the types are those of a page
scope.addEventListener("message", ({ data }: MessageEvent<string>) => {
  void (async () => {
    for (const part of partsOf(await parsed(data))) scope.postMessage(part);
    scope.postMessage("end");
  })().catch((error: unknown) => reportError(error)); // the page hears it as an error of the worker
});
