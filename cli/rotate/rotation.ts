/** Common parts of key rotations. */
import { randomBytes } from "node:crypto";

import { createSecrets } from "@deltaloop/store/secrets";
import { isListedId, parseMacKeys, referencesIn } from "@deltaloop/controllers/configuration";
import { directoryIn } from "@deltaloop/controllers/clusters";
import type { Configuration, Variables } from "@deltaloop/controllers/configuration";
import type { Clock } from "@deltaloop/base";
import { SecretError } from "@deltaloop/store/ports";
import type { Secrets } from "@deltaloop/store/ports";
import { readConfiguration } from "@deltaloop/local/processes";
import { UsageError } from "@deltaloop/base";

export interface Rotation {
  /** The watcher's environment, including references to secrets. */
  readonly environment: Variables;
  /** How long to wait until all processes have read a changed secret; by default slightly longer than the maximum age of secrets. */
  readonly waitMs?: number;
  /** Whether to finish a rotation of the MAC key that was interrupted after its first step or later. */
  readonly finish: boolean;
  readonly say: (line: string) => void;
  readonly now: Clock["now"];
  readonly after: Clock["after"];
  /** Ends the wait; values that are already written are kept. */
  readonly signal: AbortSignal;
}

export interface OpenRotation {
  readonly configuration: Configuration;
  /** The secret to rotate. */
  readonly reference: string;
  readonly secrets: Secrets & { close(): void };
  readonly waitMs: number;
}

const KEY_BYTES = 32;
const TIMEOUT_MS = 10_000;
/** Margin, because a process checks the age of its secrets every ten seconds and a read takes some time. */
const READ_MS = 15_000;

/** What to do for listed clusters, which share the secret. */
const BY_HAND = {
  DELTALOOP_MAC_KEY_SECRET:
    "write OLD,NEW to its secret, then NEW,OLD, run `deltaloop keys --resign`, and write NEW; wait before each step until all have read the secret (docs/guides/rotate-keys.md)",
  DELTALOOP_DIGEST_KEY_SECRET: "write a new key to its secret; the watcher then starts a new epoch of each cluster",
} as const;

/** Opens the secret to rotate. @throws {UsageError} when the environment has the key itself, or its secret cannot be read */
export async function openRotation(
  { environment, waitMs }: Pick<Rotation, "environment" | "waitMs">,
  variable: "DELTALOOP_MAC_KEY_SECRET" | "DELTALOOP_DIGEST_KEY_SECRET",
): Promise<OpenRotation> {
  if (directoryIn(environment) || isListedId(environment["DELTALOOP_CLUSTER"] ?? ""))
    throw new UsageError(`rotate handles a deployment of one cluster, and this one serves listed clusters: ${BY_HAND[variable]}`);
  const { given, endpoint, maxAgeMs } = referencesIn(environment);
  const reference = given.get(variable);
  if (reference === undefined)
    throw new UsageError(
      `${variable} is not in the environment: to rotate a key that is not in a secret, set the new key and deploy again`,
    );
  const { current } = await readConfiguration(environment);
  return {
    configuration: current,
    reference,
    secrets: createSecrets({ ...(endpoint !== undefined && { endpoint }), timeoutMs: TIMEOUT_MS }),
    waitMs: waitMs ?? maxAgeMs + READ_MS,
  };
}

/** Returns a key in the format that docs/internals/threat-model.md requires. */
export function newKey(): string {
  return randomBytes(KEY_BYTES).toString("hex");
}

/** Writes the secret. @throws {UsageError} if that fails */
export async function write({ secrets, reference }: OpenRotation, value: string): Promise<void> {
  await secrets.write(reference, value).catch(refused);
}

/**
 * Throws if another process has written the secret, because that process also rotates the key and the next value would invalidate its
 * signatures.
 *
 * @throws {UsageError} when the MAC keys in the secret are not `expected`
 */
export async function assertKeys({ secrets, reference }: OpenRotation, expected: readonly string[]): Promise<void> {
  const value = (await secrets.read([reference]).catch(refused)).get(reference);
  if (parseMacKeys({ DELTALOOP_MAC_KEY: value }).join() !== expected.join())
    throw new UsageError(
      `another process changed ${reference}, which is left unchanged. If no other rotation runs, continue with --finish`,
    );
}

function refused(error: unknown): never {
  throw error instanceof SecretError ? new UsageError(error.message) : error;
}
