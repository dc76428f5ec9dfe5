// Would catch: a Redis that evicts the cache's truth and is used all the same, or one that is refused though it does not say.
import { expect, it } from "vitest";

import { evictionProblem } from "../../../../shared/adapters/redis/server.ts";

const info = (policy: string): string => `# Memory\r\nused_memory:1\r\nmaxmemory_policy:${policy}\r\nallocator:x\r\n`;

it.each(["allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl"])("%s is refused, by name and with what to do", (policy) => {
  expect(evictionProblem(info(policy))).toMatch(new RegExp(`maxmemory-policy ${policy} .* set it to noeviction`));
});

it("noeviction is fine, and so is a service that does not say", () => {
  expect(evictionProblem(info("noeviction"))).toBeUndefined();
  expect(evictionProblem("# Memory\r\nused_memory:1\r\n")).toBeUndefined();
});
