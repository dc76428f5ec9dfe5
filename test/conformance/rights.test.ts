/** The access reviews that `dev` sends before it starts, on a busy server. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { afterAll, expect, it } from "vitest";

import { reviewRights } from "../../cli/cluster/rights.ts";

/** Every third review is rejected twice before it is answered. */
let calls = 0;
const refusals = new Map<string, number>();
const server = createServer((request, response) => {
  calls++;
  let question = request.headers["user-agent"] ?? "";
  request.on("data", (chunk: Buffer) => (question += chunk.toString()));
  request.on("end", () => {
    const left = refusals.get(question) ?? (refusals.size % 3 === 0 ? 2 : 0);
    refusals.set(question, Math.max(0, left - 1));
    if (left > 0) return void response.writeHead(429, { "retry-after": "0" }).end();
    response.writeHead(201, { "content-type": "application/json" }).end(JSON.stringify({ status: { allowed: true } }));
  });
});
afterAll(() => void server.close());

it("reviews all rights even if a third of the requests get 429", async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const rights = await reviewRights((role) => Promise.resolve({ server: `http://127.0.0.1:${port}`, component: role }), {
    act: true,
    leaseNamespace: "default",
  });
  expect(rights.length).toBeGreaterThan(40);
  expect(rights.filter(({ allowed }) => !allowed)).toEqual([]);
  expect(calls).toBeGreaterThan(rights.length);
});
