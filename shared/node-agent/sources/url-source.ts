/**
 * Reads static pods from an HTTP server (node-agent §2.3) every 20 s.
 *
 * SU1 a failed request changes nothing. A request fails if the server is unavailable, if the status is not 200, or if the list contains
 *     an invalid pod.
 * SU2 an empty response counts as an empty list, and is logged as an error.
 * SU3 logs and errors contain no header value and no secret part of the URL; headers are sent only to the URL's origin.
 */
import { gunzipSync } from "node:zlib";
import { parseYamlOrJson } from "@deltaloop/kube/yaml";
import { proxyFor } from "@deltaloop/kube/http";
import { messageOf } from "@deltaloop/kube/objects";
import { isObject, VERSION } from "@deltaloop/base";
import { shownUrl, StaticPodError } from "../kubelet/config/static-pod.ts";
import type { NodePod } from "../kubelet/types/pod.ts";
import type { Clock, Log } from "@deltaloop/base";
import { get, redirectOf } from "../http/get.ts";
import type { Header } from "../http/get-request.ts";
import type { Response } from "../http/response.ts";
import { byteString, hostnameOf, parseUrl, portOf } from "../http/url.ts";
import type { Url } from "../http/url.ts";
import { logPriorities, MANIFEST_BYTES_MAX, podOfManifest } from "./manifest.ts";

export interface UrlSourceOptions {
  /** An http or https URL. Its user and password are sent as basic authentication. */
  readonly url: string;
  /** Headers that are sent with each request. */
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
/** Maximum number of redirects in Go's client, which upstream uses. */
const REDIRECTS_MAX = 10;
/** Maximum size of all frames on an HTTP/2 connection: a manifest, and the same amount of overhead. */
const HTTP2_BYTES_MAX = 2 * MANIFEST_BYTES_MAX;
const OK = 200;

/**
 * Runs until `signal` aborts.
 *
 * Source: pkg/kubelet/config/http.go. Differs from upstream: a repeated error is logged once; a manifest that reappears unchanged after
 * an empty response is emitted again, whereas upstream waits for a change; headers are not sent to another origin after a redirect.
 */
export async function runUrlSource(options: UrlSourceOptions, signal: AbortSignal): Promise<void> {
  const { clock, emit, log, nodeName } = options;
  const shown = shownUrl(options.url);
  let [lastText, lastError]: [string | undefined, string | undefined] = [undefined, undefined];
  while (!signal.aborted) {
    try {
      const text = await withinMs(TIMEOUT_MS, clock, signal, (ends) => manifestText(options, ends));
      if (text === "") {
        lastText = undefined;
        emit([]);
        throw new StaticPodError("the response is empty: there are no static pods, or the server is not ready");
      }
      if (text !== lastText) {
        const pods = podsOf(text, options.url, nodeName);
        logPriorities(log, pods);
        emit(pods);
      }
      lastText = text;
      if (lastError !== undefined) log.info("reading manifests succeeded after an error", { url: shown });
      lastError = undefined;
    } catch (error) {
      const problem = messageOf(error);
      if (problem !== lastError && !signal.aborted) log.warn("failed to read manifests, retrying", { url: shown, error: problem });
      lastError = problem;
    }
    await clock.after(PERIOD_MS, signal).catch(() => undefined);
  }
}

/** Parses a Pod or the pods of a PodList; one invalid pod rejects the whole list. @throws {StaticPodError} */
export function podsOf(text: string, url: string, nodeName: string): readonly NodePod[] {
  const origin = { kind: "http", url } as const;
  let manifest: unknown;
  try {
    manifest = parseYamlOrJson(text);
  } catch (error) {
    throw new StaticPodError(`manifest at ${shownUrl(url)}: ${messageOf(error)}`);
  }
  if (!isObject(manifest) || manifest["kind"] !== "PodList") return [podOfManifest(manifest, origin, nodeName)];
  const { apiVersion, items = [] } = manifest;
  if (apiVersion !== "v1" || !Array.isArray(items)) throw new StaticPodError(`manifest at ${shownUrl(url)}: not a v1 PodList with items`);
  return items.map((item: unknown, i) => {
    try {
      // The items of a list may omit apiVersion and kind.
      return podOfManifest(isObject(item) ? { apiVersion, kind: "Pod", ...item } : item, origin, nodeName);
    } catch (error) {
      throw new StaticPodError(`item ${i + 1} of ${items.length}: ${messageOf(error)}`);
    }
  });
}

/** Reads the text at the given URL. @throws {StaticPodError} */
export async function manifestText({ url, headers }: Pick<UrlSourceOptions, "url" | "headers">, signal: AbortSignal): Promise<string> {
  const first = parseUrl(byteString(url));
  const own = headers.map(([name, value]) => ({ name, value })).filter(({ name }) => name.toLowerCase() !== "host");
  let at = first;
  for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects++) {
    const answer = await visit(at, at === first || isSameOrigin(at, first) ? own : [], signal);
    if (typeof answer === "string") return answer;
    const { user: _, ...bare } = answer;
    at = first.user !== undefined && isSameOrigin(bare, first) ? { ...bare, user: first.user } : bare;
  }
  throw new StaticPodError(`more than ${REDIRECTS_MAX} redirects`);
}

function isSameOrigin(a: Url, b: Url): boolean {
  return a.scheme === b.scheme && hostnameOf(a) === hostnameOf(b) && portOf(a) === portOf(b);
}

/** Returns the text, or the URL of a redirect. Replaces error messages that may contain a URL. */
async function visit(url: Url, own: readonly Header[], signal: AbortSignal): Promise<string | Url> {
  const isGzipOurs = !own.some(({ name }) => name.toLowerCase() === "accept-encoding");
  const hasAgent = own.some(({ name }) => name.toLowerCase() === "user-agent");
  const headers = [
    { name: "Host", value: url.host },
    ...(hasAgent ? [] : [{ name: "User-Agent", value: `deltaloop/${VERSION}` }]),
    ...(isGzipOurs ? [{ name: "Accept-Encoding", value: "gzip" }] : []),
    ...own,
  ];
  if (url.scheme !== "http" && url.scheme !== "https")
    throw new StaticPodError("the server redirects to a URL that is neither http nor https");
  try {
    const origin = `${url.scheme}://${url.host}`;
    const proxy = URL.canParse(origin) ? proxyFor(new URL(origin), process.env) : undefined;
    const connection = { signal, verifiesCertificate: true, http2BytesMax: HTTP2_BYTES_MAX, proxy };
    return await get({ url, headers, ...connection }, async (response) => {
      const next = redirectOf(url, response)?.url;
      if (next !== undefined) return next;
      if (response.status !== OK) throw new StaticPodError(`the server responded with status ${response.status}`);
      const bytes = await boundedBytes(response);
      const isZipped = isGzipOurs && response.header("content-encoding")?.toLowerCase() === "gzip" && bytes.length > 0;
      return (isZipped ? gunzipSync(bytes, { maxOutputLength: MANIFEST_BYTES_MAX }) : bytes).toString("utf8");
    });
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof StaticPodError) throw error;
    throw new StaticPodError(`no response from ${url.host} (${causeText(error)})`);
  }
}

function causeText(cause: unknown): string {
  return cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : messageOf(cause);
}

async function boundedBytes({ body }: Response): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > MANIFEST_BYTES_MAX) throw new StaticPodError("the response is larger than 1 MiB");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
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
