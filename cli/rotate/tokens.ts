import { setTimeout as sleep } from "node:timers/promises";

import type { KubeHttpConfig } from "@deltaloop/kube/http";
import { describeError } from "@deltaloop/kube/client";
import type { KubeWriter } from "@deltaloop/kube/client";
import type { Secrets } from "@deltaloop/store/ports";
import { functionsOf, serviceAccount, REGISTRY } from "@deltaloop/controllers/registry";
import { requestToken } from "@deltaloop/kube/kubeconfig";

/** Functions that call the API server, each with its own service account. */
export const KUBE_COMPONENTS: readonly string[] = functionsOf(REGISTRY).flatMap(({ name, usesKube }) => (usesKube ? [name] : []));

export interface TokenPlan {
  readonly kube: Pick<KubeWriter, "create">;
  /** The API server's certificate authority; written with each token. */
  readonly ca: KubeHttpConfig["ca"];
  readonly secrets: Pick<Secrets, "write">;
  readonly names: readonly string[];
  /** Prefix of the secrets' names; a component's name follows it. */
  readonly prefix: string;
  readonly seconds: number;
  readonly say: (line: string) => void;
}

/** Retry interval: short enough for a token that is renewed after half its lifetime. */
const AGAIN_MS = 30_000;

/**
 * Writes a new token for each component, with the certificate authority of the API server. Prints failures. @returns the number of failures
 */
export async function renewTokens({ kube, ca, secrets, names, prefix, seconds, say }: TokenPlan): Promise<number> {
  let failed = 0;
  for (const name of names) {
    try {
      const { token, endsMs } = await requestToken(kube, { serviceAccount: serviceAccount(name), seconds });
      await secrets.write(prefix + name, JSON.stringify({ token, ...(ca !== undefined && { ca: String(ca) }) }));
      say(`${name}: renewed, ends ${new Date(endsMs).toISOString()}`);
    } catch (error) {
      failed++;
      say(`${name}: not renewed: ${describeError(error)}`);
    }
  }
  return failed;
}

/** Renews tokens every `everyMs`, and sooner after a failure, until `signal` aborts. @returns the number of failures in the last round */
export async function keepTokensFresh(plan: TokenPlan, everyMs: number, signal: AbortSignal): Promise<number> {
  let failed = 0;
  while (!signal.aborted) {
    failed = await renewTokens(plan);
    await sleep(failed > 0 ? Math.min(AGAIN_MS, everyMs) : everyMs, undefined, { signal }).catch(() => undefined);
  }
  return failed;
}
