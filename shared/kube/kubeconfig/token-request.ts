import type { KubeWriter } from "../client/kube.ts";

/** Namespace of the service accounts (infra/manifests/rbac.yaml). */
const OWN_NAMESPACE = "deltaloop";

export interface IssuedToken {
  readonly token: string;
  /** Time at which the token expires. The server may grant a shorter or longer lifetime than requested. */
  readonly endsMs: number;
}

/** Requests a token of limited lifetime for one of our service accounts. @throws {KubeApiError} if it is missing or the request is forbidden */
export async function requestToken(
  kube: Pick<KubeWriter, "create">,
  {
    serviceAccount,
    seconds,
    namespace = OWN_NAMESPACE,
  }: { readonly serviceAccount: string; readonly seconds: number; readonly namespace?: string },
): Promise<IssuedToken> {
  const answer = await kube.create({
    resource: "serviceaccounts",
    namespace,
    of: { name: serviceAccount, subresource: "token" },
    body: { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: { expirationSeconds: seconds } },
  });
  const { status } = answer as unknown as { readonly status: { readonly token: string; readonly expirationTimestamp: string } }; // the response is a TokenRequest
  return { token: status.token, endsMs: Date.parse(status.expirationTimestamp) };
}
