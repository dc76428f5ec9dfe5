/** A kubeconfig for an in-memory API server, which has no users. `name` is that of its context. */
export function embeddedKubeconfig(url: string, name: string): string {
  const config = {
    apiVersion: "v1",
    kind: "Config",
    "current-context": name,
    clusters: [{ name, cluster: { server: url } }],
    contexts: [{ name, context: { cluster: name, user: name, namespace: "default" } }],
    users: [{ name, user: {} }],
  };
  return `${JSON.stringify(config, null, 2)}\n`; // JSON is YAML
}
