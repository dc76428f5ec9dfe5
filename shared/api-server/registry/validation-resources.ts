/**
 * Validates resource amounts of containers and quotas.
 *
 * Source: kubernetes/pkg/apis/core/validation/validation.go (ValidateContainerResourceRequirements, ValidateResourceQuantityValue),
 * pkg/apis/core/helper/helpers.go.
 */
import { type FieldError, fieldForbidden, fieldInvalid, fieldRequired } from "../scheme/api-error.ts";
import { type JsonObject, objectAt } from "@deltaloop/base";
import { parseQuantity, quantityNanos } from "@deltaloop/kube/quantity";
import { validateKey } from "../scheme/validation-names.ts";

const ONE = 1_000_000_000n;
const COMPUTE = ["cpu", "memory"];
const OF_CONTAINERS = [...COMPUTE, "ephemeral-storage"];
/** Object counts, which must be whole numbers. */
const COUNTED = [
  ...["pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps", "persistentvolumeclaims"],
  ...["services.nodeports", "services.loadbalancers"],
];
const STANDARD = new Set([...[...OF_CONTAINERS, "storage"].flatMap((name) => [name, `requests.${name}`, `limits.${name}`]), ...COUNTED]);

export function validateResources(resources: JsonObject, path: string): FieldError[] {
  const [limits, requests] = [objectAt(resources, "limits") ?? {}, objectAt(resources, "requests") ?? {}];
  const errors = validateAmounts(limits, `${path}.limits`);
  for (const [name, request] of Object.entries(requests)) {
    errors.push(...validateAmounts({ [name]: request }, `${path}.requests`));
    const limit = limits[name];
    if (limit === undefined) {
      if (!mayExceed(name)) errors.push(fieldRequired(`${path}.limits`, "Limit must be set for non overcommitable resources"));
      continue;
    }
    const difference = nanosOf(request) - nanosOf(limit);
    const wanted = mayExceed(name) ? "less than or equal" : "equal";
    if (difference > 0n || (difference < 0n && !mayExceed(name)))
      errors.push(fieldInvalid(`${path}.requests`, request, `must be ${wanted} to ${name} limit of ${String(limit)}`));
  }
  const names = [...Object.keys(limits), ...Object.keys(requests)];
  if (names.some(isHugePages) && !names.some((name) => COMPUTE.includes(name)))
    errors.push(fieldForbidden(path, "HugePages require cpu or memory"));
  return errors;
}

function validateAmounts(amounts: JsonObject, path: string): FieldError[] {
  return Object.entries(amounts).flatMap(([name, amount]) => {
    const at = `${path}[${name}]`;
    return [...validateContainerResourceName(name, at), ...validateAmount(name, amount, at)];
  });
}

/** Validates the amount of a resource; also used for `hard` of a quota. */
export function validateAmount(name: string, amount: unknown, at: string): FieldError[] {
  const nanos = nanosOf(amount);
  const text = String(amount);
  if (nanos < 0n) return [fieldInvalid(at, text, "must be greater than or equal to 0")];
  const isWhole = isExtended(name) || COUNTED.includes(name);
  return isWhole && nanos % ONE !== 0n ? [fieldInvalid(at, text, "must be an integer")] : [];
}

function validateContainerResourceName(name: string, at: string): FieldError[] {
  const errors = validateKey(name, at);
  if (name.includes("/"))
    return isNative(name) || isExtended(name)
      ? errors
      : [...errors, fieldInvalid(at, name, "doesn't follow extended resource name standard")];
  if (errors.length === 0 && !STANDARD.has(name) && !isHugePages(name))
    errors.push(fieldInvalid(at, name, "must be a standard resource type or fully qualified"));
  if (!OF_CONTAINERS.includes(name) && !isHugePages(name))
    errors.push(fieldInvalid(at, name, "must be a standard resource for containers"));
  return errors;
}

function isNative(name: string): boolean {
  return !name.includes("/") || name.includes("kubernetes.io/");
}

function isExtended(name: string): boolean {
  return !isNative(name) && !name.startsWith("requests.") && validateKey(`requests.${name}`, "").length === 0;
}

function isHugePages(name: string): boolean {
  return name.startsWith("hugepages-");
}

/** Whether a limit may exceed its request. */
function mayExceed(name: string): boolean {
  return isNative(name) && !isHugePages(name);
}

/** `amount` is a valid quantity: the decoder has accepted it. */
function nanosOf(amount: unknown): bigint {
  const quantity = parseQuantity(String(amount));
  return quantity === undefined ? 0n : quantityNanos(quantity);
}
