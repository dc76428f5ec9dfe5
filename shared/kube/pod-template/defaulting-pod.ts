/**
 * Defaults of a pod spec, in a Pod and in a template. The pod-template-hash is computed from the result, so every
 * field matters.
 *
 * Source: kubernetes/pkg/apis/core/v1/defaults.go and zz_generated.defaults.go (SetObjectDefaults_Pod), v1.37.
 */
import { ensureObject, type JsonObject, type Json, objectAt, objectsAt, textAt, numberAt } from "@deltaloop/base";
import { canonicalQuantity } from "../quantity/quantity-text.ts";

export function setDefaultsPodSpec(spec: JsonObject): void {
  spec["dnsPolicy"] ??= "ClusterFirst";
  spec["restartPolicy"] ??= "Always";
  spec["securityContext"] ??= {};
  spec["terminationGracePeriodSeconds"] ??= 30;
  spec["schedulerName"] ??= "default-scheduler";
  // The API server returns both fields; serviceAccount is deprecated.
  const serviceAccount = textAt(spec, "serviceAccountName") ?? textAt(spec, "serviceAccount");
  if (serviceAccount !== undefined) {
    spec["serviceAccountName"] = serviceAccount;
    spec["serviceAccount"] = serviceAccount;
  }
  for (const container of containersOf(spec)) setDefaultsContainer(container);
  if (spec["hostNetwork"] === true) for (const container of containersOf(spec)) defaultHostPorts(container);
  for (const volume of objectsAt(spec, "volumes")) setDefaultsVolume(volume);
  const overhead = objectAt(spec, "overhead");
  if (overhead !== undefined) canonicalise(overhead);
}

/** Sets the defaults of a stored Pod in place. Source: SetObjectDefaults_Pod. */
export function setObjectDefaultsPod(pod: JsonObject): void {
  const spec = ensureObject(pod, "spec");
  setDefaultsPodSpec(spec);
  setDefaultsPod(spec);
  setDefaultsPodStatus(ensureObject(pod, "status"));
}

/** Defaults of a Pod that a template does not get. Source: SetDefaults_Pod. */
function setDefaultsPod(spec: JsonObject): void {
  for (const container of [...objectsAt(spec, "containers"), ...objectsAt(spec, "initContainers")]) {
    const resources = objectAt(container, "resources");
    const limits = objectAt(resources, "limits");
    if (resources !== undefined && limits !== undefined) resources["requests"] = { ...limits, ...objectAt(resources, "requests") };
  }
  if ((numberAt(spec, "terminationGracePeriodSeconds") ?? 0) < 0) spec["terminationGracePeriodSeconds"] = 1;
  spec["enableServiceLinks"] ??= true;
}

function setDefaultsPodStatus(status: JsonObject): void {
  for (const condition of objectsAt(status, "conditions")) {
    condition["lastProbeTime"] ??= null;
    condition["lastTransitionTime"] ??= null;
  }
  for (const list of ["initContainerStatuses", "containerStatuses"]) {
    for (const container of objectsAt(status, list)) {
      container["state"] ??= {};
      container["lastState"] ??= {};
    }
  }
}

function containersOf(spec: JsonObject): JsonObject[] {
  return [...objectsAt(spec, "initContainers"), ...objectsAt(spec, "containers"), ...objectsAt(spec, "ephemeralContainers")];
}

function setDefaultsContainer(container: JsonObject): void {
  container["imagePullPolicy"] ??= isLatest(textAt(container, "image") ?? "") ? "Always" : "IfNotPresent";
  container["terminationMessagePath"] ??= "/dev/termination-log";
  container["terminationMessagePolicy"] ??= "File";
  const resources = objectAt(container, "resources");
  if (resources === undefined) container["resources"] = {};
  for (const key of ["limits", "requests"]) {
    const list = objectAt(resources, key);
    if (list !== undefined) canonicalise(list);
  }
  for (const port of objectsAt(container, "ports")) port["protocol"] ??= "TCP";
  for (const env of objectsAt(container, "env")) {
    const from = objectAt(env, "valueFrom");
    setDefaultsFieldRef(objectAt(from, "fieldRef"));
    const fileKey = objectAt(from, "fileKeyRef");
    if (fileKey !== undefined) fileKey["optional"] ??= false;
  }
  for (const probe of ["livenessProbe", "readinessProbe", "startupProbe"]) setDefaultsProbe(objectAt(container, probe));
  const lifecycle = objectAt(container, "lifecycle");
  for (const handler of ["postStart", "preStop"]) setDefaultsHttpGet(objectAt(objectAt(lifecycle, handler), "httpGet"));
  const context = objectAt(container, "securityContext");
  if (context?.["privileged"] === true) delete context["procMount"];
}

