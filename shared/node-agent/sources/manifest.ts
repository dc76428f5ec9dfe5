/** A static pod's manifest, from its text to the pod: YAML or JSON, the API's defaults, then §2.1. */
import { readFile, stat } from "node:fs/promises";
import { parseYaml } from "@deltaloop/kube/yaml";
import { StaticPodError, staticPod } from "../kubelet/config/static-pod.ts";
import type { StaticPodOrigin } from "../kubelet/config/static-pod.ts";
import type { NodePod } from "../kubelet/types/pod.ts";
import { setObjectDefaultsPod, normalise } from "@deltaloop/kube/pod-template";
import { ensureObject, isObject } from "@deltaloop/base";
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

/** @param manifest as parsed; its defaults are set in it. @throws {StaticPodError} */
export function podOfManifest(manifest: unknown, origin: StaticPodOrigin["origin"], nodeName: string): NodePod {
  if (isObject(manifest) && manifest["apiVersion"] === "v1" && manifest["kind"] === "Pod") {
    normalise(manifest);
    ensureObject(manifest, "metadata");
    setObjectDefaultsPod(manifest);
  }
  return staticPod(manifest, { origin, nodeName });
}

function parseText(text: string, path: string): unknown {
  try {
    return parseYaml(text);
  } catch (error) {
    throw new StaticPodError(`manifest ${path}: ${messageOf(error)}`);
  }
}
