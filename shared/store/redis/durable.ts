/** Durability class B (informer §11.8): a result is used only after a replica has the write. Other durability classes do not wait. */
import { REPLICA_WAIT_MS } from "@deltaloop/base";
import type { Connection } from "./connection.ts";

/**
 * What a failover of this Redis may lose (informer §11.8). `A`: nothing that was acknowledged. `B`: writes that no replica has yet; a call
 * whose loss would repeat an action, such as a create, therefore waits for a replica. `C`: all writes since the last snapshot.
 */
export type Durability = "A" | "B" | "C";

/** No replica has the write, so a failover would lose it. The caller retries; the operator repairs the replica. */
export class NotReplicatedError extends Error {
  override readonly name = "NotReplicatedError";
}

/**
 * Returns a function that resolves once a replica has every earlier write. Concurrent callers share one WAIT.
 *
 * @throws {NotReplicatedError} if no replica has them after 100 ms
 */
export function createBarrier(connection: Pick<Connection, "replicated">, durability: Durability): () => Promise<void> {
  if (durability !== "B") return () => Promise.resolve();
  let asked: Promise<void> | undefined;
  const wait = async (): Promise<void> => {
    await Promise.resolve(); // by now, callers of the same microtask have sent their writes
    asked = undefined;
    if ((await connection.replicated(1, REPLICA_WAIT_MS)) < 1)
      throw new NotReplicatedError(
        `no replica acknowledged the last writes within ${REPLICA_WAIT_MS} ms: durability class B needs a connected replica`,
      );
  };
  return () => (asked ??= wait());
}
