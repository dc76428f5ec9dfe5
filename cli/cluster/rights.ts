/** The permissions that each role needs and those that the available credentials lack, derived from the same list as the RBAC rules. */
import { createClient } from "@deltaloop/kube/http";
import type { KubeClient, KubeHttpConfig } from "@deltaloop/kube/http";
import { ROLES } from "@deltaloop/controllers/registry";
import type { Role, Rule } from "@deltaloop/controllers/registry";

export interface Right {
  readonly role: string;
  /** The permission as arguments of `kubectl auth can-i`: `create pods`, `patch replicasets.apps/status`. */
  readonly what: string;
  readonly allowed: boolean;
}

interface ReviewOptions {
  readonly act: boolean;
  readonly leaseNamespace: string;
  readonly connect?: (config: KubeHttpConfig) => Pick<KubeClient, "json">;
}

/** Reviews every permission of every role; in shadow mode only the reads. */
export async function reviewRights(access: (role: string) => Promise<KubeHttpConfig>, options: ReviewOptions): Promise<readonly Right[]> {
  const reviews = await Promise.all(ROLES.map(async (role) => reviewRole(role, await access(role.name), options)));
  return reviews.flat();
}

/** Each concurrent request has its own connection, and a TLS handshake costs more than a review. */
const AT_ONCE_MAX = 3;
const READS = new Set(["get", "list", "watch"]);

/** Same as reviewRights, but for one role. */
export async function reviewRole(
  role: Role,
  config: KubeHttpConfig,
  { act, leaseNamespace, connect = createClient }: ReviewOptions,
): Promise<readonly Right[]> {
  const client = connect(config);
  const asked = [...questions(role.clusterRules), ...(act ? questions(role.namespaceRules, leaseNamespace) : [])];
  const relevant = asked.filter(({ verb }) => act || READS.has(verb));
  const reviews: Right[] = [];
  for (let next = 0; next < relevant.length; next += AT_ONCE_MAX)
    reviews.push(...(await Promise.all(relevant.slice(next, next + AT_ONCE_MAX).map((question) => review(role, client, question)))));
  return reviews;
}

async function review({ name }: Role, client: Pick<KubeClient, "json">, { verb, rule, namespace }: Question): Promise<Right> {
  const [resource = "", subresource] = rule.resource.split("/");
  const resourceAttributes = { verb, group: rule.apiGroup, resource, subresource, name: rule.name, namespace };
  const body = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: { resourceAttributes } };
  const answer = await client.json({ method: "POST", path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body });
  const { status } = answer as { readonly status?: { readonly allowed?: boolean } }; // the response is a review
  const group = rule.apiGroup === "" ? "" : `.${rule.apiGroup}`;
  const where = namespace === undefined ? "" : ` in namespace ${namespace}`;
  return {
    role: name,
    what: `${verb} ${resource}${group}${subresource === undefined ? "" : `/${subresource}`}${where}`,
    allowed: status?.allowed === true,
  };
}

interface Question {
  readonly verb: string;
  readonly rule: Rule;
  readonly namespace: string | undefined;
}

function questions(rules: readonly Rule[], namespace?: string): readonly Question[] {
  return rules.flatMap((rule) => rule.verbs.map((verb) => ({ verb, rule, namespace })));
}
