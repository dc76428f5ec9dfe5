/**
 * Generates the tables of Go types from the sources of a Kubernetes release. Run it manually for a new release:
 *
 *     node test/differential/generate-go-types.ts $(go env GOMODCACHE)/k8s.io
 *
 * The types of pod templates are in shared/kube/releases, written by generate-pod-template-types.ts.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { KUBERNETES_VERSION } from "../../shared/kube/objects/release.ts";

const [modules = ""] = process.argv.slice(2);
const RELEASE = KUBERNETES_VERSION.replace("v1.", "v0.");
const SHARED = join(import.meta.dirname, "..", "..", "shared");
const WIDTH = 140;

const CORE = ["apimachinery/pkg/apis/meta/v1/types.go", "api/core/v1/types.go"];
const API = [
  ...CORE,
  "api/core/v1/objectreference.go",
  "api/apps/v1/types.go",
  "api/autoscaling/v2/types.go",
  // Listed after v2: if two types have the same name, the first one counts.
  "api/autoscaling/v1/types.go",
  "api/batch/v1/types.go",
  "api/coordination/v1/types.go",
  "api/networking/v1/types.go",
  "api/policy/v1/types.go",
  "api/rbac/v1/types.go",
  "apiextensions-apiserver/pkg/apis/apiextensions/v1/types.go",
];
const KUBELET = [
  ...["kubelet/config/v1beta1/types.go", "component-base/logs/api/v1/types.go", "component-base/tracing/api/v1/types.go"],
  ...CORE,
];
/** Kinds of the in-memory API server. */
const KINDS = [
  ...["Pod", "ReplicationController", "Deployment", "ReplicaSet", "Scale", "Lease", "Binding", "Namespace", "Node", "Event"],
  ...["ConfigMap", "Secret", "ServiceAccount", "Service", "ResourceQuota", "PersistentVolumeClaim", "StatefulSet", "DaemonSet"],
  ...["Job", "CronJob", "NetworkPolicy", "Ingress", "PodDisruptionBudget", "HorizontalPodAutoscaler"],
  ...["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"],
];

const SHORT: Readonly<Record<string, string>> = {
  ...{ string: "s", bool: "b", int32: "i32", int64: "i64", uint32: "u32", float64: "f64", "[]byte": "bytes" },
  "map[string]string": "m",
};
/** Structs that are a single JSON value. */
const VALUES = new Set(["Time", "MicroTime", "Quantity", "QuantityValue", "IntOrString", "FieldsV1", "Duration", "TimeOrMetaDuration"]);

interface Field {
  readonly name: string;
  /** The JSON key; "" for an inlined field. */
  readonly key: string;
  readonly type: string;
}
type Structs = ReadonlyMap<string, readonly Field[]>;

function structsOf(files: readonly string[]): Structs {
  const texts = files.map((file) => readFileSync(join(modules, file.replace("/", `@${RELEASE}/`)), "utf8"));
  const aliases = new Map<string, string>();
  for (const text of texts)
    for (const [, name = "", type = ""] of text.matchAll(/^type (\w+) ((?!struct|string|interface)\S+)$/gmu)) aliases.set(name, type);
  const structs = new Map<string, readonly Field[]>();
  for (const text of texts)
    for (const [, name = "", body = ""] of text.matchAll(/^type (\w+) struct ?\{(?:\}|\n([\s\S]*?)^\})/gmu))
      if (!structs.has(name) && !VALUES.has(name)) structs.set(name, fieldsOf(body, aliases));
  return structs;
}

function fieldsOf(body: string, aliases: ReadonlyMap<string, string>): readonly Field[] {
  return [...body.matchAll(/^\s*(?:(\w+)\s+)?([\w.*[\]]+)\s+`json:"([^",]*)[^`\n]*`/gmu)].map(([, name, type = "", key = ""]) => {
    const local = type.replace(/\b(?:\w+v\d\w*|v1|logsapi|tracingapi)\./gu, "");
    return { name: name ?? local.replace(/^[*[\]]*/u, ""), key, type: local === "ResourceList" ? local : (aliases.get(local) ?? local) };
  });
}

const jsonKey = (name: string): string => name.charAt(0).toLowerCase() + name.slice(1);

/** Splits a Go type into prefixes and base type: `map[string][]string` into `%[]` and `string`. */
function partsOf(type: string): readonly [prefix: string, base: string] {
  if (SHORT[type] !== undefined) return ["", type];
  const [, first = "", rest = ""] = /^(\*|\[\]|map\[\w+\])(.*)$/u.exec(type) ?? [];
  if (first === "") return ["", type];
  const [prefix, base] = partsOf(rest);
  return [`${first.startsWith("map") ? "%" : first}${prefix}`, base];
}

function printed({ name, key, type }: Field): string {
  const [prefix, base] = partsOf(type);
  const shown = base === name ? "~" : (SHORT[base] ?? base);
  const suffix = key === "" ? "^" : key === jsonKey(name) ? "" : `=${key}`;
  return `${name}${suffix}:${prefix}${shown}`;
}

const fieldsAsText = (structs: Structs, name: string): string => (structs.get(name) ?? []).map(printed).join(" ");

/** Returns the structs that are reachable from `roots`, except those in `known`. */
function reachedFrom(structs: Structs, roots: readonly string[], known: ReadonlySet<string> = new Set()): ReadonlySet<string> {
  const reached = new Set(roots);
  for (const name of reached) {
    if (!structs.has(name)) throw new Error(`no ${name} in ${modules}`);
    for (const { type } of structs.get(name) ?? []) {
      const [, base] = partsOf(type);
      if (structs.has(base) && base !== "EphemeralContainerCommon" && !known.has(base)) reached.add(base);
    }
  }
  return reached;
}

function tableOf(structs: Structs, names: ReadonlySet<string>): string {
  const words = [...names].flatMap((name) => `${name}{${fieldsAsText(structs, name)}}`.split(" "));
  const lines: string[] = [];
  for (const word of words) {
    const last = lines.at(-1);
    const starts = /^\w+\{/u.test(word);
    if (starts) lines.push(word);
    else if (last !== undefined && last.length + 1 + word.length <= WIDTH) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(`  ${word}`);
  }
  return lines.join("\n");
}

const api = structsOf(API);
/** EphemeralContainerCommon is omitted, because it has the fields of Container (pod-template-layout.ts relies on that). */
if (fieldsAsText(api, "EphemeralContainerCommon") !== fieldsAsText(api, "Container"))
  throw new Error("EphemeralContainerCommon and Container differ, but pod-template-layout.ts assumes that they are equal");
const template = reachedFrom(api, ["PodTemplateSpec"]);

function writeTable(file: string, name: string, comment: string, text: string): void {
  writeFileSync(
    file,
    `/** ${comment} Generated by test/differential/generate-go-types.ts; do not edit. */
export const ${name} = \`
${text}
\`;
`,
  );
}
writeTable(
  join(SHARED, "api-server/scheme/api-types.ts"),
  "API_TYPES",
  "The Go types of the served kinds, beside those of a pod template, in the same form.",
  tableOf(api, reachedFrom(api, KINDS, template)),
);
const kubelet = structsOf(KUBELET);
writeTable(
  join(SHARED, "..", "cli/node/kubelet-config-types.ts"),
  "KUBELET_CONFIG_TYPES",
  "The Go types of a KubeletConfiguration, in the form of shared/kube/pod-template/type-table.ts.",
  tableOf(kubelet, reachedFrom(kubelet, ["KubeletConfiguration"])),
);
