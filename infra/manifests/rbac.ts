/** Generates the RBAC manifests from the permissions in shared/controllers/registry/rights.ts. */
import { rolesOf } from "@deltaloop/controllers/registry";
import type { Rule, Registry } from "@deltaloop/controllers/registry";

const NAMESPACE = "deltaloop";

/** Our pods satisfy the strictest Pod Security level. */
const POD_SECURITY = "  labels:\n    pod-security.kubernetes.io/enforce: restricted\n";

const RBAC_GROUP = "rbac.authorization.k8s.io";

/** Returns the text of infra/manifests/rbac.yaml. */
export function rbacYaml(registry: Registry): string {
  const documents = [
    `apiVersion: v1\nkind: Namespace\n${metadata(NAMESPACE)}${POD_SECURITY}`,
    ...rolesOf(registry).flatMap((role) => [
      `apiVersion: v1\nkind: ServiceAccount\n${metadata(role.name, NAMESPACE)}`,
      `apiVersion: ${RBAC_GROUP}/v1\nkind: ClusterRole\n${metadata(role.name)}${rulesYaml(role.clusterRules)}`,
      `apiVersion: ${RBAC_GROUP}/v1\nkind: ClusterRoleBinding\n${metadata(role.name)}${binding("ClusterRole", role.name)}`,
      ...(role.namespaceRules.length > 0
        ? [
            `apiVersion: ${RBAC_GROUP}/v1\nkind: Role\n${metadata(role.name, NAMESPACE)}${rulesYaml(role.namespaceRules)}`,
            `apiVersion: ${RBAC_GROUP}/v1\nkind: RoleBinding\n${metadata(role.name, NAMESPACE)}${binding("Role", role.name)}`,
          ]
        : []),
    ]),
  ];
  return documents.join("---\n");
}

function metadata(name: string, namespace?: string): string {
  return `metadata:\n  name: ${name}\n${namespace === undefined ? "" : `  namespace: ${namespace}\n`}`;
}

function rulesYaml(rules: readonly Rule[]): string {
  const lines = rules.flatMap(({ apiGroup, resource, verbs, name }) => [
    `  - apiGroups: ["${apiGroup}"]`,
    `    resources: ["${resource}"]`,
    ...(name === undefined ? [] : [`    resourceNames: ["${name}"]`]),
    `    verbs: [${verbs.map((verb) => `"${verb}"`).join(", ")}]`,
  ]);
  return `rules:\n${lines.join("\n")}\n`;
}

function binding(kind: "ClusterRole" | "Role", name: string): string {
  const roleRef = `roleRef:\n  apiGroup: ${RBAC_GROUP}\n  kind: ${kind}\n  name: ${name}\n`;
  return `${roleRef}subjects:\n  - kind: ServiceAccount\n    name: ${name}\n    namespace: ${NAMESPACE}\n`;
}
