/** SelfSubject reviews. Every client is an administrator. */
import { type JsonObject, objectAt } from "@deltaloop/base";

const USER = { username: "kubernetes-admin", groups: ["system:masters", "system:authenticated"] };

/** The response to a review posted to `path`, or `undefined` if `path` is not a review. */
export function review(path: string, body: JsonObject): JsonObject | undefined {
  switch (path) {
    case "/apis/authentication.k8s.io/v1/selfsubjectreviews":
      return { ...body, kind: "SelfSubjectReview", apiVersion: "authentication.k8s.io/v1", status: { userInfo: { ...USER } } };
    case "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
      return { ...body, kind: "SelfSubjectAccessReview", apiVersion: "authorization.k8s.io/v1", status: { allowed: true } };
    case "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews":
      return {
        ...body,
        kind: "SelfSubjectRulesReview",
        apiVersion: "authorization.k8s.io/v1",
        spec: objectAt(body, "spec") ?? {},
        status: {
          resourceRules: [{ verbs: ["*"], apiGroups: ["*"], resources: ["*"] }],
          nonResourceRules: [{ verbs: ["*"], nonResourceURLs: ["*"] }],
          incomplete: false,
        },
      };
    default:
      return undefined;
  }
}
