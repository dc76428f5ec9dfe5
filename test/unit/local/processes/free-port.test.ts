/** The ports of local processes that start at the same time. */
import { expect, it } from "vitest";

import { freePort } from "../../../../shared/local/processes/local-redis.ts";

/** Of the 14,000 ports that Linux offers, the same one is then offered twice with a probability of 99.99 %. */
const CALLS = 500;

it("are different, even if the system offers a port again before anyone listens", async () => {
  const ports = new Set<number>();
  for (let call = 0; call < CALLS; call++) ports.add(await freePort());
  expect(ports.size).toBe(CALLS);
});
