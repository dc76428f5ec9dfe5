/**
 * Emulates decoding into Go structs and encoding again: nulls, empty lists and zero values of `omitempty` fields are dropped, pointers
 * (`replicas: 0`, `securityContext: {}`) are kept. Otherwise two equal templates would be returned differently.
 */
import { isObject, type Json, type JsonObject } from "@deltaloop/base";

/** Non-pointer `omitempty` fields of metadata, pod specs, and the specs and statuses of the workload kinds. */
const OMITTED_WHEN_ZERO = new Set([
  ...["generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "labels", "annotations"],
  ...[
    "paused",
    "minReadySeconds",
    "observedGeneration",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "fullyLabeledReplicas",
  ],
  ...[
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "nodeName",
    "serviceAccountName",
    "serviceAccount",
    "hostname",
    "subdomain",
    "schedulerName",
    "priorityClassName",
    "nodeSelector",
    "overhead",
  ],
  ...[
    "workingDir",
    "stdin",
    "stdinOnce",
    "tty",
    "hostPort",
    "hostIP",
    "value",
    "prefix",
    "readOnly",
    "subPath",
    "subPathExpr",
    "limits",
    "requests",
    "matchLabels",
  ],
  ...[
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
  ],
  ...[
    "restartPolicy",
    "dnsPolicy",
    "effect",
    "operator",
    "reason",
    "message",
    "nominatedNodeName",
    "podIP",
    "hostIP",
    "phase",
    "qosClass",
    "medium",
    "secretName",
    "apiVersion",
  ],
]);

/** Maps with user-defined keys. */
const USER_MAPS = new Set([
  "labels",
  "annotations",
  "matchLabels",
  "nodeSelector",
  "data",
  "stringData",
  "binaryData",
  "limits",
  "requests",
  "hard",
  "used",
  "capacity",
  "allocatable",
]);

/** Fields that the API server returns even if they are empty. */
const KEPT_WHEN_EMPTY = new Set(["containers", "lastProbeTime", "lastTransitionTime", "eventTime"]);

/** Changes `object` in place. */
export function normalise(object: JsonObject): JsonObject {
  for (const [key, value] of Object.entries(object)) {
    if (isOmitted(key, value)) delete object[key];
    else if (isObject(value)) {
      if (!USER_MAPS.has(key)) normalise(value);
    } else if (Array.isArray(value)) normaliseList(value);
  }
  return object;
}

/** Source: k8s.io/api/apps/v1/types.go (DeploymentStatus; ReplicaSetStatus has no omitempty there). */
export function normaliseDeploymentStatus(status: JsonObject | undefined): void {
  if (status?.["replicas"] === 0) delete status["replicas"];
}

function normaliseList(list: readonly Json[]): void {
  for (const entry of list) if (isObject(entry)) normalise(entry);
}

function isOmitted(key: string, value: Json): boolean {
  if (KEPT_WHEN_EMPTY.has(key)) return false;
  if (value === null || (Array.isArray(value) && value.length === 0)) return true;
  if (!OMITTED_WHEN_ZERO.has(key)) return false;
  return value === "" || value === 0 || value === false || (isObject(value) && Object.keys(value).length === 0);
}
