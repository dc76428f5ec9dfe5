/** Parses the manifest of a static pod: YAML or JSON, then the API's defaults, then the changes of §2.1. */
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { parseYamlOrJson } from "@deltaloop/kube/yaml";
import { originText, priorityWarning, StaticPodError, staticPod } from "../kubelet/config/static-pod.ts";
import type { StaticPodOrigin } from "../kubelet/config/static-pod.ts";
import type { NodePod } from "../kubelet/types/pod.ts";
import { decodePod, setObjectDefaultsPod, normalise } from "@deltaloop/kube/pod-template";
import { ensureObject, isObject } from "@deltaloop/base";
import type { JsonObject, Log } from "@deltaloop/base";
import { messageOf } from "@deltaloop/kube/objects";

/**
 * Maximum size of a manifest. Source: pkg/kubelet/config/common.go maxConfigLength. Differs from upstream, which reads up to 10 MiB:
 * parsing YAML of that size would block the event loop for seconds, and etcd accepts objects of at most 1.5 MiB.
 */
export const MANIFEST_BYTES_MAX = 1024 * 1024;

/**
 * Reads a regular file. Never blocks, even if the path is a FIFO or a link to a kernel file.
 *
 * @throws {StaticPodError} that names the file and the problem, or a file system error
 */
export async function readManifest(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    if (!(await file.stat()).isFile()) throw new StaticPodError(`manifest ${path}: not a regular file`);
    const buffer = Buffer.allocUnsafe(MANIFEST_BYTES_MAX + 1);
    let bytes = 0;
    for (let read = -1; read !== 0 && bytes < buffer.length; bytes += read)
      ({ bytesRead: read } = await file.read(buffer, bytes, buffer.length - bytes, null));
    if (bytes > MANIFEST_BYTES_MAX) throw new StaticPodError(`manifest ${path}: larger than 1 MiB`);
    return buffer.toString("utf8", 0, bytes);
  } finally {
    await file.close();
  }
}

/** @throws {StaticPodError} */
export function manifestPod(text: string, path: string, nodeName: string): NodePod {
  return podOfManifest(parseText(text, path), { kind: "file", path }, nodeName);
}

/** @param manifest the parsed document @throws {StaticPodError} also if a value has the wrong type; the message contains its path */
export function podOfManifest(manifest: unknown, origin: StaticPodOrigin["origin"], nodeName: string): NodePod {
  if (!isObject(manifest) || manifest["apiVersion"] !== "v1" || manifest["kind"] !== "Pod")
    return staticPod(manifest, { origin, nodeName });
  const pod = normalise(decoded(manifest, origin));
  ensureObject(pod, "metadata");
  setObjectDefaultsPod(pod);
  return staticPod(pod, { origin, nodeName });
}

/** Logs inconsistent priorities. Must be called only once per changed manifest. */
export function logPriorities(log: Log, pods: readonly NodePod[]): void {
  for (const pod of pods) {
    const warning = priorityWarning(pod);
    if (warning !== undefined)
      log.warn("static pod has an inconsistent priority", { pod: `${pod.metadata.namespace}/${pod.metadata.name}`, warning });
  }
}

function decoded(manifest: JsonObject, origin: StaticPodOrigin["origin"]): JsonObject {
  try {
    return decodePod(manifest);
  } catch (error) {
    throw new StaticPodError(`${originText(origin)}: ${messageOf(error)}`);
  }
}

function parseText(text: string, path: string): unknown {
  try {
    return parseYamlOrJson(text);
  } catch (error) {
    throw new StaticPodError(`manifest ${path}: ${messageOf(error)}`);
  }
}
