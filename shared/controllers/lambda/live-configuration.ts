/**
 * A configuration whose secrets are read at start and again while the process runs.
 *
 * LC1 concurrent callers share one read, which requests all references at once.
 * LC2 values are used for five minutes, or the environment's shorter limit; then the caller waits for one read, for at most its timeout.
 *    If it fails, the last values stay in use: a secret store outage stops no running process.
 * LC3 `renew` reads at once, but at most once per cause and INTERVAL_MS, so that forged messages cannot cause many reads.
 * LC4 a value that makes no valid configuration counts as a failed read. The first read throws, because it has no fallback.
 * LC5 no value, and no text derived from one, is logged.
 */
import { createSigner, SecretError } from "@deltaloop/store/ports";
import type { Secrets, SecretValues } from "@deltaloop/store/ports";
import type { Log } from "@deltaloop/base";
import { ConfigurationError, parseConfiguration } from "./configuration.ts";
import type { Configuration, Variables } from "./configuration.ts";
import { referencesIn, withSecrets } from "./secret-values.ts";

/** Why secrets are read early: a rejected credential, or an unknown key. */
export type Cause = "kube" | "redis" | "macKey" | "digestKey";

/** Minimum time between two reads for one cause. Longer for `macKey`, because a sender of forged messages can trigger it. */
const INTERVAL_MS: { readonly [C in Cause]: number } = { kube: 15_000, redis: 15_000, macKey: 60_000, digestKey: 15_000 };
const AGAIN_AFTER_FAILURE_MS = 10_000;
/** Timeout per try, of three: the caller has values to fall back on, and the shortest function has 5 s in all. */
const REREAD_TIMEOUT_MS = 400;

export interface LiveConfiguration {
  /** The values of the last read. */
  readonly current: Configuration;
  /** A configuration within the age limit of LC2. Never throws. */
  fresh(): Promise<Configuration>;
  /** Returns whether reading again changed anything (LC3). Never throws. */
  renew(cause: Cause): Promise<boolean>;
}

export interface LiveOptions {
  /** Called if a variable is a reference; `endpoint` is the environment's. */
  readonly secrets: (options: { readonly endpoint?: string }) => Pick<Secrets, "read">;
  readonly now: () => number;
  readonly log: Pick<Log, "info" | "warn">;
}

/**
 * The environment's configuration; constant if the environment has no reference.
 *
 * @throws {ConfigurationError} with every problem, including those of secrets; {SecretError} with each secret that could not be read
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
      log.warn("failed to refresh secrets; keeping the last values", { error: reasonOf(error) });
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

/** A configuration that never changes. */
export function fixedConfiguration(current: Configuration): LiveConfiguration {
  return { current, fresh: () => Promise.resolve(current), renew: () => Promise.resolve(false) };
}

/**
 * Parses an environment with the values of its secrets.
 *
 * @throws {ConfigurationError} with the name of the secret that a wrong value came from
 */
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

/** The messages of both error types contain names and problems, but no values. Any other error is a bug. */
function reasonOf(error: unknown): string {
  return error instanceof SecretError || error instanceof ConfigurationError ? error.problems.join("; ") : "unexpected";
}
