/** HTTP probes and hooks: a GET, with one deadline that includes redirects and the body. */
import { get } from "../http/get.ts";
import type { Response } from "../http/response.ts";
import { hostnameOf, urlText } from "../http/url.ts";
import type { HttpProbe, ProbeOutcome } from "../ports/prober.ts";
import { messageOf } from "@deltaloop/kube/objects";
import { within } from "./deadline.ts";
import { BYTES_MAX, cut } from "./output.ts";
import { firstTarget, redirectTarget, type Target } from "./target.ts";

/** Source: pkg/probe/http/http.go RedirectChecker, which rejects the tenth redirect. */
const REQUESTS_MAX = 10;
/** Maximum size of all frames on an HTTP/2 connection. */
const HTTP2_BYTES_MAX = 128 * 1024;
/** OpenSSL's error for a response that starts with `HTTP/`; Node.js has no error code for it. */
const PLAIN_ANSWER = /wrong version number|packet length too long/iu;

interface Answer {
  readonly status: number;
  readonly body: string;
  /** The reason why the body is incomplete. */
  readonly brokenOff?: string;
}

/** There was no response. */
interface Failed {
  readonly failure: string;
  readonly answeredInPlainHttp?: boolean;
}

/**
 * Source: pkg/probe/http/http.go DoHTTPProbe; pkg/kubelet/lifecycle/handlers.go runHTTPHandler.
 *
 * Differs from upstream: an incomplete or late body is a failure, whereas upstream discards the result (PR2). For redirects and hooks,
 * incomplete bodies are accepted.
 */
export async function httpGet(probe: HttpProbe, signal?: AbortSignal): Promise<ProbeOutcome> {
  const { timeoutMs } = probe;
  return within({ timeoutMs, signal }, async (end) => outcomeOf(probe, await followWithFallback(probe, end)));
}

function outcomeOf({ anyStatus }: HttpProbe, answer: Answer | Failed): ProbeOutcome {
  if ("failure" in answer) return { result: "Failure", output: cut(answer.failure) };
  const { status, body, brokenOff } = answer;
  if (anyStatus) return { result: "Success", output: cut(body) };
  if (brokenOff !== undefined) return { result: "Failure", output: cut(brokenOff) };
  if (status < 200 || status >= 400) return { result: "Failure", output: `HTTP probe failed with statuscode: ${status}` };
  if (status < 300) return { result: "Success", output: cut(body) };
  return { result: "Success", output: cut(`Probe terminated redirects, Response body: ${body}`), warning: true };
}

/**
 * If the server answers HTTPS in plain HTTP, repeats the request over HTTP without the Authorization header. If this also fails, returns
 * the first failure.
 */
async function followWithFallback(probe: HttpProbe, signal: AbortSignal): Promise<Answer | Failed> {
  const answer = await follow(probe, signal);
  const fallsBack = probe.fallBackToHttp && probe.scheme === "HTTPS" && "failure" in answer && answer.answeredInPlainHttp;
  if (!fallsBack) return answer;
  const headers = probe.headers.filter(({ name }) => name.toLowerCase() !== "authorization");
  const second = await follow({ ...probe, scheme: "HTTP", headers }, signal);
  return "failure" in second ? answer : second;
}

/** @throws {TypeError} for an invalid request */
async function follow(probe: HttpProbe, signal: AbortSignal): Promise<Answer | Failed> {
  const first = firstTarget(probe);
  let target: Target = first;
  for (let requests = 1; requests <= REQUESTS_MAX; requests += 1) {
    const answer = await visit(target, first, probe, signal);
    if (!("url" in answer)) return answer;
    target = answer;
  }
  return { failure: failureAt(first, "stopped after 10 redirects") };
}

/**
 * Sends one request. If the response redirects to the same host, returns the next target. As in upstream, probes offer HTTP/2 and hooks
 * do not, and neither uses a proxy.
 *
 * Source: pkg/probe/http/http.go NewWithTLSConfig; pkg/kubelet/kubelet.go NewMainKubelet.
 */
async function visit(target: Target, first: Target, { anyStatus }: HttpProbe, signal: AbortSignal): Promise<Target | Answer | Failed> {
  const reason = (error: unknown): string =>
    failureAt(target, signal.aborted ? "context deadline exceeded (Client.Timeout exceeded)" : reasonOf(error));
  try {
    const http2 = anyStatus === true ? {} : { http2BytesMax: HTTP2_BYTES_MAX };
    return await get({ ...target, ...http2, signal, verifiesCertificate: false }, async (response) => {
      const next = redirectTarget(target, response);
      if (next !== undefined && hostnameOf(next.url) === hostnameOf(first.url)) return next;
      const { status } = response;
      return await read(response).then(
        (body) => ({ status, body }),
        (error: unknown) => ({ status, body: "", brokenOff: reason(error) }),
      );
    });
  } catch (error) {
    if (error instanceof TypeError || error instanceof RangeError) throw error;
    return { failure: reason(error), answeredInPlainHttp: PLAIN_ANSWER.test(messageOf(error)) };
  }
}

/** The text of a TLS error in Node.js contains the address, which would prevent the correlation of Events, and a source file of OpenSSL. */
function reasonOf(error: unknown): string {
  if (PLAIN_ANSWER.test(messageOf(error))) return "http: server gave HTTP response to HTTPS client";
  const isTls = error instanceof Error && "library" in error && "reason" in error && typeof error.reason === "string";
  return isTls ? `tls: ${String(error.reason)}` : messageOf(error);
}

function failureAt({ url }: Target, reason: string): string {
  return `Get "${urlText(url)}": ${reason}`;
}

/** Reads at most `BYTES_MAX` bytes. @throws {Error} for an incomplete body */
async function read({ body }: Response): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    size += chunk.length;
    if (size >= BYTES_MAX) break;
  }
  return Buffer.concat(chunks).subarray(0, BYTES_MAX).toString();
}
