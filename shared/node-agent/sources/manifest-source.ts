/**
 * Reads static pods from a manifest directory, or from a single manifest (node-agent §2.2).
 *
 * SM1 `emit` is called with the complete list, in the order of file names, every 20 s and soon after a change.
 * SM2 a missing path is an empty list. If a path cannot be read, nothing is emitted.
 * SM3 an invalid file in a directory is skipped, while other files are used. If a file has just become invalid, its pod is kept until the
 *     next complete read, because the file may not be completely written yet.
 */
import { watch } from "node:fs";
import type { FSWatcher } from "node:fs";
import { stat } from "node:fs/promises";
import { basename, dirname } from "node:path";
import type { NodePod } from "../kubelet/types/pod.ts";
import type { Clock, Log } from "@deltaloop/base";
import { isMissing, ManifestReader } from "./manifest-reader.ts";

export interface ManifestSourceOptions {
  /** Path of a directory or a file. */
  readonly path: string;
  readonly nodeName: string;
  readonly emit: (pods: readonly NodePod[]) => void;
  readonly log: Log;
  readonly clock: Clock;
}

/** Source: pkg/kubelet/apis/config/v1beta1/defaults.go FileCheckFrequency. */
const WHOLE_READ_MS = 20_000;
/** Delay that combines an editor's write steps into one read. */
const SETTLE_MS = 100;
/** Source: pkg/kubelet/config/file_linux.go retryPeriod, maxRetryPeriod. */
const WATCH_RETRY_MS = 1_000;
const WATCH_RETRY_MS_MAX = 20_000;

/**
 * Runs until `signal` aborts.
 *
 * Source: pkg/kubelet/config/file.go, file_linux.go. Differs from upstream: a change triggers a read of all files, not of one; a path
 * that is a file or is missing is watched through its parent directory.
 */
export async function runManifestSource(options: ManifestSourceOptions, signal: AbortSignal): Promise<void> {
  const { clock, emit, log, nodeName } = options;
  const path = options.path.replace(/(?<=[^/])\/+$/u, "");
  const reader = new ManifestReader(path, { nodeName, log });
  let wholeAtMs = clock.now();
  let failures = 0;
  while (!signal.aborted) {
    const isWhole = clock.now() >= wholeAtMs;
    if (isWhole) wholeAtMs = clock.now() + WHOLE_READ_MS;

    // The watch must start before the read, so that no change is missed.
    const change = new AbortController();
    const watching = await watchManifests(path, () => change.abort());
    const pods = await reader.read(isWhole);
    if (pods !== undefined && !signal.aborted) emit(pods);

    failures = watching.kind === "failed" ? failures + 1 : 0;
    if (watching.kind === "failed")
      log.warn("failed to watch manifests, retrying", { path, error: watching.error, delayMs: retryMs(failures) });
    const untilWholeMs = wholeAtMs - clock.now();
    const waitMs = watching.kind === "watching" ? untilWholeMs : Math.min(untilWholeMs, retryMs(failures));
    await clock.after(waitMs, AbortSignal.any([signal, change.signal])).catch(() => undefined);
    if (watching.kind === "watching") watching.watcher.close();
    if (change.signal.aborted) await clock.after(SETTLE_MS, signal).catch(() => undefined);
  }
}

/** Returns the retry delay. A missing path does not count as a failure; it is checked every second. */
function retryMs(failures: number): number {
  return Math.min(WATCH_RETRY_MS * 2 ** Math.max(0, failures - 1), WATCH_RETRY_MS_MAX);
}

type Watching =
  | { readonly kind: "watching"; readonly watcher: FSWatcher }
  | { readonly kind: "missing" }
  | { readonly kind: "failed"; readonly error: string };

async function watchManifests(path: string, onChange: () => void): Promise<Watching> {
  try {
    const isDirectory = await stat(path).then(
      (found) => found.isDirectory(),
      () => false,
    );
    const isOurs = (name: string | null): boolean => name === null || name === basename(path) || (isDirectory && !name.startsWith("."));
    const watcher = watch(isDirectory ? path : dirname(path), { persistent: false }, (_event, name) => {
      if (isOurs(name)) onChange();
    });
    watcher.on("error", onChange);
    return { kind: "watching", watcher };
  } catch (error) {
    return isMissing(error) ? { kind: "missing" } : { kind: "failed", error: String(error) };
  }
}