/** Whether the image has no digest, and no tag or the tag `latest`. Source: pkg/util/parsers ParseImageName. */
function isLatest(image: string): boolean {
  if (image.includes("@")) return false;
  const last = image.slice(image.lastIndexOf("/") + 1);
  const colon = last.indexOf(":");
  return colon < 0 || last.slice(colon + 1) === "latest";
}

function setDefaultsProbe(probe: JsonObject | undefined): void {
  if (probe === undefined) return;
  probe["timeoutSeconds"] ??= 1;
  probe["periodSeconds"] ??= 10;
  probe["successThreshold"] ??= 1;
  probe["failureThreshold"] ??= 3;
  setDefaultsHttpGet(objectAt(probe, "httpGet"));
  const grpc = objectAt(probe, "grpc");
  if (grpc !== undefined) grpc["service"] ??= "";
}

function setDefaultsHttpGet(httpGet: JsonObject | undefined): void {
  if (httpGet === undefined) return;
  if ((httpGet["path"] ?? "") === "") httpGet["path"] = "/";
  if ((httpGet["scheme"] ?? "") === "") httpGet["scheme"] = "HTTP";
}

function setDefaultsFieldRef(fieldRef: JsonObject | undefined): void {
  if (fieldRef !== undefined) fieldRef["apiVersion"] ??= "v1";
}

function defaultHostPorts(container: JsonObject): void {
  for (const port of objectsAt(container, "ports")) port["hostPort"] ??= numberAt(port, "containerPort") ?? 0;
}

const DEFAULT_MODE = 0o644;

/** Defaults by volume source. */
const SOURCE_DEFAULTS: Readonly<Record<string, Readonly<Record<string, Json>>>> = {
  hostPath: { type: "" },
  secret: { defaultMode: DEFAULT_MODE },
  configMap: { defaultMode: DEFAULT_MODE },
  downwardAPI: { defaultMode: DEFAULT_MODE },
  projected: { defaultMode: DEFAULT_MODE },
  iscsi: { iscsiInterface: "default" },
  rbd: { pool: "rbd", user: "admin", keyring: "/etc/ceph/keyring" },
  azureDisk: { cachingMode: "ReadWrite", fsType: "ext4", readOnly: false, kind: "Shared" },
  scaleIO: { storageMode: "ThinProvisioned", fsType: "xfs" },
};

const TOKEN_EXPIRATION_SECONDS = 3600;

function setDefaultsVolume(volume: JsonObject): void {
  if (Object.keys(volume).every((key) => key === "name")) volume["emptyDir"] = {};
  for (const [source, defaults] of Object.entries(SOURCE_DEFAULTS)) {
    const given = objectAt(volume, source);
    if (given === undefined) continue;
    for (const [field, value] of Object.entries(defaults)) given[field] ??= value;
  }
  const image = objectAt(volume, "image");
  if (image !== undefined) image["pullPolicy"] ??= isLatest(textAt(image, "reference") ?? "") ? "Always" : "IfNotPresent";
  setDefaultsDownwardItems(objectAt(volume, "downwardAPI"));
  for (const source of objectsAt(objectAt(volume, "projected"), "sources")) {
    setDefaultsDownwardItems(objectAt(source, "downwardAPI"));
    const token = objectAt(source, "serviceAccountToken");
    if (token !== undefined) token["expirationSeconds"] ??= TOKEN_EXPIRATION_SECONDS;
  }
  const claim = objectAt(objectAt(objectAt(volume, "ephemeral"), "volumeClaimTemplate"), "spec");
  if (claim !== undefined) claim["volumeMode"] ??= "Filesystem";
}

function setDefaultsDownwardItems(source: JsonObject | undefined): void {
  for (const item of objectsAt(source, "items")) setDefaultsFieldRef(objectAt(item, "fieldRef"));
}

/** Converts quantities, including numbers, to canonical text. */
export function canonicalise(resources: JsonObject): void {
  for (const [name, value] of Object.entries(resources)) {
    const text = typeof value === "number" ? String(value) : value;
    if (typeof text === "string") resources[name] = canonicalQuantity(text) ?? text;
  }
}
