/** Unpacks and parses the data in a worker, so that the page stays responsive. */
import type { TimelineInput } from "../input.ts";
import { parsed } from "./parse.ts";
import type { Part } from "./parse.ts";

/** Code of worker.ts; page-code.ts inserts it. */
declare const WORKER_CODE: string;

/** If no worker can be started, the page parses the data itself. */
export function unpacked(base64: string): Promise<TimelineInput> {
  return inWorker(base64).catch(() => parsed(base64));
}

function inWorker(base64: string): Promise<TimelineInput> {
  return new Promise((resolve, reject) => {
    const url = URL.createObjectURL(new Blob([WORKER_CODE], { type: "text/javascript" }));
    const worker = new Worker(url);
    const parts: Part[] = [];
    worker.addEventListener("error", () => reject(new Error("no worker")));
    worker.addEventListener("message", ({ data }: MessageEvent<Part | "end">) => {
      if (data !== "end") return void parts.push(data);
      worker.terminate();
      URL.revokeObjectURL(url);
      const [head, ...others] = parts;
      const objects = others.flatMap((part) => part.objects ?? []);
      const marks = others.flatMap((part) => part.marks ?? []);
      if (head?.head === undefined) reject(new Error("no data"));
      else resolve({ ...head.head, objects, marks });
    });
    worker.postMessage(base64);
  });
}
