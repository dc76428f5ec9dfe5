/** Tokens of our service accounts: revocation, identity and rights. */
import { join } from "node:path";

import { STAGE } from "../../../infra/local/deploy.ts";
import { secretName } from "../../../shared/controllers/registry/names.ts";
import { deltaloop, eventually, measured, OWN_NAMESPACE, ROOT } from "../e2e.ts";
import type { Cluster } from "../e2e.ts";

/** The object that tokens of `revocableToken` are bound to. */
const BOUND_TO = "drill-tokens";

/** A token that `revokeTokens` invalidates. */
export async function revocableToken(cluster: Cluster, serviceAccount: string): Promise<string> {
  await cluster.apply({ apiVersion: "v1", kind: "Secret", metadata: { name: BOUND_TO, namespace: OWN_NAMESPACE } });
  const bound = ["--bound-object-kind=Secret", `--bound-object-name=${BOUND_TO}`];
  return (await cluster.kubectl("create", "token", serviceAccount, "-n", OWN_NAMESPACE, "--duration=2h", ...bound)).trim();
}

/**
 * Revokes the revocable tokens, waits until the API server rejects the functions (it caches tokens for up to ten seconds), and runs
 * `deltaloop rotate tokens`, which requests and writes new ones. `known` is a Deployment in the default namespace. @returns the command's
 * output @throws when its exit code is not 0
 */
export async function takeTokensAndRotate(cluster: Cluster, known: string, secretsEndpoint: string): Promise<string> {
  await cluster.kubectl("apply", "-f", join(ROOT, "infra/manifests/token-renewer/rbac.yaml"));
  const renewer = await cluster.plane.serviceAccountKubeconfig(OWN_NAMESPACE, "deltaloop-token-renewer");
  const from = performance.now();
  await cluster.kubectl("delete", "secret", BOUND_TO, "-n", OWN_NAMESPACE);
  let looks = 0;
  await eventually("functions are refused", async () => {
    // A paused rollout may send no request for a while, so this sets an annotation, which is copied to the ReplicaSet.
    await cluster.kubectl("annotate", "--overwrite", `deployment/${known}`, `drill/look=${++looks}`);
    return (await cluster.audit()).some(
      ({ userAgent, responseStatus }) => userAgent?.startsWith("deltaloop/") === true && responseStatus?.code === 401,
    );
  });
  measured(`tokens were taken away, functions refused after ${((performance.now() - from) / 1000).toFixed(1)} s`);
  const to = ["--secrets", secretName(STAGE, "kube/"), "--secrets-endpoint", secretsEndpoint];
  const rotate = deltaloop(["rotate", "tokens", "--kubeconfig", renewer, ...to]);
  const { code } = await rotate.exited;
  if (code !== 0) throw new Error(`deltaloop rotate tokens: exit ${code}:\n${rotate.output()}`);
  return rotate.output();
}
