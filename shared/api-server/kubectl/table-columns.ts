/**
 * Columns and cells by kind.
 *
 * Source: kubernetes/pkg/printers/internalversion/printers.go, v1.37.
 */
import { age, since } from "./human-duration.ts";
import { type Json, type JsonObject, metaOf, nameOf, numberAt, objectAt, objectsAt, stringMap, textAt } from "@deltaloop/base";
import type { Column, Printer } from "./printer.ts";
import { selectorText } from "../rest/scale.ts";
import { customPrinter } from "./custom-columns.ts";
import type { ResourceDefinition } from "../scheme/resource-definitions.ts";
import { podCells } from "./table-pod.ts";

export function printerFor({ builtInKind, custom }: ResourceDefinition): Printer {
  return custom === undefined ? (PRINTERS[builtInKind] ?? PLAIN) : customPrinter(custom.columns);
}

const NAME: Column = { name: "Name", format: "name" };
const AGE: Column = { name: "Age" };
const WIDE_WORKLOAD: readonly Column[] = ["Containers", "Images", "Selector"].map((name) => ({ name, priority: 1 }));
const REPLICAS: readonly Column[] = [
  NAME,
  { name: "Desired", type: "integer" },
  { name: "Current", type: "integer" },
  { name: "Ready", type: "integer" },
  AGE,
  ...WIDE_WORKLOAD,
];

const PLAIN: Printer = { columns: [NAME, AGE], cells: (object, nowMs) => [nameOf(object), age(object, nowMs)] };

const PRINTERS: Readonly<Record<string, Printer>> = {
  Pod: {
    columns: [
      NAME,
      { name: "Ready" },
      { name: "Status" },
      { name: "Restarts" },
      AGE,
      { name: "IP", priority: 1 },
      { name: "Node", priority: 1 },
      { name: "Nominated Node", priority: 1 },
      { name: "Readiness Gates", priority: 1 },
    ],
    cells: podCells,
  },
  Deployment: {
    columns: [NAME, { name: "Ready" }, { name: "Up-to-date" }, { name: "Available" }, AGE, ...WIDE_WORKLOAD],
    cells: deploymentCells,
  },
  ReplicaSet: { columns: REPLICAS, cells: replicaCells },
  ReplicationController: { columns: REPLICAS, cells: replicaCells },
  Namespace: {
    columns: [NAME, { name: "Status" }, AGE],
    cells: (object, nowMs) => [nameOf(object), textAt(objectAt(object, "status"), "phase") ?? "", age(object, nowMs)],
  },
  Node: {
    columns: [
      NAME,
      { name: "Status" },
      { name: "Roles" },
      AGE,
      { name: "Version" },
      { name: "Internal-IP", priority: 1 },
      { name: "External-IP", priority: 1 },
      { name: "OS-Image", priority: 1 },
      { name: "Kernel-Version", priority: 1 },
      { name: "Container-Runtime", priority: 1 },
    ],
    cells: nodeCells,
  },
  Event: {
    columns: [
      { name: "Last Seen" },
      { name: "Type" },
      { name: "Reason" },
      { name: "Object" },
      { name: "Subobject", priority: 1 },
      { name: "Source", priority: 1 },
      { name: "Message" },
      { name: "First Seen", priority: 1 },
      { name: "Count", priority: 1 },
      { name: "Name", format: "name", priority: 1 },
    ],
    cells: eventCells,
  },
  ConfigMap: {
    columns: [NAME, { name: "Data" }, AGE],
    cells: (object, nowMs) => [nameOf(object), size(object, "data") + size(object, "binaryData"), age(object, nowMs)],
  },
  Secret: {
    columns: [NAME, { name: "Type" }, { name: "Data" }, AGE],
    cells: (object, nowMs) => [nameOf(object), textAt(object, "type") ?? "", size(object, "data"), age(object, nowMs)],
  },
  Service: {
    columns: [
      NAME,
      { name: "Type" },
      { name: "Cluster-IP" },
      { name: "External-IP" },
      { name: "Port(s)" },
      AGE,
      { name: "Selector", priority: 1 },
    ],
    cells: serviceCells,
  },
  ResourceQuota: { columns: [NAME, { name: "Request" }, { name: "Limit" }, AGE], cells: quotaCells },
  Lease: {
    columns: [NAME, { name: "Holder" }, AGE],
    cells: (object, nowMs) => [nameOf(object), textAt(objectAt(object, "spec"), "holderIdentity") ?? "", age(object, nowMs)],
  },
};

function size(object: JsonObject, field: string): number {
  return Object.keys(objectAt(object, field) ?? {}).length;
}

function count(object: JsonObject, part: "spec" | "status", field: string): number {
  return numberAt(objectAt(object, part), field) ?? 0;
}

