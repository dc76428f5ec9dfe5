/**
 * User controllers under faults. `npm run sim -- --own --seeds 1-2000` runs more seeds; `--own --plants` lists which checks detect each
 * planted mistake.
 */
import { randomInt } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { messageOf } from "../../../shared/kube/objects/errors.ts";
import { PLANTS } from "./plants.ts";
import { simulateOwn } from "./simulate-own.ts";

const SHARED = join(import.meta.dirname, "../../../shared");
const SEEDS = 40;
const FIRST_MAX = 1_000_000;
const failureOf = (seed: number): Promise<string | undefined> =>
  simulateOwn(seed).then(
    () => undefined,
    (error: unknown) => `npm run sim -- --own --seed ${seed}: ${messageOf(error)}`,
  );

test("fresh seeds end in the desired state, and change no object of another owner", async () => {
  const first = randomInt(FIRST_MAX);
  for (let seed = first; seed < first + SEEDS; seed++) expect(await failureOf(seed)).toBeUndefined();
});

test.each([
  { seed: 70, why: "the last check came before the events of a late watch" },
  { seed: 189_465, why: "the condition Applied stayed after the attempt that succeeded" },
])("passes seed $seed, which failed once: $why", async ({ seed }) => expect(await failureOf(seed)).toBeUndefined());

test.each(PLANTS)("the text that the planted mistake replaces occurs exactly once: $what", ({ edits }) => {
  for (const { file, from } of edits) expect(readFileSync(`${SHARED}/${file}`, "utf8").split(from), file).toHaveLength(2);
});

test("plants twelve mistakes", () => {
  expect(PLANTS.map(({ what }) => what)).toHaveLength(12);
});
