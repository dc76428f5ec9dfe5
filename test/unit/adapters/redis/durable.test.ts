// Durability classes: WAIT for replicas.
import { expect, it } from "vitest";

import { createBarrier, NotReplicatedError } from "../../../../shared/store/redis/durable.ts";

function connection(replicas: number): { readonly waits: number[]; replicated(count: number, timeoutMs: number): Promise<number> } {
  const waits: number[] = [];
  return {
    waits,
    replicated: async (_, timeoutMs) => {
      waits.push(timeoutMs);
      return replicas;
    },
  };
}

it("durability class B waits for one replica, once for all writes of an event loop tick", async () => {
  const server = connection(1);
  const durable = createBarrier(server, "B");
  await Promise.all([durable(), durable(), durable()]);
  expect(server.waits).toEqual([100]);
  await durable();
  expect(server.waits).toHaveLength(2);
});

it("durability class B fails if no replica acknowledges the write, and waits again for the next write", async () => {
  const server = connection(0);
  const durable = createBarrier(server, "B");
  await expect(durable()).rejects.toThrow(NotReplicatedError);
  await expect(durable()).rejects.toThrow(/needs a connected replica/);
  expect(server.waits).toHaveLength(2);
});

it.each(["A", "C"] as const)("durability class %s does not wait for replicas", async (durability) => {
  const server = connection(0);
  await createBarrier(server, durability)();
  expect(server.waits).toEqual([]);
});
