/** Errors of the Store port. */
import type { Forged } from "./index-store.ts";

/**
 * The Store returned rows that fail their MAC or that lack a part (rule A14). The caller reads the objects live and writes them back;
 * until then it decides nothing. Not normal: something else writes to Redis.
 */
export class ForgedRowsError extends Error {
  override readonly name = "ForgedRowsError";
  readonly forged: readonly Forged[];

  constructor(forged: readonly Forged[]) {
    super(`${forged.length} cached rows fail their MAC, first ${forged[0]?.resource} ${forged[0]?.key}`);
    this.forged = forged;
  }
}
