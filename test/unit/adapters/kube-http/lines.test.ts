/** A watch with a slow reader: how much is read ahead, and the inactivity timeout. */
import { setTimeout as sleep } from "node:timers/promises";

import { expect, it } from "vitest";

import { linesOf } from "../../../../shared/kube/http/lines.ts";
import type { AnswerStream, StreamSink } from "../../../../shared/base/http/http-exchanges.ts";
import { UnansweredError } from "../../../../shared/kube/client/errors.ts";

const INACTIVITY_MS = 100;
const CHUNK = Buffer.concat([Buffer.alloc(1024 * 1024 - 1, "x"), Buffer.from("\n")]);
/** Chunks of 1 MiB; one more than is buffered without a reader. */
const CHUNKS = 65;

function paused(): { readonly response: AnswerStream; readonly isPaused: () => boolean; readonly push: (chunk: Buffer) => void } {
  let sink: StreamSink | undefined;
  let isPaused = false;
  const response = {
    ...{ code: 200, headers: {}, destroy: () => undefined },
    read: (to: StreamSink) => void (sink = to),
    pause: () => void (isPaused = true),
    resume: () => void (isPaused = false),
  };
  return { response, isPaused: () => isPaused, push: (chunk) => sink?.onBytes(chunk) };
}

it("stops reading above the configured read-ahead, and continues at half of it", async () => {
  const { response, isPaused, push } = paused();
  const lines = linesOf(response, new AbortController().signal, { inactivityMs: 60_000, readAheadBytesMax: 8 });
  const first = lines.next();
  push(Buffer.from("1\n"));
  await first;
  const states = [2, 3, 4, 5, 6].map((number) => {
    push(Buffer.from(`${number}\n`));
    return isPaused();
  });
  expect(states).toEqual([false, false, false, false, true]);
  const resumed: boolean[] = [];
  for (let i = 0; i < 3; i++) {
    await lines.next();
    resumed.push(!isPaused());
  }
  expect(resumed).toEqual([false, false, true]);
  await lines.return(undefined);
});

it("KL3 empties a group when the next one is requested, so that a quiet watch keeps no lines", async () => {
  const { response, push } = paused();
  const lines = linesOf(response, new AbortController().signal, { inactivityMs: 60_000 });
  const first = lines.next();
  push(Buffer.from("1\n2\n"));
  const { value: group } = await first;
  expect(group).toEqual(["1", "2"]);
  const second = lines.next();
  await Promise.resolve();
  expect(group).toEqual([]);
  push(Buffer.from("3\n"));
  expect((await second).value).toEqual(["3"]);
  await lines.return(undefined);
});

it("KL5 does not count silence while the reader is behind, and counts it again once the reader has caught up", async () => {
  const { response, isPaused, push } = paused();
  const lines = linesOf(response, new AbortController().signal, { inactivityMs: INACTIVITY_MS });
  const first = lines.next();
  for (let i = 0; i < CHUNKS + 1; i++) push(CHUNK);
  expect((await first).done).toBe(false);
  expect(isPaused()).toBe(true);
  await sleep(3 * INACTIVITY_MS);
  let read = 1;
  const all = async (): Promise<void> => {
    for await (const group of lines) read += group.length;
  };
  const waited = new Promise((resolve) => setTimeout(resolve, 20 * INACTIVITY_MS, "not given up"));
  await expect(Promise.race([all(), waited])).rejects.toThrow(UnansweredError);
  expect(isPaused()).toBe(false);
  expect(read).toBe(CHUNKS + 1);
});
