/**
 * Authorizes requests (node-agent §15) with a SubjectAccessReview for `nodes/<subresource>` of this node.
 *
 * Source: pkg/kubelet/server/auth.go GetRequestAttributes, server.go InstallAuthFilter; apiserver plugin/pkg/authorizer/webhook.
 */
import type { Clock, Log } from "@deltaloop/base";
import type { KubeWriter } from "@deltaloop/kube/client";
import type { User } from "./authentication.ts";
import { createExpiringCache, review } from "./review.ts";

/** Returns `undefined` if the request is allowed, otherwise the rejection. @throws the signal's reason */
export type Authorize = (user: User, request: RequestAttributes) => Promise<Refusal | undefined>;

interface RequestAttributes {
  readonly method: string;
  readonly path: string;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
}

export interface Refusal {
  readonly code: 403 | 500;
  readonly text: string;
}

/** Upstream's defaults of `authorization.webhook.cacheAuthorizedTTL` and `cacheUnauthorizedTTL`. */
const ALLOWED_MS = 5 * 60_000;
const DENIED_MS = 30_000;
const DECISIONS_MAX = 8_192;
/** Attributes longer than this are not cached. Source: webhook.go shouldCache. */
const ATTRIBUTES_CHARS_MAX = 10_000;

const VERBS: Readonly<Record<string, string>> = { POST: "create", GET: "get", PUT: "update", PATCH: "patch", DELETE: "delete" };

/** Fine-grained subresources (since 1.33). Access to either the fine-grained or the coarse subresource is sufficient. */
const FINE_GRAINED = { "/pods": "pods", "/healthz": "healthz", "/configz": "configz", "/runningpods": "pods" } as const;
const COARSE = {
  "/stats": "stats",
  "/metrics": "metrics",
  "/logs": "log",
  "/checkpoint": "checkpoint",
  "/statusz": "statusz",
  "/flagz": "configz",
} as const;

/** Returns the subresources of `nodes` for a path, each of which is sufficient; `proxy` covers all other paths. */
export function subresourcesOf(path: string): readonly string[] {
  const under = (names: Readonly<Record<string, string>>): string | undefined =>
    Object.entries(names).find(([prefix]) => path === prefix || path.startsWith(`${prefix}/`))?.[1];
  const fine = under(FINE_GRAINED);
  return [...(fine === undefined ? [] : [fine]), under(COARSE) ?? "proxy"];
}

/**
 * Returns the RBAC verb. Differs from upstream: exec, attach, port-forward and run always require `create`, even for a WebSocket upgrade,
 * which is a GET, because read access must not permit commands.
 */
function verbOf(method: string, path: string): string {
  return /^\/(?:exec|attach|portForward|run)\//u.test(path) ? "create" : (VERBS[method] ?? "");
}

export function createAuthorization(given: {
  readonly kube: KubeWriter;
  readonly clock: Clock;
  readonly log: Log;
  readonly nodeName: string;
}): Authorize {
  const { clock, log, nodeName } = given;
  const decisions = createExpiringCache<boolean>(clock, DECISIONS_MAX);

  async function isAllowed(spec: object, signal: AbortSignal): Promise<boolean> {
    const attributes = JSON.stringify(spec);
    const cached = decisions.get(attributes);
    if (cached !== undefined) return cached;
    const allowed = isAllowedBy(await review(given, "subjectaccessreviews", { spec, signal }));
    if (attributes.length <= ATTRIBUTES_CHARS_MAX) decisions.set(attributes, allowed, allowed ? ALLOWED_MS : DENIED_MS);
    return allowed;
  }

  return async ({ name: user, uid, groups, extra }, { method, path, signal }) => {
    const verb = verbOf(method, path);
    const subresources = subresourcesOf(path);
    const who = `user=${user}, verb=${verb}, resource=nodes`;
    for (const subresource of subresources) {
      const resourceAttributes = { verb, version: "v1", resource: "nodes", subresource, name: nodeName };
      try {
        if (await isAllowed({ user, ...(uid !== undefined && { uid }), groups, extra, resourceAttributes }, signal)) return undefined;
      } catch (error) {
        signal.throwIfAborted();
        log.error("authorization failed", { user, verb, subresource, error: String(error) });
        return { code: 500, text: `Authorization error (${who}, subresource=${subresource})` };
      }
    }
    log.info("request forbidden", { user, verb, subresources: subresources.join(" ") });
    return { code: 403, text: `Forbidden (${who}, subresource(s)=[${subresources.join(" ")}])\n` };
  };
}

function isAllowedBy(status: unknown): boolean {
  if (typeof status !== "object" || status === null) return false;
  return "allowed" in status && status.allowed === true && !("denied" in status && status.denied === true);
}
