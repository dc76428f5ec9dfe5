import { describeError } from "../ports/describe-error.ts";
import type { Doorbell, Doorbells } from "../ports/doorbells.ts";
import type { Log } from "../ports/log.ts";

/** A doorbell that cannot be rung is no failure: the key is dirty and the sweeper rings it. */
export async function ring(ports: { readonly doorbells: Doorbells; readonly log: Log }, bells: readonly Doorbell[]): Promise<void> {
  try {
    await ports.doorbells.ring(bells);
  } catch (error) {
    ports.log.warn("doorbells not rung, the sweeper will", { count: bells.length, error: describeError(error) });
  }
}
