/** A static pod's manifest, from its text to the pod: YAML or JSON, the API's defaults, then §2.1. */
import { readFile, stat } from "node:fs/promises";
import { parseYaml } from "@deltaloop/kube/yaml";
import { originText, StaticPodError, staticPod } from "../kubelet/config/static-pod.ts";
import type { StaticPodOrigin } from "../kubelet/config/static-pod.ts";
import type { NodePod } from "../kubelet/types/pod.ts";
import { decodePod, setObjectDefaultsPod, normalise } from "@deltaloop/kube/pod-template";
import { ensureObject, isObject } from "@deltaloop/base";
import type { JsonObject } from "@deltaloop/base";
import { messageOf } from "@deltaloop/kube/objects";

/** Source: pkg/kubelet/config/common.go maxConfigLength, file.go extractFromFile. */
export const MANIFEST_BYTES_MAX = 10 * 1024 * 1024;

/** @throws {StaticPodError} naming the file and what is wrong with it, or what the file system says */
export async function readManifest(path: string, nodeName: string): Promise<NodePod> {
  const { size } = await stat(path);
  if (size > MANIFEST_BYTES_MAX) throw new StaticPodError(`manifest ${path}: larger than 10 MiB`);
  return manifestPod(await readFile(path, "utf8"), path, nodeName);
}

/** @throws {StaticPodError} */
export function manifestPod(text: string, path: string, nodeName: string): NodePod {
  return podOfManifest(parseText(text, path), { kind: "file", path }, nodeName);
}

/** @param manifest as parsed @throws {StaticPodError} also for a value that is not of the API's type, by its path */
export function podOfManifest(manifest: unknown, origin: StaticPodOrigin["origin"], nodeName: string): NodePod {
  if (!isObject(manifest) || manifest["apiVersion"] !== "v1" || manifest["kind"] !== "Pod")
    return staticPod(manifest, { origin, nodeName });
  const pod = normalise(decoded(manifest, origin));
  ensureObject(pod, "metadata");
  setObjectDefaultsPod(pod);
  return staticPod(pod, { origin, nodeName });
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
    return parseYaml(text);
  } catch (error) {
    throw new StaticPodError(`manifest ${path}: ${messageOf(error)}`);
  }
}
