// Runs without Go: server-side apply on random sequences, compared with recorded results of upstream's field manager
// (test/differential/apply).
import { describe, expect, it } from "vitest";
import { digestOf, playOurs } from "../differential/apply/compare.ts";
import { readRecorded } from "../differential/apply/recorded.ts";

describe("recorded server-side applies", async () => {
  const { first, digests } = await readRecorded();

  it(`writes have the result of upstream's field manager, in ${digests.length} sequences`, () => {
    const different = digests.flatMap((digest, i) => (digestOf(playOurs(first + i).made) === digest ? [] : [first + i]));
    expect(digests.length).toBeGreaterThanOrEqual(500);
    expect(different).toEqual([]);
  });
});
