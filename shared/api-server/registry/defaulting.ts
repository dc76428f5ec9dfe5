/**
 * Defaults by kind, set after decoding a request and again after applying a patch.
 *
 * Source: kubernetes/pkg/apis/{apps,core}/v1/defaults.go, v1.37.
 */
import { canonicalise, setDefaultsPodSpec, setObjectDefaultsPod, normalise, normaliseDeploymentStatus } from "@deltaloop/kube/pod-template";
import { ensureObject, isObject, type JsonObject, objectAt, objectsAt, stringMap, textAt } from "@deltaloop/base";
import { setDefaultsDefinition } from "../custom/definition-object.ts";
import { setCustomDefaults } from "../custom/structural.ts";
import { schemaIn } from "../custom/versions.ts";
import { apiVersionOf, type ResourceDefinition } from "../scheme/resource-definitions.ts";

/** Changes `object` in place. */
export function setDefaults(definition: ResourceDefinition, object: JsonObject): JsonObject {
  object["kind"] = definition.kind;
  object["apiVersion"] = apiVersionOf(definition);
  ensureObject(object, "metadata");
  if (definition.custom !== undefined) return setDefaultsCustom(object, schemaIn(definition.custom, definition.version));
  if (definition.builtInKind === "CustomResourceDefinition") {
    normaliseMetadata(object);
    setDefaultsDefinition(object);
    return object;
  }
  normalise(object);
  // The only zero whose serialisation differs by kind: `replicas,omitempty` in a DeploymentStatus.
  if (definition.builtInKind === "Deployment") normaliseDeploymentStatus(objectAt(object, "status"));
  ensureObject(object, "metadata");
  DEFAULTS[definition.builtInKind]?.(object);
  return object;
}

function setDefaultsCustom(object: JsonObject, schema: JsonObject): JsonObject {
  setCustomDefaults(object, schema);
  normaliseMetadata(object);
  return object;
}

/** Other fields of these kinds keep what their schemas allow. */
function normaliseMetadata(object: JsonObject): void {
  const metadata = objectAt(object, "metadata");
  if (metadata !== undefined) normalise({ metadata });
}

const DEFAULTS: Readonly<Record<string, (object: JsonObject) => void>> = {
  Deployment: setDefaultsDeployment,
  ReplicaSet: (rs) => {
    const spec = ensureObject(rs, "spec");
    spec["replicas"] ??= 1;
    ensureObject(spec, "template");
    setDefaultsTemplate(spec);
    ensureObject(rs, "status")["replicas"] ??= 0;
  },
  ReplicationController: setDefaultsReplicationController,
  Pod: setObjectDefaultsPod,
  Namespace: (namespace) => {
    const meta = ensureObject(namespace, "metadata");
    const name = textAt(meta, "name");
    if (name !== undefined) ensureObject(meta, "labels")["kubernetes.io/metadata.name"] = name;
    ensureObject(namespace, "status")["phase"] ??= "Active";
  },
  Node: (node) => {
    ensureObject(node, "spec");
    const status = ensureObject(node, "status");
    const capacity = objectAt(status, "capacity");
    if (capacity !== undefined) status["allocatable"] ??= { ...capacity };
    for (const list of ["capacity", "allocatable"]) canonicalise(objectAt(status, list) ?? {});
  },
  ResourceQuota: (quota) => {
    canonicalise(objectAt(ensureObject(quota, "spec"), "hard") ?? {});
    ensureObject(quota, "status");
  },
  StatefulSet: setDefaultsTemplateOf,
  DaemonSet: setDefaultsTemplateOf,
  Job: setDefaultsTemplateOf,
  CronJob: (cronJob) => setDefaultsTemplateOf(ensureObject(ensureObject(cronJob, "spec"), "jobTemplate")),
  NetworkPolicy: (policy) => void (ensureObject(policy, "spec")["podSelector"] ??= {}),
  Service: setDefaultsService,
  Secret: (secret) => {
    dropEmptyData(secret);
    secret["type"] ??= "Opaque";
    const plain = secret["stringData"];
    if (!isObject(plain)) return;
    const data = ensureObject(secret, "data");
    for (const [key, value] of Object.entries(stringMap(plain))) data[key] = Buffer.from(value).toString("base64");
    delete secret["stringData"];
  },
  ConfigMap: dropEmptyData,
  Lease: (lease) => void ensureObject(lease, "spec"),
  Event: (event) => {
    // The field is not `omitempty` upstream, so it is always served.
    event["metadata"] ??= {};
    event["source"] ??= {};
    event["eventTime"] ??= null;
    event["reportingComponent"] ??= textAt(objectAt(event, "source"), "component") ?? "";
    event["reportingInstance"] ??= "";
  },
};

