import type { KubeCalls } from "./calls.ts";

/** The user name of the client's credentials; empty if the API server does not return it. */
export async function readUser(client: Pick<KubeCalls, "json">): Promise<string> {
  const body = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
  const answer = await client.json({ method: "POST", path: "/apis/authentication.k8s.io/v1/selfsubjectreviews", body });
  const { status } = answer as { readonly status?: { readonly userInfo?: { readonly username?: string } } }; // the response is a SelfSubjectReview
  return status?.userInfo?.username ?? "";
}
