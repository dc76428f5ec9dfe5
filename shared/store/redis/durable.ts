/**
 * Durability class B (informer §11.8): nothing is built on a write that only the primary has. In the other classes this waits for
 * nothing. WAIT belongs to no verb's commands: it neither reads nor writes.
 */
import { REPLICA_WAIT_MS } from "@deltaloop/base";
import type { Connection } from "./connection.ts";

/**
 * What a failover of this Redis may lose (informer §11.8). `A`: nothing that was acknowledged. `B`: what its replicas do not have yet,
 * so a replica is waited for where something would be done twice without. `C`: whatever came since it was last saved, if it was.
 */
export type Durability = "A" | "B" | "C";

/** No replica has what was written, so a failover would forget it. Whoever called tries again; people see to the replica. */
export class NotReplicatedError extends Error {
  override readonly name = "NotReplicatedError";
}

/**
 * Answers what resolves once a replica has everything that was written before. Those who ask in one turn share one WAIT.
 *
 * @throws {NotReplicatedError} when none has it after 100 ms
 */
export function createBarrier(connection: Pick<Connection, "replicated">, durability: Durability): () => Promise<void> {
  if (durability !== "B") return () => Promise.resolve();
  let asked: Promise<void> | undefined;
  const wait = async (): Promise<void> => {
    await Promise.resolve(); // whoever else asks in this turn has written before
    asked = undefined;
    if ((await connection.replicated(1, REPLICA_WAIT_MS)) < 1)
      throw new NotReplicatedError(`no replica has the last writes after ${REPLICA_WAIT_MS} ms: durability class B needs one that follows`);
  };
  return () => (asked ??= wait());
}
