/**
 * The rights of a credential as the API server reports them, and the requests made with it. A right is written as `patch
 * apps/replicasets/status`.
 */
import type { KubeClient } from "../../../shared/kube/http/client.ts";
import { isForbidden } from "../../../shared/kube/client/errors.ts";
import type { Role } from "../../../shared/controllers/registry/rights.ts";
import type { AuditEntry } from "../e2e.ts";
import { OWN_NAMESPACE } from "../e2e.ts";

interface ResourceRule {
  readonly verbs: readonly string[];
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
}

/** All rights in `namespace`, from any binding. */
export async function rightsOf(client: KubeClient, namespace: string): Promise<ReadonlySet<string>> {
  const body = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectRulesReview", spec: { namespace } };
  const answer = await client.json({ method: "POST", path: "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body });
  const { status } = answer as { readonly status: { readonly resourceRules: readonly ResourceRule[] } }; // a SelfSubjectRulesReview
  return new Set(
    status.resourceRules.flatMap(({ verbs, apiGroups = [], resources = [], resourceNames = [] }) =>
      verbs.flatMap((verb) =>
        apiGroups.flatMap((group) => resources.map((resource) => right(verb, group, resource) + named(resourceNames))),
      ),
    ),
  );
}

/** The rights of one of our roles in any namespace except our own. */
export function rightsIn({ clusterRules }: Role): ReadonlySet<string> {
  return new Set(
    clusterRules.flatMap(({ apiGroup, resource, verbs, name }) =>
      verbs.map((verb) => right(verb, apiGroup, resource) + named(name === undefined ? [] : [name])),
    ),
  );
}

/** The rights of `role` in the namespace of the watcher's Lease. */
export function rightsAtTheLease({ namespaceRules }: Role): ReadonlySet<string> {
  return new Set(
    namespaceRules.flatMap(({ apiGroup, resource, verbs, name }) =>
      verbs.map((verb) => right(verb, apiGroup, resource) + named(name === undefined ? [] : [name])),
    ),
  );
}

export interface Use {
  readonly right: string;
  readonly code: number;
}

/** The rights that a function has used under the service account of that name, including those of the doctor. */
export function usesOf(audit: readonly AuditEntry[], serviceAccount: string): readonly Use[] {
  return audit
    .filter(({ user }) => user.username === `system:serviceaccount:${OWN_NAMESPACE}:${serviceAccount}`)
    .filter(({ userAgent = "" }) => userAgent.startsWith("deltaloop/") && !userAgent.endsWith("(doctor)"))
    .flatMap(({ verb, objectRef: { apiGroup = "", resource, subresource } = {}, responseStatus }) =>
      resource === undefined
        ? []
        : [
            {
              right: right(verb, apiGroup, subresource === undefined ? resource : `${resource}/${subresource}`),
              code: responseStatus?.code ?? 0,
            },
          ],
    );
}

/** Requests that need a right which no function or only one function has. The API server rejects them, so they change nothing. */
const CALLS: readonly (readonly [right: string, method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE", path: string])[] = [
  ["list /secrets", "GET", "/api/v1/namespaces/default/secrets"],
  ["get /configmaps", "GET", "/api/v1/namespaces/default/configmaps/secretive"],
  ["list /nodes", "GET", "/api/v1/nodes"],
  ["create /serviceaccounts/token", "POST", `/api/v1/namespaces/${OWN_NAMESPACE}/serviceaccounts/deltaloop-watcher/token`],
  ["create rbac.authorization.k8s.io/clusterrolebindings", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"],
  ["update coordination.k8s.io/leases", "PUT", `/apis/coordination.k8s.io/v1/namespaces/${OWN_NAMESPACE}/leases/deltaloop-watcher-local`],
  ["watch /pods", "GET", "/api/v1/pods?watch=true&timeoutSeconds=1"],
  ["create /pods/exec", "POST", "/api/v1/namespaces/default/pods/none/exec?command=id"],
  ["create /pods", "POST", "/api/v1/namespaces/default/pods"],
  ["delete /pods", "DELETE", "/api/v1/namespaces/default/pods/none"],
  ["deletecollection /pods", "DELETE", "/api/v1/namespaces/default/pods"],
  ["update /pods", "PUT", "/api/v1/namespaces/default/pods/none"],
  ["patch apps/deployments", "PATCH", "/apis/apps/v1/namespaces/default/deployments/none"],
  ["delete apps/deployments", "DELETE", "/apis/apps/v1/namespaces/default/deployments/none"],
  ["patch apps/replicasets", "PATCH", "/apis/apps/v1/namespaces/default/replicasets/none"],
  ["delete apps/replicasets", "DELETE", "/apis/apps/v1/namespaces/default/replicasets/none"],
  ["patch apps/replicasets/status", "PATCH", "/apis/apps/v1/namespaces/default/replicasets/none/status"],
  ["patch /replicationcontrollers/status", "PATCH", "/api/v1/namespaces/default/replicationcontrollers/none/status"],
  ["delete /replicationcontrollers", "DELETE", "/api/v1/namespaces/default/replicationcontrollers/none"],
  ["list apps/daemonsets", "GET", "/apis/apps/v1/daemonsets"],
];

/**
 * Sends each request of CALLS whose right is not in `has`.
 * @returns the rights whose requests were not forbidden
 */
export async function triedBeyond(
  client: KubeClient,
  has: ReadonlySet<string>,
): Promise<{ readonly tried: number; readonly through: readonly string[] }> {
  const beyond = CALLS.filter(([which]) => !has.has(which));
  const through: string[] = [];
  for (const [which, method, path] of beyond) {
    const body = method === "GET" || method === "DELETE" ? {} : { body: {} };
    const contentType = method === "PATCH" ? { contentType: "application/merge-patch+json" } : {};
    const [end] = await Promise.allSettled([client.json({ method, path, ...body, ...contentType })]);
    if (end.status === "fulfilled" || !isForbidden(end.reason)) through.push(which);
  }
  return { tried: beyond.length, through };
}

function right(verb: string, group: string, resource: string): string {
  return `${verb} ${group}/${resource}`;
}

function named(names: readonly string[]): string {
  return names.length === 0 ? "" : ` ${names.join(",")}`;
}
