/**
 * The environment variables of functions and watcher, for users: `node infra/generate.ts` writes docs/reference/configuration.md from them.
 */
import { CONTROLLERS } from "@deltaloop/kube/objects";

import { doorbellsVariable } from "../registry/names.ts";
import { ENTRIES } from "./configuration.ts";

export interface ConfigurationVariable {
  readonly name: string;
  readonly required: boolean;
  readonly default?: string;
  readonly meaning: string;
}

const MEANINGS: { readonly [name in keyof typeof ENTRIES]: string } = {
  DELTALOOP_DEPLOYMENT: "Name of this installation: a part of every Redis key and of the name of the Lease",
  DELTALOOP_CLUSTER: "Id of the cluster: 12 hexadecimal digits, which `deltaloop dev` prints",
  DELTALOOP_MODE: "`act`, or `shadow`: decide and send nothing",
  DELTALOOP_LEASE_NAMESPACE: "Namespace of the watcher's Lease, which functions read, too",
  DELTALOOP_GUARD: "`on` or `off`: in act mode, whether everything stops when another controller writes",
  DELTALOOP_DIGEST_KEY: "Key of the template digests, at least 16 characters; the same for functions and watcher",
  DELTALOOP_MAC_KEY:
    "Key of the MACs on messages and rows, at least 16 characters; the same for functions and watcher. Several, separated by commas, during a rotation: the first signs, all are accepted",
  DELTALOOP_REDIS_URL: "`redis://…` or `rediss://…`",
  DELTALOOP_REDIS_CLUSTER: "`true` if the URL is a node of a Redis Cluster",
  DELTALOOP_REDIS_DURABILITY:
    "What a failover may lose: `A` nothing; `B` writes that no replica has yet, so each run waits for a replica (not with a Redis Cluster); `C` anything, for development",
  DELTALOOP_KUBERNETES: "`supported` or `any`: in act mode, whether the watcher starts on an unsupported version",
  DELTALOOP_KUBE_SERVER: "`https://host:port` of the API server; `http://` without a token, or on loopback",
  DELTALOOP_KUBE_CA: "Certificate authority of the API server: PEM, or base64 of PEM",
  DELTALOOP_KUBE_CA_FILE: "File with the certificate authority",
  DELTALOOP_KUBE_TOKEN: "Bearer token",
  DELTALOOP_KUBE_TOKEN_FILE: "File with the bearer token; reloaded when it changes",
  DELTALOOP_KUBE_CLIENT_CERTIFICATE: "Client certificate instead of a token: PEM, or base64 of PEM",
  DELTALOOP_KUBE_CLIENT_KEY: "Key of the client certificate",
  DELTALOOP_KUBE_EKS_CLUSTER: "Name of an EKS cluster; tokens are signed with the AWS credentials of the process",
  DELTALOOP_DELTAS_URL: "URL of the delta queue",
  DELTALOOP_SQS_ENDPOINT: "Another SQS endpoint, such as `http://127.0.0.1:4566`",
  DELTALOOP_LOG_LEVEL: "`debug`, `info`, `warn` or `error`",
  DELTALOOP_METRICS:
    "`emf`, `few` (only deltaloop_unhealthy_clusters) or `none`: metrics that a Lambda function writes to its log; CloudWatch bills each",
};

/** Variables that refer to secrets and clusters. They are read first, and replaced by what they refer to (secret-values.ts, clusters/). */
const REFERENCES: Readonly<Record<string, string>> = {
  DELTALOOP_CLUSTERS: "`ssm:/PATH`: serves the clusters of `deltaloop cluster`; replaces DELTALOOP_CLUSTER and DELTALOOP_KUBE_*",
  DELTALOOP_CLUSTERS_ALLOW: "Values of `--allow`, separated by commas",
  DELTALOOP_MAC_KEY_SECRET: "Name of the secret that holds DELTALOOP_MAC_KEY",
  DELTALOOP_DIGEST_KEY_SECRET: "Name of the secret that holds DELTALOOP_DIGEST_KEY",
  DELTALOOP_KUBE_SECRET: 'Name of the secret with `{"token"}` or `{"clientCertificate", "clientKey"}`, and optionally `"ca"`',
  DELTALOOP_REDIS_SECRET: 'Name of the secret with `{"username", "password"}`, a password, or a whole URL',
  DELTALOOP_SECRETS_ENDPOINT: "Another endpoint of Secrets Manager and Parameter Store",
  DELTALOOP_SECRETS_SECONDS: "How long a secret is used before it is read again: 1 to 300, default 300",
};

/** Returns the variables in the order of the generated page. */
export function configurationVariables(): readonly ConfigurationVariable[] {
  const values = (Object.keys(MEANINGS) as (keyof typeof MEANINGS)[]).map((name) => {
    // its own keys
    const entry: { readonly type: string; readonly default?: unknown } = ENTRIES[name];
    const optional = entry.type === "optional";
    return {
      name,
      required: !optional,
      meaning: MEANINGS[name],
      ...(typeof entry.default === "string" && { default: entry.default }),
    };
  });
  const doorbells = CONTROLLERS.map((controller) => ({
    name: doorbellsVariable(controller),
    required: true,
    meaning: `URL of the doorbell queue of the ${controller} controller`,
  }));
  const references = Object.entries(REFERENCES).map(([name, meaning]) => ({ name, required: false, meaning }));
  return [...values, ...doorbells, ...references];
}
