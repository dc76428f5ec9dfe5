/** The sync that the worker runs for a key of a built-in controller. */
import type { Run } from "../run.ts";
import type { KeySync, RunSync } from "./key-sync.ts";
import { recover } from "./recover.ts";
import { createSession } from "./session.ts";
import type { SyncHandler } from "./session.ts";

/** The handler in a session, whose Events are sent however it ends. */
export function inSession(handler: SyncHandler): Required<Pick<KeySync, "run" | "recover">> {
  const runs =
    (handle: SyncHandler): RunSync =>
    async (ports, run) => {
      const session = createSession(ports, run as Run); // a run of a built-in controller
      try {
        const result = await handle(session);
        const done = session.done();
        return { result, ...(done && { done }) };
      } finally {
        await session.sendEvents();
      }
    };
  return { run: runs(handler), recover: runs(recover) };
}
