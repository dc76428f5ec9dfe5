/**
 * Calls of a starting command. A control plane that starts or rolls over returns 503 or closes connections for a minute, so reads, reviews
 * and token requests are retried; an error that indicates a misconfiguration ends the command at once.
 */
import type { Clock } from "@deltaloop/base";
import { describeError } from "../client/describe-error.ts";
import { isForbidden, KubeApiError, NotKubernetesError, NotSentError, UnansweredError } from "../client/errors.ts";
import type { Call, KubeCalls } from "./calls.ts";
import { readUser } from "./self-subject-review.ts";

export interface StartupOptions {
  /** Retry period from the first failure on. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** Called once, when a call has failed for two seconds, with a description of the failing call. */
  readonly onWaiting: (awaited: string) => void;
}

/** A call failed until the command gave up; the message has the call, the error and the remedy. */
export class StartupError extends Error {
  override readonly name = "StartupError";
}

const FIRST_WAIT_MS = 500;
const WAIT_MS_MAX = 5_000;
const NOTICE_AFTER_MS = 2_000;
/** New role bindings reach the authorizer of each API server within seconds. */
const FORBIDDEN_MS = 10_000;
/** Paths of POST requests that store nothing. */
const VIRTUAL_RESOURCE = /\/(?:selfsubject\w*reviews|serviceaccounts\/[^/]+\/token)$/;
const CERTIFICATE_ERROR = /^(?:CERT_|ERR_TLS_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH|INVALID_PURPOSE|ERR_SSL_)/;

/** Returns `client`, which retries idempotent calls while the API server starts. Its calls throw {StartupError}. */
export function startupClient<C extends KubeCalls>(client: C, { timeoutMs, clock, onWaiting }: StartupOptions): C {
  let failingSinceMs: number | undefined;
  let isNoticed = false;

  async function json(call: Call): Promise<unknown> {
    const answered = new AbortController();
    let awaited = "no answer yet";
    const notice = (): void => {
      if (!isNoticed) onWaiting(`${call.method} ${call.path}: ${awaited}`);
      isNoticed = true;
    };
    clock.after(NOTICE_AFTER_MS, answered.signal).then(notice, () => undefined);
    try {
      return await repeated(call, clock.now(), (error) => (awaited = describeError(error)));
    } finally {
      answered.abort();
    }
  }

  async function repeated(call: Call, startMs: number, onFailure: (error: unknown) => void): Promise<unknown> {
    for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(2 * waitMs, WAIT_MS_MAX)) {
      try {
        const answer = await client.json(call);
        failingSinceMs = undefined;
        return answer;
      } catch (error) {
        call.signal?.throwIfAborted();
        failingSinceMs ??= startMs;
        const failingMs = clock.now() - failingSinceMs;
        const retryMs = isIdempotent(call) ? Math.min(timeoutMs, retryWindowMs(error)) : 0;
        if (failingMs + waitMs > retryMs) throw await failed(call, error, failingMs);
        onFailure(error);
        await clock.after(waitMs, call.signal);
      }
    }
  }

  async function failed(call: Call, error: unknown, failingMs: number): Promise<unknown> {
    const user = isForbidden(error) ? await readUser(client).catch(() => "") : "";
    const remedy = remedyFor(error, user);
    if (remedy === undefined) return error;
    const after = failingMs >= NOTICE_AFTER_MS ? ` for ${Math.round(failingMs / 1_000)}s` : "";
    return new StartupError(`${call.method} ${call.path} fails${after}: ${describeError(error)}. ${remedy}`, { cause: error });
  }

  return { ...client, json };
}

function isIdempotent({ method, path }: Call): boolean {
  return method === "GET" || (method === "POST" && VIRTUAL_RESOURCE.test(path));
}

/** How long calls that fail with this error are retried. */
function retryWindowMs(error: unknown): number {
  if (error instanceof NotSentError) return Number.POSITIVE_INFINITY;
  if (error instanceof NotKubernetesError) return 0;
  if (error instanceof UnansweredError) return isCertificateError(error) ? 0 : Number.POSITIVE_INFINITY;
  if (!(error instanceof KubeApiError)) return 0;
  if (error.code === 403) return FORBIDDEN_MS;
  return error.code === 429 || error.code >= 500 ? Number.POSITIVE_INFINITY : 0;
}

export function isCertificateError(error: Error): boolean {
  for (let each: unknown = error; each instanceof Error; each = each.cause)
    if ("code" in each && CERTIFICATE_ERROR.test(String(each.code))) return true;
  return false;
}

function remedyFor(error: unknown, user: string): string | undefined {
  if (error instanceof KubeApiError) {
    if (error.code === 401)
      return "The API server does not accept the credentials: renew the token or certificate of the kubeconfig's user";
    if (error.code === 403)
      return `${user === "" ? "The user" : `User ${user}`} lacks this permission: bind a role that has it (infra/manifests/rbac.yaml) to the user, or use another context`;
    return error.code === 429 || error.code >= 500 ? "Wait until the API server is healthy, or raise --startup-timeout" : undefined;
  }
  if (error instanceof NotKubernetesError) return "Check that the kubeconfig's server is a Kubernetes API server";
  if (!(error instanceof UnansweredError || error instanceof NotSentError)) return undefined;
  return isCertificateError(error)
    ? "The server's certificate is not trusted: check certificate-authority and tls-server-name of the kubeconfig's cluster"
    : "Check the address of the kubeconfig's cluster, proxies and firewalls, or raise --startup-timeout";
}