function dropEmptyData(object: JsonObject): void {
  for (const field of ["data", "binaryData"]) {
    const data = object[field];
    if (isObject(data) && Object.keys(data).length === 0) delete object[field];
  }
}

/** Fields that are served even if unset, without upstream defaults. */
function setDefaultsDeployment(deployment: JsonObject): void {
  const spec = ensureObject(deployment, "spec");
  spec["replicas"] ??= 1;
  const strategy = ensureObject(spec, "strategy");
  strategy["type"] ??= "RollingUpdate";
  if (strategy["type"] === "RollingUpdate") {
    const rollingUpdate = ensureObject(strategy, "rollingUpdate");
    rollingUpdate["maxUnavailable"] ??= "25%";
    rollingUpdate["maxSurge"] ??= "25%";
  }
  spec["revisionHistoryLimit"] ??= 10;
  spec["progressDeadlineSeconds"] ??= 600;
  ensureObject(spec, "template");
  setDefaultsTemplate(spec);
  for (const condition of objectsAt(ensureObject(deployment, "status"), "conditions")) {
    condition["lastUpdateTime"] ??= null;
    condition["lastTransitionTime"] ??= null;
  }
}

/** Kinds that are stored as they are sent, but for their pods. */
function setDefaultsTemplateOf(object: JsonObject): void {
  setDefaultsTemplate(ensureObject(object, "spec"));
}

function setDefaultsReplicationController(rc: JsonObject): void {
  const spec = ensureObject(rc, "spec");
  spec["replicas"] ??= 1;
  const labels = objectAt(objectAt(objectAt(spec, "template"), "metadata"), "labels");
  if (labels !== undefined) {
    if (Object.keys(objectAt(spec, "selector") ?? {}).length === 0) spec["selector"] = { ...labels };
    const meta = ensureObject(rc, "metadata");
    if (Object.keys(objectAt(meta, "labels") ?? {}).length === 0) meta["labels"] = { ...labels };
  }
  setDefaultsTemplate(spec);
  ensureObject(rc, "status")["replicas"] ??= 0;
}

function setDefaultsTemplate(spec: JsonObject): void {
  const template = objectAt(spec, "template");
  if (template === undefined) return;
  ensureObject(template, "metadata");
  setDefaultsPodSpec(ensureObject(template, "spec"));
}

/** Three hours. */
const CLIENT_IP_SECONDS = 10_800;

function setDefaultsService(service: JsonObject): void {
  const spec = ensureObject(service, "spec");
  if (spec["publishNotReadyAddresses"] === false) delete spec["publishNotReadyAddresses"];
  if (isObject(spec["selector"]) && Object.keys(spec["selector"]).length === 0) delete spec["selector"];
  spec["sessionAffinity"] ??= "None";
  if (spec["sessionAffinity"] === "ClientIP") {
    const config = ensureObject(ensureObject(spec, "sessionAffinityConfig"), "clientIP");
    config["timeoutSeconds"] ??= CLIENT_IP_SECONDS;
  } else delete spec["sessionAffinityConfig"];
  spec["type"] ??= "ClusterIP";
  if (spec["type"] !== "ExternalName") spec["internalTrafficPolicy"] ??= "Cluster";
  for (const port of objectsAt(spec, "ports")) {
    port["protocol"] ??= "TCP";
    port["targetPort"] ??= port["port"] ?? 0;
  }
  ensureObject(ensureObject(service, "status"), "loadBalancer");
}
