/** Generates the file contents of downwardAPI volumes (node-agent §10). */
import { goQuote } from "../types/go-quote.ts";
import { VolumeError } from "../types/volume-error.ts";
import { ownAt } from "@deltaloop/base";
import { parseQuantity, quantityNanos } from "@deltaloop/kube/quantity";
import type { Labels } from "@deltaloop/kube/objects";
import type { NodeResources } from "../types/node-options.ts";
import { initContainersOf, type ContainerSpec, type NodePod } from "../types/pod.ts";

const SUBSCRIPT = /^metadata\.(labels|annotations)\['(.*)'\]$/su;

/**
 * Returns a field of the pod as text. Labels and annotations are listed one per line, sorted by key:
 *
 *     metadata.labels          → cluster="c1"\nzone="a \"quoted\" one"
 *     metadata.labels['zone']  → a "quoted" one
 *
 * @throws {VolumeError} for an unsupported field. Source: pkg/fieldpath/fieldpath.go ExtractFieldPathAsString.
 */
export function podFieldText({ metadata }: NodePod, fieldPath: string): string {
  const [, map, key = ""] = SUBSCRIPT.exec(fieldPath) ?? [];
  if (map === "labels") return ownAt(metadata.labels, key) ?? "";
  if (map === "annotations") return ownAt(metadata.annotations, key) ?? "";
  switch (fieldPath) {
    case "metadata.name":
      return metadata.name;
    case "metadata.namespace":
      return metadata.namespace;
    case "metadata.uid":
      return metadata.uid;
    case "metadata.labels":
      return lines(metadata.labels ?? {});
    case "metadata.annotations":
      return lines(metadata.annotations ?? {});
    default:
      throw new VolumeError(`unsupported fieldPath: ${fieldPath}`);
  }
}

function lines(map: Labels): string {
  return Object.entries(map)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}=${goQuote(value)}`)
    .join("\n");
}

/**
 * Returns a request or limit in units of the divisor, rounded up. An unset limit of cpu, memory or ephemeral storage has the value of the
 * node's allocatable.
 *
 *     limits.cpu 1250m, divisor 1     → 2
 *     limits.memory 64Mi, divisor 1Ki → 65536
 *
 * @throws {VolumeError} for an unknown container or resource. Source: pkg/api/v1/resource/helpers.go
 * ExtractResourceValueByContainerNameAndNodeAllocatable.
 */
export function resourceFieldText(
  pod: NodePod,
  {
    containerName = "",
    resource,
    divisor = "0",
  }: { readonly containerName?: string; readonly resource: string; readonly divisor?: string },
  allocatable: NodeResources,
): string {
  const container = [...pod.spec.containers, ...initContainersOf(pod)].find(({ name }) => name === containerName);
  if (container === undefined) throw new VolumeError(`container ${containerName} not found`);
  const [kind, name = ""] = resource.split(/\.(.*)/su);
  if ((kind !== "limits" && kind !== "requests") || !isResource(name))
    throw new VolumeError(`unsupported container resource : ${resource}`);
  // CPU is computed in millicores, so that a divisor of 1m works.
  const unit = name === "cpu" ? MILLI : ONE;
  const value = units(amountOf(container, kind, name, allocatable), unit);
  const divideBy = units(divisor, unit) || units("1", unit);
  return String((value + divideBy - 1n) / divideBy);
}

/** One thousandth in nano units, the unit of quantityNanos. */
const MILLI = 1_000_000n;
const ONE = 1_000_000_000n;

function isResource(name: string): boolean {
  return name === "cpu" || name === "memory" || name === "ephemeral-storage" || name.startsWith("hugepages-");
}

function amountOf(container: ContainerSpec, kind: "limits" | "requests", name: string, allocatable: NodeResources): string {
  const own = container.resources?.[kind]?.[name] ?? "0";
  if (kind === "requests" || units(own, MILLI) > 0n) return own;
  switch (name) {
    case "cpu":
      return `${allocatable.cpuMilli}m`;
    case "memory":
      return String(allocatable.memoryBytes);
    case "ephemeral-storage":
      return String(allocatable.ephemeralStorageBytes);
    default:
      return own;
  }
}

function units(text: string, unit: bigint): bigint {
  const quantity = parseQuantity(text);
  return quantity === undefined ? 0n : (quantityNanos(quantity) + unit - 1n) / unit;
}
