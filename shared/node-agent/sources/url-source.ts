/**
 * Static pods from an HTTP server (node-agent §2.3), read every 20 s.
 *
 * SU1 a failed request changes nothing: a status other than 200, an invalid pod in the list, an unavailable server.
 * SU2 an empty response is an empty list, and an error.
 * SU3 logs and errors contain no header value and no secret part of the URL; headers are sent to the URL's origin only.
 */
import { parseYaml } from "@deltaloop/kube/yaml";
import { messageOf } from "@deltaloop/kube/objects";
import { isObject } from "@deltaloop/base";
import { shownUrl, StaticPodError } from "../kubelet/config/static-pod.ts";
import type { NodePod } from "../kubelet/types/pod.ts";
import type { Clock, Log } from "@deltaloop/base";
import { MANIFEST_BYTES_MAX, podOfManifest } from "./manifest.ts";

export interface UrlSourceOptions {
  /** http or https; its user and password are sent as basic authorization. */
  readonly url: string;
  /** Headers of each request. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly nodeName: string;
  readonly emit: (pods: readonly NodePod[]) => void;
  readonly log: Log;
  readonly clock: Clock;
}

/** Source: pkg/kubelet/apis/config/v1beta1/defaults.go HTTPCheckFrequency. */
const PERIOD_MS = 20_000;
/** Source: pkg/kubelet/config/http.go NewSourceURL. */
const TIMEOUT_MS = 10_000;
/** Limit of Go's client, which upstream uses. */
const REDIRECTS_MAX = 10;
const OK = 200;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/**
 * Runs until `signal` aborts.
 *
 * Source: pkg/kubelet/config/http.go. Differs from upstream: the same error is logged once; a manifest that returns unchanged after an
 * empty response is emitted again, where upstream waits for a change; headers do not follow a redirect to another origin.
 */
export async function runUrlSource(options: UrlSourceOptions, signal: AbortSignal): Promise<void> {
  const { clock, emit, log, nodeName } = options;
  const shown = shownUrl(options.url);
  let [lastText, lastError]: [string | undefined, string | undefined] = [undefined, undefined];
  while (!signal.aborted) {
    try {
      const text = await withinMs(TIMEOUT_MS, clock, signal, (ends) => textAt(options, ends));
      if (text === "") {
        lastText = undefined;
        emit([]);
        throw new StaticPodError("the response is empty: it has no static pods, or its server is not ready");
      }
      if (text !== lastText) emit(podsOf(text, options.url, nodeName));
      lastText = text;
      if (lastError !== undefined) log.info("manifests read again after an error", { url: shown });
      lastError = undefined;
    } catch (error) {
      const problem = messageOf(error);
      if (problem !== lastError && !signal.aborted) log.warn("failed to read manifests, retrying", { url: shown, error: problem });
      lastError = problem;
    }
    await clock.after(PERIOD_MS, signal).catch(() => undefined);
  }
}

/** One Pod, or the pods of a PodList: all of them or none. @throws {StaticPodError} */
export function podsOf(text: string, url: string, nodeName: string): readonly NodePod[] {
  const origin = { kind: "http", url } as const;
  let manifest: unknown;
  try {
    manifest = parseYaml(text);
  } catch (error) {
    throw new StaticPodError(`manifest at ${shownUrl(url)}: ${messageOf(error)}`);
  }
  if (!isObject(manifest) || manifest["kind"] !== "PodList") return [podOfManifest(manifest, origin, nodeName)];
  const { apiVersion, items = [] } = manifest;
  if (apiVersion !== "v1" || !Array.isArray(items)) throw new StaticPodError(`manifest at ${shownUrl(url)}: not a v1 PodList with items`);
  return items.map((item: unknown, i) => {
    try {
      // Items of a list may omit apiVersion and kind.
      return podOfManifest(isObject(item) ? { apiVersion, kind: "Pod", ...item } : item, origin, nodeName);
    } catch (error) {
      throw new StaticPodError(`item ${i + 1} of ${items.length}: ${messageOf(error)}`);
    }
  });
}

async function textAt({ url, headers }: UrlSourceOptions, signal: AbortSignal): Promise<string> {
  const first = new URL(url);
  const { origin } = first;
  const own = new Headers(headers.map(([name, value]): [string, string] => [name, value]));
  if (first.username !== "" && !own.has("authorization"))
    own.set(
      "authorization",
      `Basic ${Buffer.from(`${decodeURIComponent(first.username)}:${decodeURIComponent(first.password)}`).toString("base64")}`,
    );
  let at = withoutUser(first);
  for (let redirects = 0; ; redirects++) {
    const answer = await request(at, at.origin === origin ? own : new Headers(), signal);
    const location = REDIRECTS.has(answer.status) ? answer.headers.get("location") : null;
    if (location === null && answer.status === OK) return await boundedText(answer);
    await answer.body?.cancel();
    if (location === null) throw new StaticPodError(`the server responded with status ${answer.status}`);
    if (redirects === REDIRECTS_MAX) throw new StaticPodError(`more than ${REDIRECTS_MAX} redirects`);
    if (!URL.canParse(location, at.href)) throw new StaticPodError("the server redirects to an invalid URL");
    at = withoutUser(new URL(location, at));
    if (!/^https?:$/.test(at.protocol)) throw new StaticPodError("the server redirects to a URL that is neither http nor https");
  }
}

/** Hides the message of fetch, which may contain the URL; its cause has the reason. */
async function request(at: URL, headers: Headers, signal: AbortSignal): Promise<Response> {
  try {
    return await fetch(at, { headers, signal, redirect: "manual" });
  } catch (error) {
    signal.throwIfAborted();
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : undefined;
    throw new StaticPodError(`no response from ${at.host}${cause === undefined ? "" : ` (${causeText(cause)})`}`);
  }
}

function causeText(cause: Error): string {
  return "code" in cause && typeof cause.code === "string" ? cause.code : cause.message;
}

async function boundedText({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    if (bytes > MANIFEST_BYTES_MAX) throw new StaticPodError("the response is larger than 1 MiB");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

async function withinMs<T>(ms: number, clock: Clock, signal: AbortSignal, act: (ends: AbortSignal) => Promise<T>): Promise<T> {
  const [late, done] = [new AbortController(), new AbortController()];
  const timer = clock.after(ms, AbortSignal.any([signal, done.signal])).then(
    () => late.abort(new StaticPodError(`no complete response within ${ms / 1_000} s`)),
    () => undefined,
  );
  try {
    return await act(AbortSignal.any([signal, late.signal]));
  } finally {
    done.abort();
    await timer;
  }
}

function withoutUser(url: URL): URL {
  const bare = new URL(url);
  bare.username = bare.password = "";
  return bare;
}
