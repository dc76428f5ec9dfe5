/** Tokens of our service accounts: such as can be taken away, which one it is, and what it may do. */
import type { Cluster } from "../e2e.ts";
import { OWN_NAMESPACE } from "../e2e.ts";

/** What those of `revocableToken` are bound to. */
const BOUND_TO = "drill-tokens";

/** One that ends when `revokeTokens` is called. */
export async function revocableToken(cluster: Cluster, serviceAccount: string): Promise<string> {
  await cluster.apply({ apiVersion: "v1", kind: "Secret", metadata: { name: BOUND_TO, namespace: OWN_NAMESPACE } });
  const bound = ["--bound-object-kind=Secret", `--bound-object-name=${BOUND_TO}`];
  return (await cluster.kubectl("create", "token", serviceAccount, "-n", OWN_NAMESPACE, "--duration=2h", ...bound)).trim();
}

/** The API server forgets them within ten seconds. */
export async function revokeTokens(cluster: Cluster): Promise<void> {
  await cluster.kubectl("delete", "secret", BOUND_TO, "-n", OWN_NAMESPACE);
}
