/**
 * Static pods from an HTTP server (node-agent §2.3): the URL is asked every 20 s.
 *
 * SU1 an answer that brings no pods changes nothing: another status than 200, one bad pod of several, a server that is away.
 * SU2 an empty answer is an empty list, and an error.
 * SU3 no header's value, and nothing of the URL that may be secret, stands in a log or in an error; headers go to the URL's own origin only.
 */
import { parseYaml } from "@deltaloop/kube/yaml";
import { messageOf } from "@deltaloop/kube/objects";
import { isObject } from "@deltaloop/base";
import { shownUrl, StaticPodError } from "../kubelet/config/static-pod.ts";
import type { NodePod } from "../kubelet/types/pod.ts";
import type { Clock, Log } from "@deltaloop/base";
import { MANIFEST_BYTES_MAX, podOfManifest } from "./manifest.ts";

export interface UrlSourceOptions {
  /** http or https; a user and a password in it are sent as basic authorization. */
  readonly url: string;
  /** Of each request, by name. */
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
/** As Go's client, which is upstream's. */
const REDIRECTS_MAX = 10;
const OK = 200;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/**
 * Runs until `signal` aborts.
 *
 * Source: pkg/kubelet/config/http.go. Differs from upstream: each trouble is logged once while it stays the same; what came before an
 * empty answer counts anew after it, where upstream goes on without the pods until the manifest changes; headers do not follow a
 * redirect to another origin.
 */
export async function runUrlSource(options: UrlSourceOptions, signal: AbortSignal): Promise<void> {
  const { clock, emit, log, nodeName } = options;
  const shown = shownUrl(options.url);
  let [read, trouble]: [string | undefined, string | undefined] = [undefined, undefined];
  while (!signal.aborted) {
    try {
      const text = await withinMs(TIMEOUT_MS, clock, signal, (ends) => textAt(options, ends));
      if (text === "") {
        read = undefined;
        emit([]);
        throw new StaticPodError("the answer is empty: no static pods are wanted from here, or its server is not ready");
      }
      if (text !== read) emit(podsOf(text, options.url, nodeName));
      read = text;
      if (trouble !== undefined) log.info("manifests are read again", { url: shown });
      trouble = undefined;
    } catch (error) {
      const problem = messageOf(error);
      if (problem !== trouble && !signal.aborted) log.warn("manifests are left as they were", { url: shown, error: problem });
      trouble = problem;
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
  if (apiVersion !== "v1" || !Array.isArray(items))
    throw new StaticPodError(`manifest at ${shownUrl(url)}: is no PodList of v1 with items`);
  return items.map((item: unknown, i) => {
    try {
      // In a list none needs to say its kind.
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
    const answer = await asked(at, at.origin === origin ? own : new Headers(), signal);
    const location = REDIRECTS.has(answer.status) ? answer.headers.get("location") : null;
    if (location === null && answer.status === OK) return await boundedText(answer);
    await answer.body?.cancel();
    if (location === null) throw new StaticPodError(`the server answers ${answer.status}`);
    if (redirects === REDIRECTS_MAX) throw new StaticPodError(`more than ${REDIRECTS_MAX} redirects`);
    if (!URL.canParse(location, at.href)) throw new StaticPodError("the server redirects to what is no URL");
    at = withoutUser(new URL(location, at));
    if (!/^https?:$/.test(at.protocol)) throw new StaticPodError("the server redirects to what is neither http nor https");
  }
}

/** What fetch says of a failure may quote the URL; its cause says what happened. */
async function asked(at: URL, headers: Headers, signal: AbortSignal): Promise<Response> {
  try {
    return await fetch(at, { headers, signal, redirect: "manual" });
  } catch (error) {
    signal.throwIfAborted();
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : undefined;
    throw new StaticPodError(`no answer from ${at.host}${cause === undefined ? "" : ` (${causeText(cause)})`}`);
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
    if (bytes > MANIFEST_BYTES_MAX) throw new StaticPodError("the answer is larger than 1 MiB");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

async function withinMs<T>(ms: number, clock: Clock, signal: AbortSignal, act: (ends: AbortSignal) => Promise<T>): Promise<T> {
  const [late, done] = [new AbortController(), new AbortController()];
  const timer = clock.after(ms, AbortSignal.any([signal, done.signal])).then(
    () => late.abort(new StaticPodError(`no whole answer within ${ms / 1_000} s`)),
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
