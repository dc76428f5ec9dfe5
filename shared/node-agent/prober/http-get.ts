/** HTTP probes and hooks: a GET with one deadline for redirects and body. */
import { request as requestHttp } from "node:http";
import type { IncomingMessage, RequestOptions } from "node:http";
import { request as requestHttps } from "node:https";
import type { HttpProbe, ProbeOutcome } from "../ports/prober.ts";
import { within } from "./deadline.ts";
import { lookupUntil } from "./lookup.ts";
import { BYTES_MAX, cut } from "./output.ts";
import { type Answer, firstTarget, type Header, redirectTarget, type Target } from "./target.ts";

/** Source: pkg/probe/http/http.go RedirectChecker, which rejects the tenth redirect. */
const REQUESTS_MAX = 10;
/** Node's default is 16 KiB; Go's transport accepts 10 MiB. */
const HEADER_BYTES_MAX = 1024 * 1024;
/** Limit of 1xx responses. Source: Go net/http transport.go readResponse, which limits their bytes (10 MiB) and formerly their number (5). */
const INFORMATION_MAX = 100;
/** OpenSSL's error for a response that starts with `HTTP/`; Node has no error code for it. */
const PLAIN_ANSWER = /wrong version number|packet length too long/iu;

/** No response, or an incomplete one. */
interface Failed {
  readonly failure: string;
  readonly answeredInPlainHttp?: boolean;
}

/**
 * Source: pkg/probe/http/http.go DoHTTPProbe; pkg/kubelet/lifecycle/handlers.go runHTTPHandler.
 *
 * Differs from upstream: an incomplete or late body is a failure, where upstream discards the result (PR2). Incomplete bodies of redirects and
 * of hooks are accepted.
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
 * If the server answers HTTPS in plain HTTP, repeats the request over HTTP without Authorization. If that fails too, returns the first
 * failure.
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
    const answer = await get(target, signal);
    if ("failure" in answer) return answer;
    const next = redirectTarget(target, answer);
    if (next === "unusable") return { failure: `Get "${answer.location}": failed to parse Location header` };
    if (next === undefined || next.url.hostname !== first.url.hostname) return answer;
    target = next;
  }
  return { failure: `Get "${first.url.href}": stopped after 10 redirects` };
}

function get({ url, path, headers }: Target, signal: AbortSignal): Promise<Answer | Failed> {
  const host = url.hostname.replace(/^\[(.*)\]$/u, "$1");
  const options: RequestOptions = {
    host,
    port: url.port,
    path,
    headers: flat(headers),
    agent: false,
    maxHeaderSize: HEADER_BYTES_MAX,
    lookup: lookupUntil(signal),
    signal,
  };
  const failed = (error: Error): Failed => ({
    failure: `Get "${url.href}": ${signal.aborted ? "context deadline exceeded (Client.Timeout exceeded)" : error.message}`,
    answeredInPlainHttp: PLAIN_ANSWER.test(error.message),
  });
  return new Promise((resolve) => {
    const request = url.protocol === "https:" ? requestHttps({ ...options, rejectUnauthorized: false }) : requestHttp(options);
    request.on("error", (error) => resolve(failed(error)));
    request.on("close", () => resolve(failed(new Error("connection closed without a response"))));
    let informed = 0;
    request.on("information", () => {
      informed += 1;
      if (informed === INFORMATION_MAX + 1) request.destroy(new Error("too many 1xx informational responses"));
    });
    request.once("upgrade", ({ statusCode: status = 101 }: IncomingMessage) => {
      resolve({ status, location: undefined, body: "" });
      request.destroy();
    });
    request.once("response", (response) => {
      const ended = read(response, signal).finally(() => request.destroy());
      const rest = ended.then(
        (body) => ({ body }),
        (error: Error) => ({ body: "", brokenOff: failed(error).failure }),
      );
      const { statusCode: status = 0, headers: answered } = response;
      resolve(rest.then((body) => ({ status, location: answered.location, ...body })));
    });
    request.end();
  });
}

/** Reads at most `BYTES_MAX`. @throws {Error} for an incomplete body */
async function read(response: IncomingMessage, signal: AbortSignal): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  // A response without an encoding yields buffers.
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size >= BYTES_MAX) break;
  }
  // Without a length, the abort looks like a normal end of the body.
  if (size < BYTES_MAX) signal.throwIfAborted();
  return Buffer.concat(chunks).subarray(0, BYTES_MAX).toString();
}

/** Node sends a flat list of headers unchanged, including repeated ones. */
function flat(headers: readonly Header[]): readonly string[] {
  return headers.flatMap(({ name, value }) => [name, value]);
}
