/**
 * List and watch, kept up: resumes where a watch ended, lists again when the server has forgotten (410), backs off when it fails.
 *
 * Source: k8s.io/client-go/tools/cache/reflector.go, in its simplest form.
 */
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import { type KubeHttp, KubeHttpError, type KubeHttpEvent, type KubeHttpObject, type Query } from "./kube-http.ts";

export interface WatchHandler {
  /** A complete list: whatever is not in it is gone. */
  readonly replace: (objects: readonly KubeHttpObject[]) => void;
  readonly event: (event: KubeHttpEvent) => void;
}

const BACKOFF_MS = 500;
const BACKOFF_MS_MAX = 10_000;
const WATCH_SECONDS_MIN = 300;

/** Runs until the signal is aborted. */
export async function keepWatching(
  client: KubeHttp,
  path: string,
  query: Query,
  handler: WatchHandler,
  { clock, random, signal }: { readonly clock: Clock; readonly random: Random; readonly signal: AbortSignal },
): Promise<void> {
  let resourceVersion: string | undefined;
  let failures = 0;
  while (!signal.aborted) {
    try {
      if (resourceVersion === undefined) {
        const list = await client.list(path, query);
        handler.replace(list.items);
        resourceVersion = list.resourceVersion;
      }
      const timeoutSeconds = Math.round(WATCH_SECONDS_MIN * (1 + random.next()));
      await client.watch(
        path,
        { ...query, resourceVersion, allowWatchBookmarks: true, timeoutSeconds },
        (event) => {
          resourceVersion = versionOf(event.object) ?? resourceVersion;
          failures = 0;
          if (event.type !== "BOOKMARK") handler.event(event);
        },
        signal,
      );
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof KubeHttpError && error.code === 410) resourceVersion = undefined;
      failures += 1;
    }
    if (failures > 0) await clock.after(backoffMs(failures, random), signal).catch(() => undefined);
  }
}

function backoffMs(failures: number, random: Random): number {
  const base = Math.min(BACKOFF_MS_MAX, BACKOFF_MS * 2 ** Math.min(failures - 1, 10));
  return Math.round(base * (1 + random.next()));
}

function versionOf({ metadata }: KubeHttpObject): string | undefined {
  const { resourceVersion }: { resourceVersion?: unknown } = typeof metadata === "object" && metadata !== null ? metadata : {};
  return typeof resourceVersion === "string" ? resourceVersion : undefined;
}