function wideWorkload(object: JsonObject): Json[] {
  const spec = objectAt(object, "spec");
  const containers = objectsAt(objectAt(objectAt(spec, "template"), "spec"), "containers");
  const all = (field: string): string => containers.map((container) => textAt(container, field) ?? "").join(",");
  return [all("name"), all("image"), selectorText(objectAt(spec, "selector") ?? {})];
}

function deploymentCells(object: JsonObject, nowMs: number): Json[] {
  const ready = `${count(object, "status", "readyReplicas")}/${count(object, "spec", "replicas")}`;
  return [
    nameOf(object),
    ready,
    count(object, "status", "updatedReplicas"),
    count(object, "status", "availableReplicas"),
    age(object, nowMs),
    ...wideWorkload(object),
  ];
}

function replicaCells(object: JsonObject, nowMs: number): Json[] {
  const counts = [count(object, "spec", "replicas"), count(object, "status", "replicas"), count(object, "status", "readyReplicas")];
  return [nameOf(object), ...counts, age(object, nowMs), ...wideWorkload(object)];
}

function nodeCells(node: JsonObject, nowMs: number): Json[] {
  const status = objectAt(node, "status");
  const info = objectAt(status, "nodeInfo");
  const ready = objectsAt(status, "conditions").find((condition) => condition["type"] === "Ready");
  const states = [ready === undefined ? "Unknown" : ready["status"] === "True" ? "Ready" : "NotReady"];
  if (objectAt(node, "spec")?.["unschedulable"] === true) states.push("SchedulingDisabled");
  const prefix = "node-role.kubernetes.io/";
  const roles = Object.keys(stringMap(metaOf(node)["labels"])).flatMap((key) => (key.startsWith(prefix) ? [key.slice(prefix.length)] : []));
  const address = (type: string): string =>
    textAt(
      objectsAt(status, "addresses").find((one) => one["type"] === type),
      "address",
    ) ?? "<none>";
  const known = (field: string): string => textAt(info, field) ?? "<unknown>";
  const architecture = textAt(info, "architecture");
  const kernel = architecture === undefined ? known("kernelVersion") : `${known("kernelVersion")} (${architecture})`;
  return [
    nameOf(node),
    states.join(","),
    roles.sort().join(",") || "<none>",
    age(node, nowMs),
    textAt(info, "kubeletVersion") ?? "",
    address("InternalIP"),
    address("ExternalIP"),
    known("osImage"),
    kernel,
    known("containerRuntimeVersion"),
  ];
}

function eventCells(event: JsonObject, nowMs: number): Json[] {
  const involved = objectAt(event, "involvedObject");
  const series = objectAt(event, "series");
  const first = since(textAt(event, "firstTimestamp") ?? textAt(event, "eventTime"), nowMs);
  const last = textAt(series, "lastObservedTime") ?? textAt(event, "lastTimestamp");
  const kind = (textAt(involved, "kind") ?? "").toLowerCase();
  const name = textAt(involved, "name") ?? "";
  const component = textAt(objectAt(event, "source"), "component") ?? textAt(event, "reportingComponent") ?? "";
  const instance = textAt(objectAt(event, "source"), "host") ?? textAt(event, "reportingInstance") ?? "";
  return [
    last === undefined ? first : since(last, nowMs),
    textAt(event, "type") ?? "",
    textAt(event, "reason") ?? "",
    name === "" ? kind : `${kind}/${name}`,
    textAt(involved, "fieldPath") ?? "",
    instance === "" ? component : `${component}, ${instance}`,
    (textAt(event, "message") ?? "").trim(),
    first,
    numberAt(series, "count") ?? numberAt(event, "count") ?? 1,
    nameOf(event),
  ];
}

function serviceCells(service: JsonObject, nowMs: number): Json[] {
  const spec = objectAt(service, "spec");
  const ports = objectsAt(spec, "ports").map((port) => {
    const nodePort = numberAt(port, "nodePort");
    return `${numberAt(port, "port") ?? 0}${nodePort === undefined ? "" : `:${nodePort}`}/${textAt(port, "protocol") ?? "TCP"}`;
  });
  const selector = selectorText(objectAt(spec, "selector") ?? {});
  return [
    nameOf(service),
    textAt(spec, "type") ?? "",
    textAt(spec, "clusterIP") ?? "<none>",
    "<none>",
    ports.join(",") || "<none>",
    age(service, nowMs),
    selector || "<none>",
  ];
}

function quotaCells(quota: JsonObject, nowMs: number): Json[] {
  const status = objectAt(quota, "status");
  const used = stringMap(status?.["used"]);
  const lines = Object.entries(stringMap(status?.["hard"]))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, hard]) => ({ isLimit: name.startsWith("limits."), text: `${name}: ${used[name] ?? "0"}/${hard}` }));
  const join = (isLimit: boolean): string => lines.flatMap((line) => (line.isLimit === isLimit ? [line.text] : [])).join(", ");
  return [nameOf(quota), join(false), join(true), age(quota, nowMs)];
}
