/**
 * Authenticates clients (node-agent §15), by a client certificate from the configured CA or by a bearer token that the API server
 * accepts. There is no anonymous access.
 *
 * Source: cmd/kubelet/app/auth.go BuildAuthn; apiserver pkg/authentication/{request/x509,request/bearertoken,token/cache}.
 */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import * as v from "valibot";
import type { Clock, Log } from "@deltaloop/base";
import { CALLS_AT_ONCE_MAX } from "@deltaloop/kube/client";
import type { KubeWriter } from "@deltaloop/kube/client";
import { createSlots } from "@deltaloop/base";
import { createExpiringCache, review } from "./review.ts";

export interface User {
  readonly name: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

/** Returns `undefined` if the user is unknown. @throws the signal's reason */
export type Authenticate = (request: IncomingMessage, signal: AbortSignal) => Promise<User | undefined>;

/** Upstream's default of `authentication.webhook.cacheTTL`; applies to accepted and rejected tokens. */
const TOKEN_MS = 2 * 60_000;
const TOKENS_MAX = 8_192;
/** Limits unauthenticated load, because the calls for the node's pods use the same client. */
const TOKEN_REVIEWS_AT_ONCE_MAX = CALLS_AT_ONCE_MAX / 4;
const AUTHENTICATED = "system:authenticated";
const CREDENTIAL_ID = "authentication.kubernetes.io/credential-id";

export function createAuthentication(given: { readonly kube: KubeWriter; readonly clock: Clock; readonly log: Log }): Authenticate {
  const { clock, log } = given;
  // Keyed by a digest, so that a memory dump of the cache contains no token.
  const known = createExpiringCache<{ readonly user: User | undefined }>(clock, TOKENS_MAX);
  const slots = createSlots(TOKEN_REVIEWS_AT_ONCE_MAX);

  async function userOfToken(token: string, signal: AbortSignal): Promise<User | undefined> {
    const digest = createHash("sha256").update(token).digest("base64");
    const { user } = known.get(digest) ?? (await reviewed(token, digest, signal));
    return user;
  }

  async function reviewed(token: string, digest: string, signal: AbortSignal): Promise<{ readonly user: User | undefined }> {
    const release = await slots.acquire(signal);
    try {
      const before = known.get(digest); // a concurrent request may have reviewed the same token
      if (before !== undefined) return before;
      const found = { user: userOfStatus(await review(given, "tokenreviews", { spec: { token }, signal })) };
      known.set(digest, found, TOKEN_MS);
      return found;
    } finally {
      release();
    }
  }

  return async (request, signal) => {
    const user = userOfCertificate(request, clock.now());
    if (user !== undefined) return user;
    const token = bearerToken(request.headers.authorization);
    if (token === undefined) return undefined;
    try {
      return await userOfToken(token, signal);
    } catch (error) {
      signal.throwIfAborted();
      log.warn("token review failed; request rejected", { error: String(error) });
      return undefined;
    }
  };
}

/** Checks the expiry on every request, because a connection may outlive its certificate. */
function userOfCertificate({ socket }: IncomingMessage, nowMs: number): User | undefined {
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined;
  const { subject, valid_to: validTo, fingerprint256 } = socket.getPeerCertificate();
  const name = [subject?.CN ?? []].flat().at(-1) ?? "";
  if (name === "" || !(nowMs <= Date.parse(validTo))) return undefined;
  const id = `X509SHA256=${fingerprint256.replaceAll(":", "").toLowerCase()}`;
  return { name, groups: withAuthenticated([subject.O ?? []].flat()), extra: { [CREDENTIAL_ID]: [id] } };
}

/** Parses `Bearer <token>`; the scheme is case-insensitive. */
function bearerToken(header: string | undefined): string | undefined {
  const [scheme, token] = (header ?? "").trim().split(" ");
  return scheme?.toLowerCase() === "bearer" && token !== undefined && token !== "" ? token : undefined;
}

const TOKEN_REVIEW_STATUS = v.object({
  authenticated: v.literal(true),
  user: v.object({
    username: v.string(),
    uid: v.optional(v.string()),
    groups: v.optional(v.array(v.string()), []),
    extra: v.optional(v.record(v.string(), v.array(v.string())), {}),
  }),
});

function userOfStatus(status: unknown): User | undefined {
  const parsed = v.safeParse(TOKEN_REVIEW_STATUS, status);
  if (!parsed.success) return undefined;
  const { username, uid, groups, extra } = parsed.output.user;
  return { name: username, groups: withAuthenticated(groups), extra, ...(uid !== undefined && uid !== "" && { uid }) };
}

function withAuthenticated(groups: readonly string[]): readonly string[] {
  return groups.includes(AUTHENTICATED) ? groups : [...groups, AUTHENTICATED];
}
