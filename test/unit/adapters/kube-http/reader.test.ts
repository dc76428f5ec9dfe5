// Paged lists with endless or repeated continue tokens.
import { expect, it } from "vitest";
import type { Call } from "../../../../shared/kube/http/calls.ts";
import type { KubeClient } from "../../../../shared/kube/http/client.ts";
import { createReader } from "../../../../shared/kube/http/reader.ts";
import { AnswerTooLargeError } from "../../../../shared/kube/client/errors.ts";

/** Returns pages of one object, each with a token for the next one, up to page `last`. */
function endless(last: number) {
  let calls = 0;
  const client = {
    requestTimeoutMs: 12_000,
    json: async () => {
      const metadata = { resourceVersion: "1", ...(++calls < last && { continue: String(calls) }) };
      return { metadata, items: [{ metadata: { name: `p${calls}`, uid: "u", resourceVersion: "1" } }] };
    },
  };
  // a list only sends this request
  return { reader: createReader(client as unknown as KubeClient), calls: () => calls };
}

/** A server with `count` objects that returns at most `fits` objects per response. */
function narrow(count: number, fits: number) {
  const client = {
    requestTimeoutMs: 12_000,
    json: async ({ query }: Call) => {
      const [limit, from] = [Number(query?.["limit"]), Number(query?.["continue"] ?? 0)];
      if (limit > fits) throw new AnswerTooLargeError("too large");
      const items = Array.from({ length: Math.min(limit, count - from) }, (_, i) => ({ metadata: { name: `p${from + i}` } }));
      const next = from + items.length;
      return { metadata: { resourceVersion: "1", ...(next < count && { continue: String(next) }) }, items };
    },
  };
  return createReader(client as unknown as KubeClient); // a list only sends this request
}

it("[informer T112] reads a list with pages as small as necessary: more than 400 pages, and single objects", async () => {
  const names = async (count: number, fits: number) =>
    (await narrow(count, fits).list("pods", "shop")).items.map(({ metadata }) => metadata.name);
  expect(await names(900, 1)).toEqual(Array.from({ length: 900 }, (_, i) => `p${i}`));
  expect(await names(900, 100)).toHaveLength(900);
  await expect(names(1, 0)).rejects.toThrow(AnswerTooLargeError);
});

it("reads as many pages as the server has, up to 400", async () => {
  const long = endless(400);
  expect((await long.reader.list("pods", "shop")).items).toHaveLength(400);
  const forever = endless(Infinity);
  await expect(forever.reader.list("pods", "shop")).rejects.toThrow("the list of pods has more pages after 400 objects");
  expect(forever.calls()).toBe(400);
});

it("stops reading a list with a repeated continue token at the second page", async () => {
  let calls = 0;
  const json = async () => {
    calls++;
    return await Promise.resolve({ metadata: { resourceVersion: "1", continue: "again" }, items: [] });
  };
  const reader = createReader({ requestTimeoutMs: 1, fieldManager: "test", json });
  await expect(reader.list("pods", "shop")).rejects.toThrow("the list does not advance");
  expect(calls).toBe(2);
});
