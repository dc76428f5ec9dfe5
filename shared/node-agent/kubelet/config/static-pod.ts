/** Converts a manifest to a static pod (node-agent §2.1). */
import { createHash } from "node:crypto";
import { apiReference } from "./api-reference.ts";
import { SYSTEM_CRITICAL_PRIORITY } from "../types/critical-pod.ts";
import { canonicalJson } from "../types/json-equal.ts";
import { CONFIG_ANNOTATIONS, isMirrorPod } from "../types/labels.ts";
import { parseNodePod, type NodePod, type PodSpec } from "../types/pod.ts";
import { messageOf } from "@deltaloop/kube/objects";

/** The manifest is not a valid static pod. The pod is not run; the message contains the path or URL of the manifest. */
export class StaticPodError extends Error {
  override readonly name = "StaticPodError";
}

export interface StaticPodOrigin {
  readonly origin: { readonly kind: "file"; readonly path: string } | { readonly kind: "http"; readonly url: string };
  readonly nodeName: string;
}

/** The fields that are read here. Any of them may be missing or have another type. */
interface Manifest {
  readonly apiVersion?: unknown;
  readonly kind?: unknown;
  readonly metadata?: { readonly name?: unknown; readonly namespace?: unknown; readonly uid?: unknown; readonly annotations?: object };
  readonly spec?: Partial<PodSpec>;
}

