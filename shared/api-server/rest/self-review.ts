/** SelfSubject reviews. Every client is an administrator. */
import { type JsonObject, objectAt } from "@deltaloop/base";

const USER = { username: "kubernetes-admin", groups: ["system:masters", "system:authenticated"] };

const REVIEWS = {
  SelfSubjectReview: "/apis/authentication.k8s.io/v1/selfsubjectreviews",
  SelfSubjectAccessReview: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
  SelfSubjectRulesReview: "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
};

export function isReview(path: string): boolean {
  return Object.values(REVIEWS).includes(path);
}

/** The response to a review that was posted to `path`. */
export function review(path: string, body: JsonObject): JsonObject {
  switch (path) {
    case REVIEWS.SelfSubjectReview:
      return { ...body, kind: "SelfSubjectReview", apiVersion: "authentication.k8s.io/v1", status: { userInfo: { ...USER } } };
    case REVIEWS.SelfSubjectAccessReview:
      return { ...body, kind: "SelfSubjectAccessReview", apiVersion: "authorization.k8s.io/v1", status: { allowed: true } };
    default:
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
  }
}
