/** The objects of the measured clusters. */
export const NAMESPACE = "shop";
export const DEPLOYMENTS = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments`;
export const REPLICA_SETS = `/apis/apps/v1/namespaces/${NAMESPACE}/replicasets`;
export const PODS = `/api/v1/namespaces/${NAMESPACE}/pods`;

/** `canary`: a text in the pod template that identifies the cluster. */
export function deploymentOf(name: string, replicas: number, canary?: string): object {
  const labels = { app: name };
  const env = canary === undefined ? {} : { env: [{ name: "CANARY", value: canary }] };
  const template = { metadata: { labels }, spec: { containers: [{ name: "main", image: "bench:1", ...env }] } };
  const strategy = canary === undefined ? {} : { strategy: { type: "Recreate" } }; // pods without nodes never become ready
  const spec = { replicas, selector: { matchLabels: labels }, template, ...strategy };
  return { apiVersion: "apps/v1", kind: "Deployment", metadata: { name }, spec };
}