const DNS_LABEL = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
const DNS_SUBDOMAIN = /^(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;
/** Characters that are allowed in a UID, which becomes part of paths and keys. */
const UID = /^[A-Za-z0-9](?:[-A-Za-z0-9]{0,251}[A-Za-z0-9])?$/;

/**
 * Converts a parsed manifest with defaults to a pod. Unless the manifest sets the UID, it is a hash of content, origin and node, so that
 * an edited manifest is a new pod.
 *
 *     /etc/manifests/web.yaml `web` on node N1 → default/web-n1, uid = config.hash = MD5 of content and location
 *
 * Source: pkg/kubelet/config/common.go applyDefaults, tryDecodeSinglePod. Differs from upstream: hashes JSON with sorted keys, and
 * validates only the names that paths and the mirror pod use. @throws {StaticPodError} naming the manifest and the problem
 */
export function staticPod(manifest: unknown, given: StaticPodOrigin): NodePod {
  const refuse = (why: string): StaticPodError => new StaticPodError(`${originText(given.origin)}: ${why}`);
  const { apiVersion, kind, metadata = {}, spec } = (manifest ?? {}) as Manifest; // every field is checked below
  if (apiVersion !== "v1" || kind !== "Pod")
    throw refuse(`expected apiVersion v1 and kind Pod, but found ${String(apiVersion)} ${String(kind)}`);
  const { name, annotations } = metadata;
  const namespace = metadata.namespace === undefined || metadata.namespace === "" ? "default" : metadata.namespace;
  if (typeof name !== "string" || name === "") throw refuse("metadata.name is missing");
  const uid = metadata.uid === undefined || metadata.uid === "" ? uidOf(manifest, given) : metadata.uid;
  if (typeof uid !== "string" || !UID.test(uid)) throw refuse("metadata.uid may contain only letters, digits and dashes");
  const fullName = `${name}-${given.nodeName.toLowerCase()}`;
  if (!DNS_SUBDOMAIN.test(fullName)) throw refuse(`metadata.name: "${fullName}" is not a DNS name of at most 253 characters`);
  if (typeof namespace !== "string" || !DNS_LABEL.test(namespace)) throw refuse("metadata.namespace is not a DNS label");

  const { pod, problem } = built({
    apiVersion,
    kind,
    metadata: { ...metadata, name: fullName, namespace, uid, annotations: { ...annotations, [CONFIG_ANNOTATIONS.hash]: uid } },
    spec: { ...spec, nodeName: given.nodeName },
    status: { phase: "Pending" },
  });
  if (problem !== undefined) throw refuse(problem);
  return given.origin.kind === "file" ? { ...pod, spec: { ...pod.spec, tolerations: toleratingNoExecute(pod.spec) } } : pod;
}

/** Source: pkg/apis/scheduling/types.go SystemNodeCritical; scheduling/v1/helpers.go. */
const NODE_CRITICAL = { className: "system-node-critical", priority: SYSTEM_CRITICAL_PRIORITY + 1000 };

/** Returns a warning about the priority of a static pod, if any. The pod runs nevertheless. Source: pkg/kubelet/config/common.go. */
export function priorityWarning({ spec: { priority, priorityClassName = "" } }: NodePod): string | undefined {
  const { className } = NODE_CRITICAL;
  if (priority === undefined)
    return priorityClassName === ""
      ? undefined
      : "priorityClassName has no effect without priority; the API server may reject the mirror pod";
  if (priorityClassName === "") return "the API server may reject the mirror pod: priority is set without priorityClassName";
  if (priority === NODE_CRITICAL.priority && priorityClassName === className) return undefined;
  return `evicting the mirror pod does not stop the static pod; set priority ${NODE_CRITICAL.priority} and priorityClassName ${className}`;
}

type Built = { readonly pod: NodePod; readonly problem?: undefined } | { readonly pod?: undefined; readonly problem: string };

function built(value: object): Built {
  try {
    const pod = parseNodePod(value);
    const problem = problemOf(pod);
    return problem === undefined ? { pod } : { problem };
  } catch (error) {
    // A field is missing or has the wrong type.
    return { problem: `not a valid Pod: ${messageOf(error)}` };
  }
}

function problemOf(pod: NodePod): string | undefined {
  if (isMirrorPod(pod)) return `the annotation ${CONFIG_ANNOTATIONS.mirror} is for the API server's copy of a static pod`;
  if (!Array.isArray(pod.spec.tolerations ?? [])) return "spec.tolerations is not a list";
  const reference = apiReference(pod.spec);
  if (reference !== undefined) return `a static pod must not refer to ${reference.resource} (${reference.field})`;
  return containerProblem(pod.spec);
}

/** Hashes the content, then the location. */
function uidOf(manifest: unknown, { origin, nodeName }: StaticPodOrigin): string {
  const hash = createHash("md5").update(canonicalJson(manifest));
  return (origin.kind === "file" ? hash.update(`host:${nodeName}`).update(`file:${origin.path}`) : hash.update(`url:${origin.url}`)).digest(
    "hex",
  );
}

/**
 * Adds a NoExecute toleration, so that the pod is not evicted because of node problems. Source: pkg/apis/core/helper
 * AddOrUpdateTolerationInPod.
 */
function toleratingNoExecute({ tolerations = [] }: PodSpec): NonNullable<PodSpec["tolerations"]> {
  const wanted = { operator: "Exists", effect: "NoExecute" };
  const others = tolerations.filter(
    ({ key = "", operator, value = "", effect }) =>
      !(key === "" && value === "" && operator === wanted.operator && effect === wanted.effect),
  );
  return [...others, wanted];
}

function containerProblem(spec: PodSpec): string | undefined {
  const names = new Set<string>();
  for (const { name, image } of [...(spec.initContainers ?? []), ...spec.containers]) {
    if (typeof name !== "string" || !DNS_LABEL.test(name)) return `container name "${String(name)}" is not a DNS label`;
    if (names.has(name)) return `two containers are named "${name}"`;
    if (typeof image !== "string" || image.trim() === "") return `container "${name}" has no image`;
    names.add(name);
  }
  return (spec.ephemeralContainers ?? []).length > 0 ? "a static pod cannot have ephemeral containers" : undefined;
}

export function originText(origin: StaticPodOrigin["origin"]): string {
  return origin.kind === "file" ? `manifest ${origin.path}` : `manifest at ${shownUrl(origin.url)}`;
}

/** Returns the URL without user, password and query, which may be secret. */
export function shownUrl(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}
