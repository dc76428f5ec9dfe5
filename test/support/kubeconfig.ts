/** The text of a kubeconfig with one cluster, one user and one context. */
export function kubeconfigOf(cluster: { readonly server: string } & Readonly<Record<string, unknown>>, user: object = {}): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "c", cluster }],
    users: [{ name: "u", user }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  });
}
