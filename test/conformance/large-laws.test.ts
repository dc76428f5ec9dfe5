/** The laws of large shapes on the memory Store: verbs, rows handed out, requests. What they catch: test/support/large-laws.ts. */
import { describe } from "vitest";

import { largeLaws } from "../support/large-laws.ts";
import { startCountedSync } from "../harness/sync/counted-sync.ts";

describe("large shapes in memory", () => {
  largeLaws(() => startCountedSync());
});
