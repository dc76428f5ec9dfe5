/** The inactivity timeout of a watch whose reader is slow. */
import { setTimeout as sleep } from "node:timers/promises";

import { expect, it } from "vitest";

import { linesOf } from "../../../../shared/kube/http/lines.ts";
import type { StreamSink } from "../../../../shared/base/http/http-exchanges.ts";
import { UnansweredError } from "../../../../shared/kube/client/errors.ts";

const INACTIVITY_MS = 100;
const CHUNK = Buffer.concat([Buffer.alloc(1024 * 1024 - 1, "x"), Buffer.from("\n")]);
/** One MiB more than is buffered without a reader. */
const CHUNKS = 65;

it("KL5 does not count silence while the reader is behind, and counts it again once the reader has caught up", async () => {
  let sink: StreamSink | undefined;
  let isPaused = false;
  const response = {
    ...{ code: 200, headers: {}, destroy: () => undefined },
    read: (to: StreamSink) => void (sink = to),
    pause: () => void (isPaused = true),
    resume: () => void (isPaused = false),
  };
  const lines = linesOf(response, new AbortController().signal, INACTIVITY_MS);
  const first = lines.next();
  for (let i = 0; i < CHUNKS + 1; i++) sink?.onBytes(CHUNK);
  expect((await first).done).toBe(false);
  expect(isPaused).toBe(true);
  await sleep(3 * INACTIVITY_MS);
  let read = 1;
  const all = async (): Promise<void> => {
    for await (const group of lines) read += group.length;
  };
  const waited = new Promise((resolve) => setTimeout(resolve, 20 * INACTIVITY_MS, "not given up"));
  await expect(Promise.race([all(), waited])).rejects.toThrow(UnansweredError);
  expect(isPaused).toBe(false);
  expect(read).toBe(CHUNKS + 1);
});
