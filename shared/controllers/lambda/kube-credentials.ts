import { readFileSync } from "node:fs";

import { environmentRegion } from "@deltaloop/store/aws";
import { eksTokens } from "./eks/token.ts";
import type { KubeHttpConfig } from "@deltaloop/kube/http";
import type { Log } from "@deltaloop/base";
import { ConfigurationError } from "./configuration.ts";
import type { Configuration } from "./configuration.ts";
import type { LiveConfiguration } from "./live-configuration.ts";
import { tokenFrom } from "./token-file.ts";

/** A token that expires within this is read again from its secret, which should hold a newer one by then. */
const ENDS_SOON_MS = 60_000;

interface Options {
  readonly log?: Pick<Log, "warn">;
  readonly now?: () => number;
}

/**
 * API server access from the environment: a token, a client certificate, an EKS cluster's name, or anonymous. A value from a secret is
 * read again when the server rejects it, a token also before it expires.
 *
 * @throws {ConfigurationError} if an EKS cluster's region is unknown
 */
export function kubeHttpConfig(live: LiveConfiguration, component: string, options: Options = {}): KubeHttpConfig {
  const { kube } = live.current;
  const ca = kube.caFile === undefined ? kube.ca : readFileSync(kube.caFile);
  return { server: kube.server, component, ...(ca === undefined ? {} : { ca }), ...credentials(live, kube, options) };
}

function credentials(
  live: LiveConfiguration,
  kube: Configuration["kube"],
  options: Options,
): Pick<KubeHttpConfig, "token" | "certificate"> {
  if (kube.eksCluster !== undefined) return { token: eksTokens({ cluster: kube.eksCluster, region: regionOf(kube.server) }) };
  if (kube.tokenFile !== undefined) return { token: tokenFrom(kube.tokenFile) };
  if (kube.token !== undefined) return { token: secretToken(live, options) };
  if (kube.certificate === undefined) return {};
  return {
    async certificate(refused) {
      if (refused !== undefined && refused.cert === live.current.kube.certificate?.cert) await live.renew("kube");
      return live.current.kube.certificate;
    },
  };
}

function secretToken(live: LiveConfiguration, { log, now = Date.now }: Options): (refused?: string) => Promise<string> {
  let warnedOf: string | undefined;
  const held = (): string => live.current.kube.token ?? "";
  return async (refused) => {
    const endsSoon = (): boolean => (tokenEndsMs(held()) ?? Infinity) - now() < ENDS_SOON_MS;
    if (held() === refused || endsSoon()) await live.renew("kube");
    const token = held();
    if (endsSoon() && warnedOf !== token) {
      warnedOf = token;
      log?.warn("the token for the API server expires soon and was not renewed", { endsMs: tokenEndsMs(token) });
    }
    return token;
  };
}

/**
 * Returns the `exp` claim of a token that has it, such as a service account token. Source:
 * kubernetes.io/docs/reference/access-authn-authz/authentication.
 */
export function tokenEndsMs(token: string): number | undefined {
  try {
    const { exp } = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString("utf8")) as { readonly exp?: unknown };
    return typeof exp === "number" ? exp * 1_000 : undefined;
  } catch {
    return undefined;
  }
}

/** Region in the server's name (`https://0A1B.gr7.eu-central-1.eks.amazonaws.com`), or AWS_REGION. */
function regionOf(server: string): string {
  const region = /\.([a-z]{2}(?:-[a-z]+)+-\d+)\.eks\.amazonaws\.com/.exec(server)?.[1] ?? environmentRegion();
  if (region === undefined) throw new ConfigurationError(["AWS_REGION: is missing, and the API server's host name contains no region"]);
  return region;
}
