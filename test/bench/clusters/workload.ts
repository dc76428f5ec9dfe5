/** The objects of the measured clusters. */
export const NAMESPACE = "shop";
export const DEPLOYMENTS = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments`;
export const REPLICA_SETS = `/apis/apps/v1/namespaces/${NAMESPACE}/replicasets`;
export const PODS = `/api/v1/namespaces/${NAMESPACE}/pods`;

export function deploymentOf(name: string, replicas: number): object {
  const labels = { app: name };
  const template = { metadata: { labels }, spec: { containers: [{ name: "main", image: "bench:1" }] } };
  return { apiVersion: "apps/v1", kind: "Deployment", metadata: { name }, spec: { replicas, selector: { matchLabels: labels }, template } };
}
