/** TokenReview and SubjectAccessReview: objects that are answered and not stored. */
import type { Resource } from "../../api/resources.ts";
import { RESOURCES } from "../../api/resources.ts";
import type { Clock } from "../../ports/clock.ts";
import { isTooManyRequests, isUnanswered } from "../../ports/errors.ts";
import type { KubeWriter } from "../../ports/kube.ts";

/** Source: apiserver pkg/server/options authentication.go DefaultAuthWebhookRetryBackoff. */
const ATTEMPTS_MAX = 5;
const RETRY_MS = 500;
const RETRY_FACTOR = 1.5;

/**
 * The `status` of the answer. An API server that does not answer is asked again: while it restarts, `kubectl logs` had better wait.
 *
 * @throws {KubeApiError | UnansweredError} what the last attempt ended with
 */
export async function review(
  { kube, clock }: { readonly kube: KubeWriter; readonly clock: Clock },
  resource: Extract<Resource, "tokenreviews" | "subjectaccessreviews">,
  spec: object,
): Promise<unknown> {
  const { apiVersion, kind } = RESOURCES[resource];
  for (let attempt = 1, delayMs = RETRY_MS; ; attempt++, delayMs *= RETRY_FACTOR) {
    try {
      const answer = await kube.create({ resource, namespace: "", body: { apiVersion, kind, metadata: {}, spec } });
      return "status" in answer ? answer.status : undefined;
    } catch (error) {
      if (attempt === ATTEMPTS_MAX || !(isUnanswered(error) || isTooManyRequests(error))) throw error;
      await clock.after(delayMs);
    }
  }
}
