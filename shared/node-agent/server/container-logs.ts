/**
 * `GET /containerLogs/{ns}/{pod}/{container}` (node-agent §15).
 *
 * Source: pkg/kubelet/server/server.go getContainerLogs; pkg/kubelet/kubelet_pods.go GetKubeletContainerLogs; cri-client pkg/logs/logs.go
 * ReadLogs. As in upstream, an error while reading is written as text to a response with status 200. Differs from upstream: no line is
 * lost in a rotation (LF3), and a removed container counts as ended.
 */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { parseContainerLogRequest } from "../kubelet/logs/container-log-request.ts";
import type { ContainerLogRequest } from "../kubelet/logs/container-log-request.ts";
import { podLogTarget } from "../kubelet/logs/pod-log-target.ts";
import { containerNamed } from "../kubelet/types/pod.ts";
import type { Clock, Log } from "@deltaloop/base";
import { isNotFound, isUnavailable } from "../ports/cri-error.ts";
import type { Cri } from "../ports/cri.ts";
import { answer, NodeApiError } from "./answer.ts";
import { createShowLine } from "./cri-log-line.ts";
import { openLogFile } from "./log-file.ts";
import type { LogRoots } from "./log-file.ts";
import { CHECK_MS, watchLogDirectory } from "./log-watch.ts";
import type { NodeApiOptions } from "./options.ts";
import type { ContainerPath } from "./routes.ts";
import { messageOf } from "@deltaloop/kube/objects";

/** Delay before a replaced file is read for the last time, because the runtime may still be writing to it. */
const REPLACED_MS = 100;

export async function sendContainerLogs(
  { backend, podLogsDir, runtimeLogsDir, clock, log }: NodeApiOptions,
  asked: ContainerPath & { readonly query: URLSearchParams; readonly response: ServerResponse; readonly signal: AbortSignal },
): Promise<void> {
  const { namespace, pod: podName, container, query, response, signal } = asked;
  const parsed = parseContainerLogRequest(query, clock.now());
  if (parsed.kind === "refused") return answer(response, parsed.code, parsed.text);
  const found = await backend.pod(namespace, podName);
  if (found === undefined) return answer(response, 404, `pod "${podName}" does not exist`);
  const { pod } = found;
  if (containerNamed(pod, container) === undefined) return answer(response, 404, `container "${container}" not found in pod "${podName}"`);
  const status = found.status ?? pod.status ?? {};
  const target = podLogTarget(pod.metadata.name, status, container, parsed.request.previous);
  if (target.kind === "refused") return answer(response, 400, target.text);

  signal.throwIfAborted();
  response.writeHead(200, { "content-type": "text/plain; charset=utf-8" });
  response.flushHeaders(); // sends the headers immediately, so that the client does not wait for the first line
  try {
    const path = await logPathOf(backend.cri, target);
    const roots = { podLogsDir, ...(runtimeLogsDir !== undefined && { runtimeLogsDir }) };
    await copyLog({ cri: backend.cri, id: target.id, path, roots, clock, log, signal }, parsed.request, response);
    response.end();
  } catch (error) {
    if (signal.aborted) return void response.destroy();
    log.warn("failed to read container log", { namespace, pod: podName, container, error: String(error) });
    response.end(messageOf(error));
  }
}

async function logPathOf(cri: Cri, { id, containerId }: { readonly id: string; readonly containerId: string }): Promise<string> {
  try {
    return (await cri.containerStatus(id)).logPath;
  } catch (error) {
    throw new NodeApiError(`unable to retrieve container logs for ${containerId}`, { cause: error });
  }
}

interface LogSource {
  readonly cri: Cri;
  readonly id: string;
  readonly path: string;
  readonly roots: LogRoots;
  readonly clock: Clock;
  readonly log: Log;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
}

/** Returns at the end of the log. With `follow`, returns when the container has ended and its whole log is sent. */
async function copyLog(source: LogSource, request: ContainerLogRequest, response: ServerResponse): Promise<void> {
  const { path, roots, clock, log, signal } = source;
  const write = createLogWriter(source, request, response);
  let file = await openLogFile(path, roots, request.tailLines);
  const watching = request.follow ? watchLogDirectory(file.directory, clock, signal) : undefined;
  try {
    for (let [ended, checkedMs] = [false, 0]; ;) {
      const wrote = await writeAll();
      if (wrote === "full") return;
      if (watching === undefined) {
        if (file.rest().length > 0) await write([file.rest()]);
        return;
      }
      if (await file.isReplaced()) {
        await clock.after(REPLACED_MS, signal);
        if ((await writeAll()) === "full") return;
        const next = await openLogFile(path, roots);
        await file.close();
        file = next;
        continue;
      }
      if (ended) return;
      if (wrote === "nothing" || clock.now() - checkedMs >= CHECK_MS) {
        // Reads again, because the container may have written lines between the last read and its end.
        ended = !(await isRunning(source));
        checkedMs = clock.now();
      }
      if (!ended) await watching.changed();
    }
  } finally {
    watching?.close();
    await file.close().catch((error: unknown) => log.debug("failed to close log file", { error: String(error) }));
  }

  /** Writes all complete lines. */
  async function writeAll(): Promise<"full" | "something" | "nothing"> {
    for (let wrote: "something" | "nothing" = "nothing"; ; wrote = "something") {
      signal.throwIfAborted();
      const lines = await file.lines();
      if (lines.length === 0) return wrote;
      if ((await write(lines)) === "full") return "full";
    }
  }
}

type WriteLines = (lines: readonly Buffer[]) => Promise<"full" | "more">;

/** Writes with backpressure. Without `follow`, `tailLines` also bounds lines that are appended while the log is read. */
function createLogWriter({ path, log, signal }: LogSource, request: ContainerLogRequest, response: ServerResponse): WriteLines {
  const { follow, tailLines } = request;
  const show = createShowLine(request);
  let linesLeft = follow || tailLines === undefined ? Number.POSITIVE_INFINITY : tailLines;
  let isFirst = true;

  return async (lines) => {
    const texts: Buffer[] = [];
    let full = false;
    for (const line of lines) {
      if (full || linesLeft <= 0) break;
      const shown = show(line);
      if (shown.kind === "unreadable") {
        if (isFirst) throw new NodeApiError(`failed to get parse function: unsupported log format: ${JSON.stringify(line.toString())}`);
        log.warn("container log line has an unknown format; line skipped", { path });
        continue;
      }
      isFirst = false;
      linesLeft--;
      if (shown.kind === "hidden") continue;
      texts.push(shown.text);
      full = shown.full;
    }
    if (texts.length > 0 && !response.write(Buffer.concat(texts))) await once(response, "drain", { signal });
    return full || linesLeft <= 0 ? "full" : "more";
  };
}

/** Whether the container is running. It counts as running while the runtime is unavailable. */
async function isRunning({ cri, id }: LogSource): Promise<boolean> {
  try {
    return (await cri.containerStatus(id)).state === "CONTAINER_RUNNING";
  } catch (error) {
    if (isUnavailable(error)) return true;
    if (isNotFound(error)) return false;
    throw error;
  }
}
