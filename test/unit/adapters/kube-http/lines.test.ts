/** Would catch: a stream that fell silent after its reader was slow, and that nobody gives up any more. */
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { expect, it } from "vitest";

import { linesOf } from "../../../../shared/kube/http/lines.ts";
import { UnansweredError } from "../../../../shared/kube/client/errors.ts";

const INACTIVITY_MS = 100;
const CHUNK = Buffer.concat([Buffer.alloc(1024 * 1024 - 1, "x"), Buffer.from("\n")]);
/** One more MiB than is kept of what nobody has asked for. */
const CHUNKS = 65;

it("KL5 silence is not counted while the reader is the slow one, and is again once he has caught up", async () => {
  const response = new IncomingMessage(new Socket());
  const lines = linesOf(response, new AbortController().signal, INACTIVITY_MS);
  const first = lines.next();
  for (let i = 0; i < CHUNKS + 1; i++) response.push(CHUNK);
  expect((await first).done).toBe(false);
  await expect.poll(() => response.isPaused()).toBe(true);
  await sleep(3 * INACTIVITY_MS);
  let read = 1;
  const all = async (): Promise<void> => {
    for await (const group of lines) read += group.length;
  };
  const given = new Promise((resolve) => setTimeout(resolve, 20 * INACTIVITY_MS, "nobody gave it up"));
  await expect(Promise.race([all(), given])).rejects.toThrow(UnansweredError);
  expect(read).toBe(CHUNKS + 1);
});
