/**
 * Would catch: a node agent that, after failures in an unusual order, runs a container twice, starts one that should end, or never settles.
 */
import { expect, test } from "vitest";
import { simulateNode } from "./node/simulate-node.ts";
import { NODE_SEEDS } from "./seeds.ts";
import { messageOf } from "../../shared/kube/objects/errors.ts";

test.each(NODE_SEEDS)(
  "[node-agent 116] [node-agent 117] [node-agent 120] seed %i: faults of a node and its agent violate no rule, and all pods reach the desired state",
  async (seed) => {
    const failure = await simulateNode(seed).then(
      () => undefined,
      (error: unknown) => `npm run sim -- --node --seed ${seed}: ${messageOf(error)}`,
    );
    expect(failure).toBeUndefined();
  },
);

test("the simulation of a node is reproducible from its seed", async () => {
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
