/** TokenReview and SubjectAccessReview, which the API server evaluates without storing them. */
import { RESOURCES } from "@deltaloop/kube/objects";
import type { Resource } from "@deltaloop/kube/objects";
import type { Clock } from "@deltaloop/base";
import { isTooManyRequests, isUnanswered } from "@deltaloop/kube/client";
import type { KubeWriter } from "@deltaloop/kube/client";

/** Source: apiserver pkg/server/options authentication.go DefaultAuthWebhookRetryBackoff. */
const ATTEMPTS_MAX = 5;
const RETRY_MS = 500;
const RETRY_FACTOR = 1.5;

/**
 * Returns the `status` of the review. Retries while the API server is unavailable, so that `kubectl logs` works while the API server
 * restarts. @param given.signal aborts when no caller waits any more @throws {KubeApiError | UnansweredError} the error of the last
 * attempt
 */
export async function review(
  { kube, clock }: { readonly kube: KubeWriter; readonly clock: Clock },
  resource: Extract<Resource, "tokenreviews" | "subjectaccessreviews">,
  { spec, signal }: { readonly spec: object; readonly signal: AbortSignal },
): Promise<unknown> {
  const { apiVersion, kind } = RESOURCES[resource];
  for (let attempt = 1, delayMs = RETRY_MS; ; attempt++, delayMs *= RETRY_FACTOR) {
    try {
      const answer = await kube.create({ resource, namespace: "", body: { apiVersion, kind, metadata: {}, spec } });
      return "status" in answer ? answer.status : undefined;
    } catch (error) {
      if (attempt === ATTEMPTS_MAX || !(isUnanswered(error) || isTooManyRequests(error))) throw error;
      await clock.after(delayMs, signal);
    }
  }
}

/** A cache whose entries expire, with a maximum size. When it is full, it evicts the oldest entry. */
export interface ExpiringCache<T> {
  get(key: string): T | undefined;
  set(key: string, value: T, ttlMs: number): void;
}

export function createExpiringCache<T>(clock: Clock, entriesMax: number): ExpiringCache<T> {
  const entries = new Map<string, { readonly value: T; readonly untilMs: number }>();
  return {
    get(key) {
      const entry = entries.get(key);
      if (entry !== undefined && clock.now() < entry.untilMs) return entry.value;
      entries.delete(key);
      return undefined;
    },
    set(key, value, ttlMs) {
      entries.delete(key); // moves the entry to the end
      for (const oldest of entries.keys()) {
        if (entries.size < entriesMax) break;
        entries.delete(oldest);
      }
      entries.set(key, { value, untilMs: clock.now() + ttlMs });
    },
  };
}
