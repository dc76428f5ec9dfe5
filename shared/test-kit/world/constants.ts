/** Values that are equal for all Worlds. */
import type { Clock, Log, Random } from "@deltaloop/base";
import type { SqsHandler } from "@deltaloop/controllers/lambda";
import { createDigester } from "@deltaloop/kube/pod-template";
import { createSigner } from "@deltaloop/store/ports";

export interface Surroundings {
  readonly clock: Clock;
  readonly random: Random;
}

export const CLUSTER = "0123456789ab";
export const DIGESTER = createDigester("the digest key of the test kit");
/** One for all worlds, because its key derivation takes a millisecond. */
export const SIGNER = createSigner(["the MAC key of the test kit"], CLUSTER);
export const QUIET: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
/** The queue in memory has no dead-letter queue, so this is never called. */
export const NO_DEAD_LETTERS: SqsHandler = () => Promise.resolve({ batchItemFailures: [] });
