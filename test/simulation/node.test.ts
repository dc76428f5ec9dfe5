/**
 * Would catch: a node agent that, hit by failures in an order nobody thought of, runs something twice, starts what is to end, or never
 * comes to rest.
 */
import { expect, test } from "vitest";
import { simulateNode } from "./node/world.ts";

const SEEDS = 40;
const GROUP = 10;

test.each(Array.from({ length: SEEDS / GROUP }, (_, group) => group * GROUP + 1))(
  "[node-agent 116] [node-agent 117] [node-agent 120] from seed %i on: whatever happens to a node and its agent, the rules hold, and at the end all is as wanted",
  async (first) => {
    const failures: string[] = [];
    for (let seed = first; seed < first + GROUP; seed++)
      await simulateNode(seed).catch((error: unknown) =>
        failures.push(`npm run sim -- --node --seed ${seed}: ${error instanceof Error ? error.message : String(error)}`),
      );
    expect(failures).toEqual([]);
  },
);

test("a run of a node is repeatable from its seed", async () => {
  const runs = await Promise.all(
    [1, 2].map(async () => {
      const lines: string[] = [];
      await simulateNode(5, (line) => lines.push(line));
      return lines;
    }),
  );
  expect(runs[0]?.length).toBeGreaterThan(100);
  expect(runs[1]).toEqual(runs[0]);
});
