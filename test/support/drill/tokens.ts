/** Tokens of our service accounts: such as can be taken away, which one it is, and what it may do. */
import { join } from "node:path";

import { STAGE } from "../../../infra/local/deploy.ts";
import { secretName } from "../../../shared/controllers/registry/names.ts";
import { deltaloop, eventually, measured, OWN_NAMESPACE, ROOT } from "../e2e.ts";
import type { Cluster } from "../e2e.ts";

/** What those of `revocableToken` are bound to. */
const BOUND_TO = "drill-tokens";

/** One that ends when `revokeTokens` is called. */
export async function revocableToken(cluster: Cluster, serviceAccount: string): Promise<string> {
  await cluster.apply({ apiVersion: "v1", kind: "Secret", metadata: { name: BOUND_TO, namespace: OWN_NAMESPACE } });
  const bound = ["--bound-object-kind=Secret", `--bound-object-name=${BOUND_TO}`];
  return (await cluster.kubectl("create", "token", serviceAccount, "-n", OWN_NAMESPACE, "--duration=2h", ...bound)).trim();
}

/**
 * Takes those away, waits until functions are refused, and has `deltaloop rotate tokens` ask for others and write them. The API server forgets
 * them within ten seconds. `known`: a Deployment in the default namespace. @returns what the command said. @throws when it does not end with 0
 */
export async function takeTokensAndRotate(cluster: Cluster, known: string, secretsEndpoint: string): Promise<string> {
  await cluster.kubectl("apply", "-f", join(ROOT, "infra/manifests/token-renewer.yaml"));
  const renewer = await cluster.plane.serviceAccountKubeconfig(OWN_NAMESPACE, "deltaloop-token-renewer");
  const from = performance.now();
  await cluster.kubectl("delete", "secret", BOUND_TO, "-n", OWN_NAMESPACE);
  let looks = 0;
  await eventually("functions are refused", async () => {
    // A rollout that is held may ask nothing of them for a while; an annotation is copied to the ReplicaSet.
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
