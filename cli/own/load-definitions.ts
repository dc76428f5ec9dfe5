import { createSystemClock } from "@deltaloop/base/system";
import { consoleLog } from "@deltaloop/base/output";
import { startMessagingVerb } from "@deltaloop/local/processes";
import type { Definition } from "@deltaloop/sdk/definitions";
import { Host } from "./host.ts";

/** The definitions that files export. A process of its own loads them, so that code which never ends cannot block the command. @throws {LoadError} */
export async function loadDefinitions(files: readonly string[]): Promise<readonly Definition[]> {
  const host = new Host("function host", {
    start: () => startMessagingVerb("own-host", files),
    clock: createSystemClock(),
    log: consoleLog("deltaloop: ", "error"),
  });
  try {
    return (await host.loaded()).definitions;
  } finally {
    host.stop("loaded");
  }
}
