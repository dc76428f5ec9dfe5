/** The laws for large objects on the memory Store: verbs, returned rows, requests. test/support/large-laws.ts lists what they catch. */
import { describe } from "vitest";

import { largeLaws } from "../support/large-laws.ts";
import { startCountedSync } from "../harness/sync/counted-sync.ts";

describe("large workloads in memory", () => {
  largeLaws(() => startCountedSync());
});
