// Would catch: a list that fills the memory, because a server's continue tokens never end.
import { expect, it } from "vitest";
import type { KubeClient } from "../../../../shared/adapters/kube-http/client.ts";
import { createReader } from "../../../../shared/adapters/kube-http/reader.ts";

/** Answers pages of one object, each with a token for the next, up to `last`. */
function endless(last: number) {
  let calls = 0;
  const client = {
    requestTimeoutMs: 12_000,
    json: async () => {
      const metadata = { resourceVersion: "1", ...(++calls < last && { continue: String(calls) }) };
      return { metadata, items: [{ metadata: { name: `p${calls}`, uid: "u", resourceVersion: "1" } }] };
    },
  };
  // A list asks for nothing else.
  return { reader: createReader(client as unknown as KubeClient), calls: () => calls };
}

it("a list has as many pages as the server says, up to 400", async () => {
  const long = endless(400);
  expect((await long.reader.list("pods", "shop")).items).toHaveLength(400);
  const forever = endless(Infinity);
  await expect(forever.reader.list("pods", "shop")).rejects.toThrow("the list of pods does not end after 400 objects");
  expect(forever.calls()).toBe(400);
});
