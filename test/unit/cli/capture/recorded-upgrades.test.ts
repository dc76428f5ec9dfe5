// Versions of the API server that a capture records after its first line.
import { expect, it } from "vitest";

import { recordedUpgrades } from "../../../../cli/capture/recorded-upgrades.ts";

it("records each changed cluster version once, and skips versions that cannot be read", async () => {
  const recorded: string[] = [];
  let answer: string | Error = "v1.36.3";
  const read = (): Promise<string> => (answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer));
  const upgrades = recordedUpgrades(read, { upgraded: (version) => void recorded.push(version) }, "v1.36.3");
  for (const next of ["v1.36.3", new Error("unavailable"), "unknown", "v1.37.2", "v1.37.2", "v1.36.3"]) {
    answer = next;
    await Promise.all([upgrades.look(), upgrades.look()]); // streams connect at the same time
  }
  expect(recorded).toEqual(["v1.37.2", "v1.36.3"]);
});
