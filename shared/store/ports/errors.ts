/** Errors of the Store port. */
import type { Forged } from "./index-store.ts";

/**
 * The Store returned rows that are incomplete or have an invalid MAC (A14). The caller must read the objects live and write them back
 * before it decides. Indicates that another client writes to Redis.
 */
export class ForgedRowsError extends Error {
  override readonly name = "ForgedRowsError";
  readonly forged: readonly Forged[];

  constructor(forged: readonly Forged[]) {
    super(`${forged.length} cached rows fail MAC verification, starting with ${forged[0]?.resource} ${forged[0]?.key}`);
    this.forged = forged;
  }
}
