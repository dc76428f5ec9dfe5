/** The conformance suite on the in-memory logind. */
import { createMemoryLogind } from "../support/memory-logind.ts";
import { logindConformance } from "./logind.ts";

logindConformance("memory", async () => {
  const logind = createMemoryLogind();
  return {
    logind,
    prepareForShutdown: async (isShuttingDown) => logind.prepareForShutdown(isShuttingDown),
    locks: async () => logind.locks(),
    restart: async () => logind.restart(),
    close: async () => undefined,
  };
});
