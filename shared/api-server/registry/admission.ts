/**
 * Mutating admission plugins: service account, tolerations and priority of pods; and the namespace lifecycle.
 *
 * Source: kubernetes/plugin/pkg/admission/{serviceaccount,defaulttolerationseconds,priority},
 * apiserver/pkg/admission/plugin/namespace/lifecycle.
 */
import type { Random } from "@deltaloop/base";
import { type ApiError, forbidden, notFound } from "../scheme/api-error.ts";
import { randomSuffix } from "./generate-name.ts";
import { ensureObject, type JsonObject, metaOf, nameOf, objectAt, objectsAt, textAt } from "@deltaloop/base";
import type { ResourceDefinition } from "../scheme/resource-definitions.ts";
import type { Storage } from "../storage/storage.ts";

const TOKEN_MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount";
/**
 * 3600 + 7, upstream's WarnOnlyBoundTokenExpirationPeriod: marks the token of an injected volume, whose lifetime kube-apiserver extends
 * (`--service-account-extend-token-expiration`).
 */
const TOKEN_EXPIRATION_SECONDS = 3607;
const TOLERATION_SECONDS = 300;

/** Changes a pod in place. */
export function admitPod(pod: JsonObject, random: Random): void {
  const spec = ensureObject(pod, "spec");
  spec["serviceAccountName"] ??= "default";
  spec["serviceAccount"] = spec["serviceAccountName"];
  if (spec["automountServiceAccountToken"] !== false) mountServiceAccountToken(spec, random);
  tolerate(spec, "node.kubernetes.io/not-ready");
  tolerate(spec, "node.kubernetes.io/unreachable");
  spec["priority"] ??= 0;
  spec["preemptionPolicy"] ??= "PreemptLowerPriority";
}

function mountServiceAccountToken(spec: JsonObject, random: Random): void {
  const existing = objectsAt(spec, "volumes").find((volume) => textAt(volume, "name")?.startsWith("kube-api-access-") === true);
  const name = textAt(existing, "name") ?? `kube-api-access-${randomSuffix(random)}`;
  let isNeeded = false;
  for (const container of [...objectsAt(spec, "initContainers"), ...objectsAt(spec, "containers")]) {
    const mounts = objectsAt(container, "volumeMounts");
    if (mounts.some((mount) => mount["mountPath"] === TOKEN_MOUNT_PATH)) continue;
    container["volumeMounts"] = [...mounts, { name, readOnly: true, mountPath: TOKEN_MOUNT_PATH }];
    isNeeded = true;
  }
  if (isNeeded && existing === undefined) spec["volumes"] = [...objectsAt(spec, "volumes"), tokenVolume(name)];
}

function tokenVolume(name: string): JsonObject {
  return {
    name,
    projected: {
      sources: [
        { serviceAccountToken: { expirationSeconds: TOKEN_EXPIRATION_SECONDS, path: "token" } },
        { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
        { downwardAPI: { items: [{ path: "namespace", fieldRef: { apiVersion: "v1", fieldPath: "metadata.namespace" } }] } },
      ],
      defaultMode: 420,
    },
  };
}

function tolerate(spec: JsonObject, key: string): void {
  const tolerations = objectsAt(spec, "tolerations");
  const isTolerated = tolerations.some(
    (one) => (one["key"] === undefined || one["key"] === key) && (one["effect"] === undefined || one["effect"] === "NoExecute"),
  );
  if (!isTolerated)
    spec["tolerations"] = [...tolerations, { key, operator: "Exists", effect: "NoExecute", tolerationSeconds: TOLERATION_SECONDS }];
}

/** @throws {ApiError} 404 if the namespace does not exist, 403 if it is terminating */
export function admitIntoNamespace(storage: Storage, definition: ResourceDefinition, namespace: string, object: JsonObject): void {
  if (!definition.namespaced) return;
  const stored = storage.get("namespaces", "", namespace);
  if (stored === undefined) throw notFound({ group: "", resource: "namespaces" }, namespace);
  if (metaOf(stored)["deletionTimestamp"] === undefined && textAt(objectAt(stored, "status"), "phase") !== "Terminating") return;
  throw forbidden(definition, nameOf(object), `unable to create new content in namespace ${namespace} because it is being terminated`, [
    { reason: "NamespaceTerminating", message: `namespace ${namespace} is being terminated`, field: "metadata.namespace" },
  ]);
}

const IMMORTAL_NAMESPACES = new Set(["default", "kube-system", "kube-public"]);

/** @throws {ApiError} 403 for namespaces that must not be deleted */
export function admitNamespaceDeletion(name: string): void {
  if (IMMORTAL_NAMESPACES.has(name)) throw forbiddenNamespace(name);
}

function forbiddenNamespace(name: string): ApiError {
  return forbidden({ group: "", resource: "namespaces" }, name, "this namespace may not be deleted");
}
