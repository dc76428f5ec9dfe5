/**
 * A configuration whose secrets are read at start and again while the process lives.
 *
 * LC1 callers at the same time share one read, which asks for all references at once.
 * LC2 what was read is used for five minutes, or less if the environment says so; then one read is waited for, for as long as it takes at most. If that fails, what was read
 *    last goes on being used: a secret store that is away stops nobody who has started.
 * LC3 `renew` reads at once, but per cause no more often than its interval: who sends us forged messages does not make us read secrets.
 * LC4 a value that makes no configuration counts as a read that failed. The first read has nothing to fall back on, so it throws.
 * LC5 no value and no text made of one is logged.
 */
import { createSigner, SecretError } from "@deltaloop/store/ports";
import type { Secrets, SecretValues } from "@deltaloop/store/ports";
import type { Log } from "@deltaloop/base";
import { ConfigurationError, parseConfiguration } from "./configuration.ts";
import type { Configuration, Variables } from "./configuration.ts";
import { referencesIn, withSecrets } from "./secret-values.ts";

/** Why secrets are asked for before their time: what was refused, or what nobody could explain. */
export type Cause = "kube" | "redis" | "macKey" | "digestKey";

/** How long after one read of a cause the next one may be. Whoever forges messages chooses when the last is asked for. */
const INTERVAL_MS: { readonly [C in Cause]: number } = { kube: 15_000, redis: 15_000, macKey: 60_000, digestKey: 15_000 };
const AGAIN_AFTER_FAILURE_MS = 10_000;
/** Of one try of three: whoever waits has something to go on with, and the shortest function 5 s in all. */
const REREAD_TIMEOUT_MS = 400;

export interface LiveConfiguration {
  /** As it was read last. */
  readonly current: Configuration;
  /** Not older than LC2 says. Never throws. */
  fresh(): Promise<Configuration>;
  /** Whether reading again has changed anything (LC3). Never throws. */
  renew(cause: Cause): Promise<boolean>;
}

export interface LiveOptions {
  /** Made when there is a reference; `endpoint` is the environment's. */
  readonly secrets: (options: { readonly endpoint?: string }) => Pick<Secrets, "read">;
  readonly now: () => number;
  readonly log: Pick<Log, "info" | "warn">;
}

/**
 * The environment's configuration, which stays as it is where the environment has no reference.
 *
 * @throws {ConfigurationError} naming every mistake, of secrets too; {SecretError} naming each secret that could not be read
 */
export async function liveConfiguration(environment: Variables, { secrets, now, log }: LiveOptions): Promise<LiveConfiguration> {
  const references = referencesIn(environment);
  if (references.given.size === 0) return fixedConfiguration(configurationOf(environment, references, new Map()));
  const { endpoint, maxAgeMs } = references;
  const store = secrets(endpoint === undefined ? {} : { endpoint });
  const asked = [...references.given.values()];

  let held = await store.read(asked);
  let current = configurationOf(environment, references, held);
  let dueMs = now() + maxAgeMs;
  let reading: Promise<boolean> | undefined;
  const askedMs = new Map<Cause, number>();

  async function read(): Promise<boolean> {
    try {
      const values = await store.read(asked, { timeoutMs: REREAD_TIMEOUT_MS });
      dueMs = now() + maxAgeMs;
      const changed = [...references.given].filter(([, reference]) => values.get(reference) !== held.get(reference));
      if (changed.length === 0) return false;
      current = configurationOf(environment, references, values);
      held = values;
      log.info("secrets have changed", { secrets: changed.map(([name]) => name).join(",") });
      return true;
    } catch (error) {
      dueMs = now() + AGAIN_AFTER_FAILURE_MS;
      log.warn("secrets were not read again, the last ones stay in use", { error: reasonOf(error) });
      return false;
    }
  }

  const shared = (): Promise<boolean> =>
    (reading ??= read().finally(() => {
      reading = undefined;
    }));

  return {
    get current() {
      return current;
    },
    async fresh() {
      if (reading !== undefined || now() >= dueMs) await shared();
      return current;
    },
    async renew(cause) {
      if (reading !== undefined) return await reading;
      if (now() < (askedMs.get(cause) ?? -Infinity) + INTERVAL_MS[cause]) return false;
      askedMs.set(cause, now());
      return await shared();
    },
  };
}

/** One that is known and stays. */
export function fixedConfiguration(current: Configuration): LiveConfiguration {
  return { current, fresh: () => Promise.resolve(current), renew: () => Promise.resolve(false) };
}

/** @throws {ConfigurationError} whose lines name the secret that a wrong value came from */
function configurationOf(environment: Variables, references: ReturnType<typeof referencesIn>, values: SecretValues): Configuration {
  const { variables, from } = withSecrets(environment, references, values);
  try {
    const configuration = parseConfiguration(variables);
    createSigner(configuration.macKeys, configuration.cluster);
    return configuration;
  } catch (error) {
    if (error instanceof RangeError)
      throw new ConfigurationError([`${from.get("DELTALOOP_MAC_KEY") ?? "DELTALOOP_MAC_KEY"}: ${error.message}`]);
    if (!(error instanceof ConfigurationError)) throw error;
    throw new ConfigurationError(
      error.problems.map((line) => {
        const name = line.slice(0, line.indexOf(":"));
        const secret = from.get(name);
        return secret === undefined ? line : `${secret}: its value, as ${line}`;
      }),
    );
  }
}

/** Both say names and what is wrong with them, and nothing else is thrown here but bugs. */
function reasonOf(error: unknown): string {
  return error instanceof SecretError || error instanceof ConfigurationError ? error.problems.join("; ") : "unexpected";
}
