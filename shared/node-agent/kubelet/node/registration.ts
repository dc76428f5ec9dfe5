/** Parses the flags for labels and taints with which the Node is registered (node-agent §14.1). */
import type { Taint } from "../types/node-options.ts";

/** A label or taint is invalid; the error has upstream's message. */
export class RegistrationError extends Error {
  override readonly name = "RegistrationError";
}

/** Labels that the agent also updates on an existing Node. Source: pkg/kubelet/kubelet_node_status.go updateDefaultLabels. */
export const DEFAULT_LABELS: readonly string[] = [
  "kubernetes.io/hostname",
  "topology.kubernetes.io/zone",
  "topology.kubernetes.io/region",
  "failure-domain.beta.kubernetes.io/zone",
  "failure-domain.beta.kubernetes.io/region",
  "node.kubernetes.io/instance-type",
  "beta.kubernetes.io/instance-type",
  "kubernetes.io/os",
  "kubernetes.io/arch",
  "node.kubernetes.io/windows-build",
  "beta.kubernetes.io/os",
  "beta.kubernetes.io/arch",
];
/** Kubernetes labels that a node may set itself. Source: k8s.io/kubelet pkg/apis/well_known_labels.go. */
const OWN_LABELS = DEFAULT_LABELS.filter((label) => label !== "node.kubernetes.io/windows-build").toSorted();
const OWN_NAMESPACES = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/** Source: k8s.io/cloud-provider api/well_known_taints.go, well_known_annotations.go. */
export const UNINITIALIZED: Taint = { key: "node.cloudprovider.kubernetes.io/uninitialized", value: "true", effect: "NoSchedule" };
export const PROVIDED_NODE_IP = "alpha.kubernetes.io/provided-node-ip";

const QUALIFIED_PART = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/u;
const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/u;
const PART_LENGTH_MAX = 63;
const PREFIX_LENGTH_MAX = 253;
/** Source: apimachinery util/validation/validation.go. */
const PART_TEXT =
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_TEXT =
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/**
 * Parses `--node-labels`: `a=b,c` is `a: b` and `c: ""`. @throws {RegistrationError} for an invalid label. Source: component-base
 * cli/flag/configuration_map.go; cmd/kubelet/app/options/options.go ValidateKubeletFlags.
 */
export function parseNodeLabels(text: string): Readonly<Record<string, string>> {
  const pairs = text.split(",").filter((pair) => pair !== "");
  const labels = Object.fromEntries(
    pairs.map((pair) => pair.split(/=(.*)/su)).map(([key = "", value = ""]) => [key.trim(), value.trim()] as const),
  );
  const keys = Object.keys(labels);
  const forbidden = keys.filter((key) => isKubernetesLabel(key) && !isOwnLabel(key));
  if (forbidden.length > 0)
    throw new RegistrationError(
      `unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [${forbidden.toSorted().join(" ")}]\n` +
        `--node-labels in the 'kubernetes.io' namespace must begin with an allowed prefix (${OWN_NAMESPACES.join(", ")}) or be in the specifically allowed set (${OWN_LABELS.join(", ")})`,
    );
  const mistakes = Object.entries(labels).flatMap(([key, value]) => [
    ...keyMistakes(key).map((mistake) => `'${key}' - ${mistake}`),
    ...valueMistakes(value).map((mistake) => `'${value}' - ${mistake}`),
  ]);
  if (mistakes.length > 0) throw new RegistrationError(`invalid node labels: ${mistakes.join("; ")}`);
  return labels;
}

function namespaceOf(key: string): string {
  return key.includes("/") ? (key.split("/")[0] ?? "") : "";
}

function isKubernetesLabel(key: string): boolean {
  return /(?:^|\.)(?:kubernetes|k8s)\.io$/u.test(namespaceOf(key));
}

function isOwnLabel(key: string): boolean {
  const namespace = namespaceOf(key);
  return OWN_LABELS.includes(key) || OWN_NAMESPACES.some((own) => namespace === own || namespace.endsWith(`.${own}`));
}

function keyMistakes(key: string): readonly string[] {
  const parts = key.split("/");
  const [name = ""] = parts.slice(-1);
  if (parts.length > 2) return [`a qualified name ${PART_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`];
  return [
    ...(parts.length === 2 && parts[0] === "" ? ["prefix part must be non-empty"] : []),
    ...(parts.length === 2 && parts[0] !== "" && !isPrefix(parts[0] ?? "")
      ? ["prefix part a lowercase RFC 1123 subdomain must be given"]
      : []),
    ...(name === "" ? ["name part must be non-empty"] : []),
    ...(name.length > PART_LENGTH_MAX ? [`name part must be no more than ${PART_LENGTH_MAX} bytes`] : []),
    ...(QUALIFIED_PART.test(name) ? [] : [`name part ${PART_TEXT}`]),
  ];
}

function isPrefix(prefix: string): boolean {
  return prefix.length <= PREFIX_LENGTH_MAX && DNS_SUBDOMAIN.test(prefix);
}

function valueMistakes(value: string): readonly string[] {
  return [
    ...(value.length > PART_LENGTH_MAX ? [`must be no more than ${PART_LENGTH_MAX} bytes`] : []),
    ...(value === "" || QUALIFIED_PART.test(value) ? [] : [VALUE_TEXT]),
  ];
}

/** Source: pkg/util/taints/taints.go validateTaintEffect. */
const EFFECTS: readonly string[] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/**
 * Parses `--register-with-taints`: `key=value:effect` or `key:effect`, separated by commas. @throws {RegistrationError} Source:
 * pkg/util/taints/taints.go ParseTaints.
 */
export function parseTaints(text: string): readonly Taint[] {
  const specs = text === "" ? [] : text.split(",");
  const taints = specs.map(parseTaint);
  const twice = taints.find(({ key, effect }, index) => taints.findIndex((one) => one.key === key && one.effect === effect) !== index);
  if (twice !== undefined)
    throw new RegistrationError(`duplicated taints with the same key and effect: ${twice.key}=${twice.value ?? ""}:${twice.effect}`);
  return taints;
}

function parseTaint(spec: string): Taint {
  const parts = spec.split(":");
  const [named = "", effect = ""] = parts;
  const [key = "", value, ...rest] = named.split("=");
  if (parts.length > 2 || rest.length > 0 || effect === "") throw new RegistrationError(`invalid taint spec: ${spec}`);
  if (!EFFECTS.includes(effect)) throw new RegistrationError(`invalid taint effect: ${effect}, unsupported taint effect`);
  const mistakes = [...keyMistakes(key), ...valueMistakes(value ?? "")];
  if (mistakes.length > 0) throw new RegistrationError(`invalid taint spec: ${spec}, ${mistakes.join("; ")}`);
  return { key, ...(value !== undefined && value !== "" && { value }), effect };
}
